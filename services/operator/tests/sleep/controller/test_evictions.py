"""Which pods are evicted, and what becomes of an eviction that fails."""

import json

import pytest
from services.operator.tests.sleep.sleep_objects import owned_pod
from structlog.testing import capture_logs

from joulie_api.errors import ApiError, NotFound, TooManyRequests
from joulie_core.sleep import SleepState
from joulie_operator.sleep.pods import read_pod


async def test_pods_that_move_are_evicted_from_nodes_that_drain_and_no_others(world):
    world.node(SleepState.DRAINING)
    world.node(SleepState.CORDONED, "n2")
    world.pod("agent", owner="DaemonSet")
    world.pod("web", namespace="team")
    world.pod("job", owner="Job")
    world.pod("elsewhere", "n2")
    ending = owned_pod("ending")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.watches.pods["ending"] = read_pod(json.dumps(ending).encode())
    await world.step()
    assert world.api.of("evict") == [("team", "web")]
    assert world.evictions("evicted") == 1


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (TooManyRequests(429, "TooManyRequests", "budget"), "blocked"),
        (NotFound(404, "NotFound", "gone"), "gone"),
        (ApiError(500, "", "broken"), "failed"),
    ],
)
async def test_an_eviction_that_fails_is_counted_and_holds_no_other_up(world, error, result):
    world.node(SleepState.DRAINING)
    world.pod("a")
    world.pod("b")
    world.api.errors["evict"] = [error]
    await world.step()
    assert [name for _, name in world.api.of("evict")] == ["a", "b"]
    assert (world.evictions(result), world.evictions("evicted")) == (1, 1)


async def test_an_eviction_that_a_budget_holds_up_is_in_the_log_once_with_its_pod_until_it_succeeds(world):
    world.node(SleepState.DRAINING)
    world.pod("web", namespace="team")
    world.api.errors["evict"] = [TooManyRequests(429, "TooManyRequests", f"budget {each}") for each in range(2)]
    with capture_logs() as logs:
        for _ in range(3):
            await world.step()
    subject = {"pod": "web", "namespace": "team", "node": "n1"}
    found = [each for each in logs if each["event"].startswith("sleep write")]
    assert [each["event"] for each in found] == ["sleep write failed, will be repeated", "sleep write succeeded"]
    assert ({"cause": "budget"} | subject).items() <= found[0].items()
    assert "budget 0" in found[0]["problem"]
    assert subject.items() <= found[1].items()


async def test_an_eviction_that_is_refused_is_in_the_log_with_its_pod(world):
    world.node(SleepState.DRAINING)
    world.pod("web", namespace="team")
    world.api.errors["evict"] = [ApiError(500, "", "broken")]
    with capture_logs() as logs:
        await world.step()
    (found,) = (each for each in logs if each["event"] == "sleep write failed, will be repeated")
    assert {"pod": "web", "namespace": "team", "node": "n1", "cause": "ApiError"}.items() <= found.items()


async def test_an_eviction_that_fails_for_an_unexpected_reason_is_a_defect_and_not_counted_as_made(world):
    world.node(SleepState.DRAINING)
    world.pod("a")
    world.pod("b")
    world.api.errors["evict"] = [OverflowError("a defect")]
    with capture_logs() as logs:
        await world.step()
    assert [name for _, name in world.api.of("evict")] == ["a", "b"]
    assert (world.defects("evict pod"), world.evictions("evicted")) == (1, 1)
    (found,) = (each for each in logs if each["event"] == "internal error, will be repeated")
    assert {"pod": "a", "namespace": "default", "node": "n1"}.items() <= found.items()
