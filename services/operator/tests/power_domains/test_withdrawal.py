"""Where power domains are off: what is sent for the NodePowerBudgets that are left, on the in-process API server."""

import asyncio
import contextlib
import json

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.apply import FencedWriter
from joulie_api.errors import NotLeader
from joulie_api.failures import Failures
from joulie_operator.power_domains import withdrawal
from joulie_operator.power_domains.withdrawal import BudgetWithdrawal
from joulie_testing.api import Disconnect, Respond, make_node_power_budget

_PATH = "/apis/joulie.io/v1alpha1/nodepowerbudgets"


@pytest.fixture
def build(fake_client):
    def make(guard=lambda: True):
        return BudgetWithdrawal(
            fake_client, FencedWriter(fake_client, "joulie-operator", guard=guard), Failures(CollectorRegistry())
        )

    return make


@pytest.fixture
def left(fake_api):
    """Return the names of the objects that are there."""
    return lambda: sorted(each["metadata"]["name"] for each in fake_api.objects("NodePowerBudget"))


def deletions(api):
    return [(each.path, each.json()["preconditions"]) for each in api.requests if each.verb == "delete"]


async def test_every_object_is_deleted_on_the_version_that_was_seen(fake_api, build, left):
    stored = [fake_api.put(make_node_power_budget(name)) for name in ("n1", "n2")]
    versions = [each["metadata"]["resourceVersion"] for each in stored]
    with capture_logs() as logs:
        assert await build().withdraw()
    assert deletions(fake_api) == [
        (f"{_PATH}/{name}", {"resourceVersion": version}) for name, version in zip(("n1", "n2"), versions, strict=True)
    ]
    assert left() == []
    (told,) = logs
    assert (told["event"], told["nodes"]) == ("power domains are off: limits of nodes withdrawn", 2)


async def test_where_none_is_left_nothing_is_written_and_nothing_logged(fake_api, build):
    with capture_logs() as logs:
        assert await build().withdraw()
    assert [each.verb for each in fake_api.requests] == ["list"]
    assert logs == []


async def test_a_cluster_without_the_kind_has_nothing_left(fake_api, build):
    fake_api.faults.add(Respond(404), verb="list", path=_PATH)
    assert await build().withdraw()


@pytest.mark.parametrize("answer", [Respond(403), Respond(500), Disconnect()], ids=["forbidden", "broken", "cut"])
async def test_what_cannot_be_listed_is_repeated(fake_api, build, left, answer):
    fake_api.put(make_node_power_budget("n1"))
    fake_api.faults.add(answer, verb="list", path=_PATH, times=None)
    withdrawn = build()
    assert not await withdrawn.withdraw()
    fake_api.faults.clear()
    assert await withdrawn.withdraw()
    assert left() == []


@pytest.mark.parametrize("answer", [Respond(409, reason="Conflict"), Respond(500), Disconnect()], ids=str)
async def test_one_that_fails_stops_no_other_and_is_repeated(fake_api, build, left, answer):
    for name in ("n1", "n2"):
        fake_api.put(make_node_power_budget(name))
    fake_api.faults.add(answer, verb="delete", path=f"{_PATH}/n1", times=None)
    withdrawn = build()
    assert not await withdrawn.withdraw()
    assert left() == ["n1"]
    fake_api.faults.clear()
    assert await withdrawn.withdraw()
    assert left() == []


async def test_one_that_was_deleted_meanwhile_is_none_that_is_left(fake_api, build):
    fake_api.put(make_node_power_budget("n1"))
    fake_api.faults.add(Respond(404), verb="delete", path=f"{_PATH}/n1")
    assert await build().withdraw()


async def test_without_the_lease_nothing_is_deleted(fake_api, build, left):
    fake_api.put(make_node_power_budget("n1"))
    with pytest.raises(NotLeader):
        await build(guard=lambda: False).withdraw()
    assert left() == ["n1"]
    assert deletions(fake_api) == []


