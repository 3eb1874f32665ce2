"""Placement by power budgets, as kube-scheduler sees it: the answers of /filter and /prioritize."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.scoring.state import SupplyFigure
from joulie_extender.supplies import DomainSupplies
from joulie_testing.api import make_node, make_pod

#: With `make_hardware` of 128 cores and 700 W: 0.8 * 700 / 128 W a core.
WATTS_PER_CORE = 4.375
NAMES = ["a", "b"]


def pod(cores=16, workload_class="performance", uid=None):
    made = make_pod("p", cpu=cores, workload_class=workload_class)
    made["metadata"] |= {"uid": uid} if uid else {}
    return made


def domains(**watts):
    """The field of a twin; None: not known."""
    return [{"domain": name, **({} if each is None else {"availableWatts": each})} for name, each in watts.items()]


@pytest.fixture
async def world(start, fake_api, make_twin, make_hardware):
    """An extender; its nodes `a` and `b` are below what the test names."""

    async def run(a=None, b=None, **env):
        for name, above in zip(NAMES, (a, b), strict=True):
            fields = {} if above is None else {"powerDomains": domains(**above)}
            fake_api.put_all([make_node(name), make_hardware(name), make_twin(name, **fields)])
        return await start(**env)

    return run


async def filtered(extender, made):
    status, answer = await extender.post("/filter", {"Pod": made, "Nodes": None, "NodeNames": NAMES})
    assert status == 200
    assert answer["FailedAndUnresolvableNodes"] == answer["FailedNodes"]
    assert sorted([*answer["NodeNames"], *answer["FailedNodes"]]) == NAMES
    return answer["FailedNodes"]


async def test_a_performance_pod_is_refused_where_a_domain_cannot_supply_its_watts(world):
    extender = await world(a={"rack-1": 69, "feed": 900}, b={"rack-2": 70, "feed": 900})
    refused = await filtered(extender, pod())
    assert refused == {"a": "joulie: power domain rack-1 can supply 69 W more, the pod needs 70 W"}
    assert await filtered(extender, pod(workload_class="standard")) == {}


async def test_full_nodes_are_judged_alike(world):
    extender = await world(a={"rack-1": 69}, b={"rack-2": 70})
    nodes = [make_node(name) for name in NAMES]
    _, answer = await extender.post("/filter", {"Pod": pod(), "Nodes": {"items": nodes}, "NodeNames": None})
    assert list(answer["FailedNodes"]) == ["a"]
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["b"]


async def test_an_eco_node_keeps_its_own_reason(start, fake_api, make_twin, make_hardware):
    twin = make_twin("a", "eco", powerDomains=domains(**{"rack-1": 0}))
    fake_api.put_all([make_node("a"), make_node("b"), make_hardware("a"), twin])
    assert "node is eco" in (await filtered(await start(), pod()))["a"]


async def test_what_is_not_known_refuses_nobody_and_ranks_behind(world):
    extender = await world(a={"rack-1": None, "feed": 5_000}, b={"rack-2": 400, "feed": 5_000})
    assert await filtered(extender, pod()) == {}
    for workload_class in ("performance", "standard"):
        scores = await extender.scores(pod(workload_class=workload_class), *NAMES)
        assert scores["a"] < scores["b"]


async def test_a_twin_that_is_stale_refuses_nobody_by_its_figures(world):
    extender = await world(a={"rack-1": 0}, b={"rack-2": 0}, TWIN_STALENESS_THRESHOLD="60s")
    assert len(await filtered(extender, pod())) == 2
    extender.clock.now_s += 61
    assert await filtered(extender, pod()) == {}


async def test_nodes_whose_domains_have_more_left_are_preferred(world):
    extender = await world(a={"rack-1": 100}, b={"rack-2": 900})
    for workload_class in ("performance", "standard"):
        scores = await extender.scores(pod(workload_class=workload_class), *NAMES)
        assert scores["b"] - scores["a"] == 16


async def test_a_burst_counts_once_in_each_domain_wherever_its_pods_are(world):
    extender = await world(a={"rack-1": 300, "feed": 200}, b={"rack-2": 300, "feed": 200})
    extender.api.put(make_pod("one", cpu=16, node="a"))
    extender.api.put(make_pod("two", cpu=16, node="b"))
    await extender.wait_for(lambda: all(extender.table.entry(name).state.assumed_watts for name in NAMES))
    # 200 W of the feed, of which two pods of 70 W are in flight.
    assert await filtered(extender, pod(cores=12)) == {}
    refused = await filtered(extender, pod(cores=16))
    assert refused == dict.fromkeys(NAMES, "joulie: power domain feed can supply 60 W more, the pod needs 70 W")
    extender.api.remove("Pod", "one", "default")
    await extender.wait_for(lambda: not extender.table.entry("a").state.assumed_watts)
    assert await filtered(extender, pod(cores=16)) == {}


async def test_a_pod_that_was_scored_is_in_flight_until_it_is_seen_elsewhere(world):
    extender = await world(a={"feed": 100}, b={"feed": 100})
    await extender.scores(pod(uid="first"), *NAMES)
    await extender.wait_for(lambda: any(extender.table.entry(name).state.assumed_watts for name in NAMES))
    assert len(await filtered(extender, pod(uid="second"))) == 2


async def test_a_pod_in_flight_leaves_with_its_node(world, fake_api):
    extender = await world(a={"feed": 100}, b={"feed": 100})
    extender.api.put(make_pod("one", cpu=16, node="a"))
    await extender.wait_for(lambda: extender.table.entry("a").state.assumed_watts)
    assert len(await filtered(extender, pod())) == 2
    for kind in ("NodeTwin", "NodeHardware", "Node"):
        extender.api.remove(kind, "a")
    await extender.wait_for(lambda: extender.table.entry("a").node is None and extender.table.entry("a").twin is None)
    assert await filtered(extender, pod()) == {}


@given(
    st.lists(st.tuples(st.floats(0, 900), st.floats(0, 900)), min_size=2, max_size=2),
    st.floats(0, 64),
    st.sampled_from([0.0, 1.0, 8.0]),
    st.floats(0, 500),
)
def test_exactly_those_nodes_are_refused_that_are_judged_so_one_by_one(watts, cores, gpus, in_flight):
    supplies = DomainSupplies()
    for name, (rack, feed) in zip(NAMES, watts, strict=True):
        supplies.put(
            name,
            (SupplyFigure(f"rack-{name}", rack), SupplyFigure("feed", feed)),
            in_flight,
            (4.375, 300.0),
            known=True,
        )
    needed = cores * 4.375 + gpus * 300.0
    doubtful = set(supplies.doubtful(NAMES, cores, gpus))
    assert {name for name in NAMES if supplies.judge(name, needed) is not None} <= doubtful
    assert all(supplies.judge(name, needed * 1.001 + 1e-3) is not None for name in doubtful)


async def test_a_domain_that_is_named_twice_counts_pods_once(world, make_twin):
    extender = await world(b={"feed": 100})
    extender.api.put(make_twin("a", powerDomains=[*domains(feed=100), *domains(feed=90)]))
    extender.api.put(make_pod("one", cpu=4, node="a"))
    await extender.wait_for(lambda: (state := extender.table.entry("a").state).supplies and state.assumed_watts)
    assert set(await filtered(extender, pod(cores=18))) == {"a"}
    extender.api.remove("Pod", "one", "default")
    await extender.wait_for(lambda: not extender.table.entry("a").state.assumed_watts)
    assert await filtered(extender, pod(cores=20)) == {}


#: As answered before there were power domains.
PLAIN = (
    b'{"Nodes":null,"NodeNames":["a","b"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}',
    b'[{"Score": 39,"Host":"a"},{"Score": 39,"Host":"b"}]',
)


async def test_without_domains_the_answers_are_the_bytes_that_they_were(world):
    extender = await world()
    body = msgspec.json.encode({"Pod": pod(), "Nodes": None, "NodeNames": NAMES})
    for path, plain in zip(("/filter", "/prioritize"), PLAIN, strict=True):
        async with extender.http.post(path, data=body) as answer:
            assert await answer.read() == plain
    async with extender.http.get("/debug/scoring") as answer:
        assert b"powerDomains" not in await answer.read()


async def test_what_domains_can_supply_is_shown_with_the_reason(world):
    extender = await world(a={"rack-1": 10, "feed": None})
    async with extender.http.get("/debug/scoring?node=a") as answer:
        (node,) = (await answer.json())["nodes"]
    assert node["powerDomains"] == [{"domain": "rack-1", "availableW": 10}, {"domain": "feed", "availableW": None}]
    _, explained = await extender.post("/debug/explain", {"Pod": pod(), "NodeNames": NAMES})
    first, second = explained["nodes"]
    assert first["filter"]["reason"] == "PowerDomain"
    assert first["terms"]["supply"] == -20
    assert "supply" not in second["terms"]
