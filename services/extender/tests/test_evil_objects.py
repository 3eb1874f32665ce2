"""Objects that cannot be right, among valid ones: each is set aside alone, and the scores of the others stand."""

import pytest

from joulie_testing.api import make_node, make_node_hardware, make_pod

#: Of a class whose scores depend on the node alone, and without a uid, so that a question changes nothing.
POD = make_pod(cpu=1, workload_class="performance")
POD["metadata"].pop("uid", None)


def twin_with(make_twin, **status):
    twin = make_twin("evil")
    twin["status"] |= status
    return twin


EVIL = {
    "a twin with infinite figures": lambda make_twin: twin_with(
        make_twin,
        predictedPowerHeadroomScore=1e308,
        estimatedPUE=1e308,
        powerMeasurement={
            "source": "agent",
            "quality": "measured",
            "measuredNodePowerW": 1e308,
            "nodeCappedPowerW": 1e308,
            "nodeTdpW": 1e308,
            "powerTrendWPerMin": -1e308,
        },
    ),
    "a twin with texts for numbers": lambda make_twin: twin_with(make_twin, predictedPowerHeadroomScore="high"),
    "a twin with an integer of 400 digits": lambda make_twin: twin_with(make_twin, estimatedPUE=10**400),
    "a twin that is dated in the year 0": lambda make_twin: twin_with(make_twin, lastUpdated="0000-00-00T00:00:00Z"),
    "hardware of infinite watts": lambda _: make_node_hardware(
        "evil", cpu={"sockets": 2**63 - 1, "totalCores": 2**63 - 1, "capRange": {"maxWattsPerSocket": 1e308}}
    ),
    "a node with endless resources": lambda _: make_node("evil", cpu="9Ei", memory="9Ei"),
    "a pod with endless requests": lambda _: make_pod("evil", node="evil", cpu="9Ei", phase="Running"),
    "a pod with 20,000 containers": lambda _: (
        make_pod("evil", node="evil", phase="Running")
        | {"spec": {"nodeName": "evil", "containers": [{"resources": {"requests": {"cpu": "1"}}}] * 20_000}}
    ),
}


@pytest.mark.parametrize("make", EVIL.values(), ids=EVIL.keys())
async def test_an_object_that_cannot_be_right_leaves_other_nodes_as_they_were(start, make_twin, make):
    extender = await start()
    extender.api.put_all([make_twin("a"), make_twin("b", measured=500)])
    await extender.wait_for(lambda: len(extender.table) == 2)
    before = await extender.scores(POD, "b", "unknown")
    evil = make(make_twin)
    extender.api.put_all([evil])
    # A later event of each watch shows that the evil one is behind it.
    later = make_pod("later", node="later", cpu=1, phase="Running")
    extender.api.put_all([make_twin("later"), make_node_hardware("later"), make_node("later"), later])
    await extender.wait_for(lambda: (entry := extender.table.entry("later")).node and entry.hardware and entry.twin)
    await extender.wait_for(lambda: extender.table.entry("later").state.assumed_watts > 0)
    assert await extender.scores(POD, "b", "unknown") == before
    assert 0 <= (await extender.scores(POD, "evil"))["evil"] <= 100