async def test_it_is_looked_for_again(fake_api, build, left, monkeypatch):
    monkeypatch.setattr(withdrawal, "LOOK_S", 0.01)
    task = asyncio.create_task(build().run())
    await fake_api.wait_for(lambda: len(fake_api.requests) >= 2)
    fake_api.put(make_node_power_budget("n1"))
    await fake_api.wait_for(lambda: left() == [])
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def pauses(monkeypatch, withdrawn):
    """Return the seconds that one round of the loop pauses for."""
    found = []

    async def sleep(seconds):
        found.append(seconds)
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(withdrawal.asyncio, "sleep", sleep)
        with contextlib.suppress(asyncio.CancelledError):
            await withdrawn.run()
    return found


async def test_what_failed_is_repeated_in_seconds_and_else_it_is_looked_for_in_minutes(fake_api, build, monkeypatch):
    withdrawn = build()
    assert await pauses(monkeypatch, withdrawn) == [600.0]
    fake_api.put(make_node_power_budget("n1"))
    fake_api.faults.add(Respond(500), verb="delete", path=f"{_PATH}/n1", times=None)
    assert await pauses(monkeypatch, withdrawn) == [5.0]


async def test_after_a_defect_it_is_repeated_in_seconds(build, monkeypatch):
    withdrawn = build()

    async def withdraw():
        raise RuntimeError("a defect")

    monkeypatch.setattr(withdrawn, "withdraw", withdraw)
    with capture_logs() as logs:
        assert await pauses(monkeypatch, withdrawn) == [5.0]
    assert [each["log_level"] for each in logs] == ["error"]
    assert "withdraw power budgets" in logs[0].values()


async def told(withdrawn):
    with capture_logs() as logs:
        await withdrawn.withdraw()
    return [(each["event"], each.get("node"), str(each.get("problem", ""))) for each in logs]


async def test_a_failure_is_told_once_with_its_reason_and_so_is_its_end(fake_api, build):
    withdrawn = build()
    fake_api.faults.add(Respond(403), verb="list", path=_PATH, times=None)
    ((event, node, error),) = await told(withdrawn)
    assert (event, node) == ("power budgets not withdrawn, will be repeated", None)
    assert "403" in error
    assert await told(withdrawn) == []
    fake_api.faults.clear()
    assert await told(withdrawn) == [("power budgets are withdrawn again", None, "")]


async def test_a_node_whose_object_cannot_be_deleted_is_named(fake_api, build):
    withdrawn = build()
    for name in ("n1", "n2"):
        fake_api.put(make_node_power_budget(name))
    for name in ("n1", "n2"):
        fake_api.faults.add(Respond(500), verb="delete", path=f"{_PATH}/{name}", times=None)
    found = await told(withdrawn)
    assert {(event, node) for event, node, _ in found} == {
        ("power budgets not withdrawn, will be repeated", name) for name in ("n1", "n2")
    }
    assert all("500" in error for _, _, error in found)
    assert await told(withdrawn) == []
    # One that is gone otherwise is told no more.
    fake_api.faults.clear()
    fake_api.remove("NodePowerBudget", "n2")
    recovered = await told(withdrawn)
    assert ("power budgets are withdrawn again", "n1", "") in recovered
    assert "n2" not in {node for _, node, _ in recovered}


async def test_only_metadata_is_read(fake_api, build):
    await build().withdraw()
    (request,) = fake_api.requests
    assert "PartialObjectMetadataList" in request.accept


async def test_an_object_without_a_name_is_counted_and_keeps_no_other(fake_api, fake_client, left):
    registry = CollectorRegistry()
    found = BudgetWithdrawal(fake_client, FencedWriter(fake_client, "joulie-operator"), Failures(registry))
    fake_api.put(make_node_power_budget("n1"))
    listed = fake_api.get("NodePowerBudget", "n1")
    body = json.dumps(
        {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": 5}}, listed]}
    ).encode()
    fake_api.faults.add(Respond(200, body=body), verb="list", path=_PATH)
    with capture_logs() as logs:
        assert not await found.withdraw()
    assert left() == []
    (refused,) = [each for each in logs if each.get("source")]
    assert refused["source"] == "nodepowerbudgets.joulie.io"
    assert refused["problem"]
    samples = [each for family in registry.collect() for each in family.samples if each.name.endswith("_total")]
    assert [each.value for each in samples if each.labels.get("source") == "nodepowerbudgets.joulie.io"] == [1.0]
