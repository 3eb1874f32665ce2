"""Fits and scores that are kept for each request: the same as those that are computed anew."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.powerest.pod_demand import PodDemand
from joulie_sim.engine import node_resources
from joulie_sim.engine.kube_scores import FitStrategy
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.node_resources import PlacementRequest, ResourceRows

_GIB = 1024.0**3


def _request(cpu_milli: float, memory_gib: float, gpus: int, gpu_row: int = 0) -> PlacementRequest:
    demand = PodDemand(cpu_milli / 1000, float(gpus), memory_gib * _GIB, WorkloadClass.STANDARD)
    return PlacementRequest(cpu_milli, memory_gib * _GIB, gpus, gpu_row, demand)


_REQUESTS = (
    _request(500.0, 1.0, 0),
    _request(16_000.0, 0.0, 0),
    _request(8_000.0, 32.0, 2),
    _request(64_000.0, 300.0, 8, 1),
)
_ACTIONS = st.lists(
    st.tuples(st.sampled_from(["bind", "free", "read"]), st.integers(0, 39), st.integers(0, len(_REQUESTS) - 1)),
    max_size=60,
)


def _held(resources: ResourceRows, machines, bound) -> None:
    """Compare every row with that of resources that have seen nothing but the jobs which are bound now."""
    fresh = ResourceRows(machines, FitStrategy.LEAST_ALLOCATED)
    for node, number in bound:
        fresh.bind(_REQUESTS[number], node)
    nodes = np.arange(len(machines))
    for request in _REQUESTS:
        kept, expected = resources.row(request), fresh.row(replace(request))
        assert kept.fits.tolist() == expected.fits.tolist()
        assert kept.scores(nodes).tolist() == expected.scores(nodes).tolist()
        assert kept.scores(nodes[3::7]).tolist() == expected.scores(nodes).tolist()[3::7]
        assert [resources.fits_node(request, node) for node in range(len(machines))] == expected.fits.tolist()


@pytest.mark.parametrize(
    ("every", "kept_states", "kept_cells"),
    [(1, 8, 16_000_000), (-7, 1, 16_000_000), (1, 8, 80), (-7, 8, 16_000_000)],
    ids=["kept", "states numbered anew", "rows forgotten", "more states than nodes"],
)
def test_kept_rows_are_those_that_are_computed_anew(monkeypatch, every, kept_states, kept_cells) -> None:
    machines = machines_of(default_nodes(40)[::every], Inventory.load())
    assert len(machines.gpu_resources) == 2
    monkeypatch.setattr(node_resources, "_KEPT_STATES", kept_states)
    monkeypatch.setattr(node_resources, "_KEPT_CELLS", kept_cells)

    @given(_ACTIONS)
    def check(actions) -> None:
        resources = ResourceRows(machines, FitStrategy.LEAST_ALLOCATED)
        bound = []
        for action, place, number in actions:
            node = place % len(machines)
            if action == "bind" and resources.fits_node(_REQUESTS[number], node):
                resources.bind(_REQUESTS[number], node)
                bound.append((node, number))
            elif action == "free" and bound:
                released = bound.pop()
                resources.free(_REQUESTS[released[1]], released[0])
            elif action == "read":
                resources.row(_REQUESTS[number])
        _held(resources, machines, bound)

    check()


def test_a_node_that_is_full_of_pods_takes_no_other(machines) -> None:
    resources = ResourceRows(machines, FitStrategy.MOST_ALLOCATED)
    small = _request(1.0, 0.0, 0)
    for _ in range(int(machines.pods[0])):
        assert resources.row(small).fits[0]
        resources.bind(small, 0)
    assert np.flatnonzero(~resources.row(small).fits).tolist() == [0]
