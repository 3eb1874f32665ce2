"""What the extender asks the API server for, what it makes of the answers, and when it holds them for too old."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from joulie_api.client import WATCH_IDLE_TIMEOUT_S
from joulie_api.log_limit import LogLimit
from joulie_core.pod import Pod, PodClaim
from joulie_extender.watches import ExtenderWatches
from joulie_testing.api import Respond, claiming, dra_definitions, make_claim, make_node, make_pod

WATCHES = ["nodes", "nodetwins.joulie.io", "nodehardwares.joulie.io", "pods"]


class Table:
    """What a table is told, in order."""

    def __init__(self):
        self.told = []
        self.refreshed = []

    def on_node(self, key, old, new):
        self.told.append(("node", key))

    def on_twin(self, key, old, new):
        self.told.append(("twin", key))

    def on_hardware(self, key, old, new):
        self.told.append(("hardware", key, new.cpu.total_cores))

    def on_pod(self, old, new, *, counted):
        self.told.append(("pod", new.node, new.demand.cpu_cores, new.demand.gpus, counted))

    def refresh(self, *, silent):
        self.refreshed.append(silent)


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def feeds(fake_client, table):
    return ExtenderWatches(fake_client, table, cache_ttl_s=30.0)


@asynccontextmanager
async def running(feeds):
    tasks = [asyncio.create_task(work, name=name) for name, work in feeds.runs()]
    try:
        async with asyncio.timeout(10):
            yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition):
    while not condition():  # noqa: ASYNC110 - nothing reports it
        await asyncio.sleep(0.005)


async def test_each_kind_is_watched_by_a_task_that_has_its_name(feeds):
    async with running(feeds) as tasks:
        assert [task.get_name() for task in tasks] == [f"watch {name}" for name in (*WATCHES, "claims")]
        assert not [task for task in tasks if task.done()]


def test_all_watches_are_told(feeds):
    claims = ["resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"]
    assert [each.name for each in feeds.reflectors] == [*WATCHES, *claims, "deviceclasses.resource.k8s.io"]


async def test_only_pods_that_may_draw_power_on_a_node_are_asked_for(feeds, fake_api):
    async with running(feeds):
        await until(lambda: fake_api.watches() == 4)
    selected = {
        (request.verb, request.path): request.query.get("fieldSelector")
        for request in fake_api.requests
        if "resource.k8s.io" not in request.path
    }
    paths = [
        "/api/v1/nodes",
        "/apis/joulie.io/v1alpha1/nodetwins",
        "/apis/joulie.io/v1alpha1/nodehardwares",
    ]
    bound = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    assert selected == {(verb, path): None for verb in ("list", "watch") for path in paths} | {
        (verb, "/api/v1/pods"): bound for verb in ("list", "watch")
    }


async def test_the_table_is_told_of_every_object_and_which_pods_measurements_have_already(
    feeds, table, fake_api, make_twin, make_hardware
):
    fake_api.put_all([make_node("n"), make_twin("n"), make_hardware("n", cores=96), make_pod("old", cpu=1, node="n")])
    async with running(feeds):
        await feeds.wait_synced()
        assert feeds.synced
        fake_api.put(make_pod("new", cpu=2, node="n"))
        await until(lambda: len(table.told) == 5)
    assert sorted(table.told[:4]) == [
        ("hardware", "n", 96),
        ("node", "n"),
        ("pod", "n", 1, 0, True),
        ("twin", "n"),
    ]
    assert table.told[4:] == [("pod", "n", 2, 0, False)]


async def test_pods_are_read_once_their_claims_are_known_or_cannot_be(feeds, fake_api, monkeypatch):
    settled = asyncio.Event()
    monkeypatch.setattr(feeds.claims, "wait_settled", settled.wait)
    async with running(feeds):
        await until(lambda: fake_api.watches() == 3)
        assert not fake_api.requests.find(kind="Pod")
        settled.set()
        await feeds.wait_synced()
        assert fake_api.requests.find(kind="Pod", verb="list")


async def test_claims_of_bound_pods_count_by_their_device_classes(fake_client, table, fake_api):
    fake_api.put_all([*dra_definitions(), make_claim("c", count=2, device_class="half.example.com")])
    fake_api.put(claiming(make_pod("p", cpu=1, node="n"), claim="c"))
    feeds = ExtenderWatches(
        fake_client, table, cache_ttl_s=30.0, device_classes={"half.example.com": 0.5}, request_log_limit=LogLimit()
    )
    async with running(feeds):
        await feeds.wait_synced()
    assert table.told == [("pod", "n", 1, 1.0, True)]


def test_lines_about_claims_share_the_limit_of_those_about_requests(fake_client, table, capsys):
    limit = LogLimit(clock=lambda: 0.0)
    feeds = ExtenderWatches(fake_client, table, cache_ttl_s=30.0, request_log_limit=limit)
    limit.admit()
    feeds.claims.gpus(Pod(name="p", namespace="ns", claims=(PodClaim(claim="c", template=None),)))
    assert limit.admit() is None
    assert "claim unknown" not in capsys.readouterr().out


async def test_before_any_list_every_watch_is_incomplete_by_name(feeds, table):
    assert feeds.stale_reason() == "; ".join(f"{name}: first list not complete" for name in WATCHES)
    assert not feeds.synced
    feeds.refresh()
    assert table.refreshed == [True]


async def test_one_list_that_is_not_complete_is_named_and_makes_all_silent(feeds, table, fake_api):
    fake_api.faults.add(Respond(403), verb="list", path="/nodehardwares", times=None)
    async with running(feeds):
        await until(lambda: (feeds.stale_reason() or "").count(":") and fake_api.watches() == 3)
        reason = feeds.stale_reason()
        assert reason.startswith("nodehardwares.joulie.io: first list not complete")
        assert ";" not in reason
        assert not feeds.synced
        waiting = asyncio.create_task(feeds.wait_synced())
        await asyncio.wait({waiting}, timeout=0)
        assert not waiting.done()
        waiting.cancel()
        feeds.refresh()
    assert table.refreshed == [True]


async def test_watches_are_too_old_after_the_time_to_live_and_that_of_a_bookmark(feeds, table, monkeypatch):
    async with running(feeds):
        await feeds.wait_synced()
        await until(lambda: not [each for each in feeds.reflectors[:4] if each.problem is not None])
        for age_s, old in [(30.0 + WATCH_IDLE_TIMEOUT_S, False), (31.0 + WATCH_IDLE_TIMEOUT_S, True)]:
            monkeypatch.setattr(type(feeds.reflectors[0]), "age_s", lambda _self, age_s=age_s: age_s)
            told = "; ".join(f"{name}: no contact for {age_s:.0f} s" for name in WATCHES)
            assert feeds.stale_reason() == (told if old else None)
            feeds.refresh()
    assert table.refreshed == [False, True]
