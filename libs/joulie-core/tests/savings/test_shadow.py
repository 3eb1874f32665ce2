"""The shadow placement: pods as kube-scheduler's default scores would place them, from their start to their end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.names import NodeName
from joulie_core.savings.estimator import moved_range, score_rate
from joulie_core.savings.node_loads import HeldLoad, NodeLoadModel
from joulie_core.savings.rates import UNKNOWN_RATE
from joulie_core.savings.shadow import MovedWatts, ShadowCluster
from joulie_core.savings.shadow_nodes import ShadowNode, ShadowPod

GIB = 1024.0**3
_A, _B, _C = (NodeName(name) for name in "abc")
#: 10 W for each thread that is used, whatever the load.
_MODEL = NodeLoadModel(
    family="x", error=0.1, wall_watts=tuple(100.0 + 32.0 * tenth for tenth in range(11)), threads=32.0
)


def _node(name: NodeName = _A, **changes: object) -> ShadowNode:
    node = ShadowNode(name, 32_000.0, 64 * GIB, 110, model=_MODEL)
    return replace(node, **changes)


def _pod(node: NodeName = _A, cores: float = 4.0, **changes: object) -> ShadowPod:
    return replace(ShadowPod(node, 1_000.0 * cores, 2 * GIB * cores), **changes)


def _cluster(*nodes: ShadowNode) -> ShadowCluster:
    shadow = ShadowCluster()
    for node in nodes:
        shadow.set_node(node)
    return shadow


def test_pods_that_are_packed_are_spread_in_the_shadow():
    shadow = _cluster(_node(_A), _node(_B))
    for number in range(4):
        shadow.place(str(number), _pod(_A))
    assert sorted(str(shadow.node_of(str(number))) for number in range(4)) == ["a", "a", "b", "b"]


def test_a_pod_that_ends_leaves_the_shadow():
    shadow = _cluster(_node(_A), _node(_B))
    shadow.place("1", _pod(_A))
    shadow.remove("1")
    assert shadow.node_of("1") is None
    assert [moved.watts for moved in shadow.moved()] == [0.0, 0.0]
    shadow.check()


@pytest.mark.parametrize(
    ("pod", "other"),
    [
        (_pod(_A, fixed=True), _node(_B)),
        (_pod(_A), _node(_B, open=False)),
        (_pod(_A), _node(_B, cpu_milli=3_000.0)),
        (_pod(_A), _node(_B, memory_bytes=GIB)),
        (_pod(_A), _node(_B, pods=0)),
        (_pod(_A, gpus=1.0), _node(_B, gpus=8.0, gpu_kind="amd.com/gpu")),
        (_pod(_A, gpus=1.0), _node(_B, gpu_kind="nvidia.com/gpu")),
    ],
    ids=["fixed", "closed node", "CPU", "memory", "pods", "other GPUs", "no GPU"],
)
def test_a_pod_stays_where_it_is_if_the_other_node_has_no_room_for_it(pod, other):
    # The real node is full, so that any room elsewhere would have the higher score.
    shadow = _cluster(_node(_A, gpus=8.0, gpu_kind="nvidia.com/gpu"), other)
    shadow.place("full", _pod(_A, cores=28.0, fixed=True))
    shadow.place("1", pod)
    assert shadow.node_of("1") == _A


def test_a_pod_goes_to_gpus_of_its_kind_alone():
    kind = {"gpus": 8.0, "gpu_kind": "nvidia.com/gpu"}
    shadow = _cluster(_node(_A, **kind), _node(_B, **kind))
    shadow.place("1", _pod(_A, gpus=8.0, fixed=True))
    shadow.place("2", _pod(_A, gpus=1.0))
    assert shadow.node_of("2") == _B


def test_a_pod_of_a_node_that_is_closed_stays_there():
    shadow = _cluster(_node(_A, open=False), _node(_B))
    shadow.place("1", _pod(_A))
    assert shadow.node_of("1") == _A


def test_a_pod_of_a_node_that_is_not_managed_is_not_in_the_shadow():
    shadow = _cluster(_node(_A))
    shadow.place("1", _pod(_C))
    assert len(shadow) == 0


def test_a_node_that_leaves_returns_its_pods_and_those_that_were_there_in_the_shadow():
    shadow = _cluster(_node(_A), _node(_B))
    shadow.place("0", _pod(_A, cores=16.0, fixed=True))
    shadow.place("1", _pod(_A))
    assert shadow.node_of("1") == _B
    assert [key for key, _ in shadow.remove_node(_B)] == ["1"]
    assert [key for key, _ in shadow.remove_node(_A)] == ["0"]
    assert len(shadow) == 0
    assert list(shadow.moved()) == []


def test_a_node_of_half_the_work_per_second_is_loaded_for_twice_as_long():
    fast, slow = replace(_MODEL, work_per_thread=2.0), replace(_MODEL, work_per_thread=1.0)
    shadow = _cluster(_node(_A, model=fast, open=True), _node(_B, model=slow))
    shadow.place("0", _pod(_A, cores=16.0, fixed=True))
    shadow.place("1", _pod(_A))
    assert shadow.node_of("1") == _B
    moved = {each.model: each for each in shadow.moved()}
    # 4 threads, of which 0.8 are used.
    assert moved[fast].watts == pytest.approx(-32.0)
    assert moved[slow].watts == pytest.approx(64.0)
    assert moved[slow].by_work == pytest.approx(32.0)


def test_where_nothing_is_published_a_thread_counts_as_a_thread():
    shadow = _cluster(_node(_A, model=replace(_MODEL, work_per_thread=2.0)), _node(_B))
    shadow.place("0", _pod(_A, cores=16.0, fixed=True))
    shadow.place("1", _pod(_A))
    assert shadow.node_of("1") == _B
    assert sum(each.watts for each in shadow.moved()) == pytest.approx(0.0)


def test_load_on_nodes_of_unknown_hardware_is_unknown():
    shadow = _cluster(_node(_A), _node(_B, model=None, open=False))
    shadow.place("1", _pod(_A, cores=6.0))
    shadow.place("2", _pod(_B, cores=2.0))
    assert score_rate(shadow, backlog=False).unknown_share == 0.25


def test_until_all_pods_are_placed_the_score_is_unknown():
    assert score_rate(_cluster(_node(_A)), backlog=True) == UNKNOWN_RATE


def test_errors_of_families_are_independent_and_cancel_within_one():
    other = replace(_MODEL, family="y", error=0.2)
    found = moved_range(
        [MovedWatts(_MODEL, 300.0, 0.0), MovedWatts(_MODEL, -200.0, 0.0), MovedWatts(other, 50.0, 40.0)]
    )
    # 0.1 of 100 W, 0.2 of 50 W, a quarter of 150 W, half of 40 W.
    error = (10.0**2 + 10.0**2 + 37.5**2 + 20.0**2) ** 0.5
    assert (found.lower, found.middle, found.upper) == (
        pytest.approx(150.0 - error),
        pytest.approx(150.0),
        pytest.approx(150.0 + error),
    )


def test_watts_are_those_of_used_threads_and_of_gpus_that_there_are():
    model = replace(_MODEL, watts_per_gpu=300.0, gpus=8.0)
    assert model.watts(HeldLoad(10.0, 2.0)) == pytest.approx(80.0 + 600.0)
    assert model.watts(HeldLoad(100.0, 20.0)) == pytest.approx(320.0 + 2_400.0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("place"), st.integers(0, 9), st.sampled_from([_A, _B, _C]), st.integers(0, 40)),
            st.tuples(st.just("remove"), st.integers(0, 9), st.just(_A), st.just(0)),
            st.tuples(st.just("node"), st.integers(1, 40), st.sampled_from([_A, _B, _C]), st.just(0)),
            st.tuples(st.just("gone"), st.just(0), st.sampled_from([_A, _B, _C]), st.just(0)),
        ),
        max_size=40,
    )
)
def test_sums_are_those_of_the_pods_whatever_happens(events):
    shadow = _cluster(_node(_A), _node(_B))
    for what, number, node, cores in events:
        match what:
            case "place":
                shadow.place(str(number), _pod(node, cores=float(cores)))
            case "remove":
                shadow.remove(str(number))
            case "node":
                shadow.set_node(_node(node, cpu_milli=1_000.0 * number))
            case _:
                shadow.remove_node(node)
        shadow.check()
    # What is saved by the same placement is nothing: watts of both sides are of the same pods.
    for key in range(10):
        shadow.remove(str(key))
    assert all(each.watts == pytest.approx(0.0) for each in shadow.moved())
