"""The score by added joules: its two forms agree, and what is unknown never helps a node."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import HardwareView, view_from_node
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.node import Node
from joulie_core.power.curves import node_curves
from joulie_core.powerest.marginal import NodePower
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.energy_v1 import EnergyScore, cpu_cost, gpu_cost
from joulie_core.scoring.formula import NeutralReason
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot

SCORE = EnergyScore()


def _power(cpu: str, threads: int, gpu: str | None = None, count: int = 0) -> NodePower:
    labels = {"joulie.io/hw.cpu-model": cpu, "joulie.io/hw.cpu-sockets": "2"}
    if gpu is not None:
        labels |= {"joulie.io/hw.gpu-model": gpu, "joulie.io/hw.gpu-count": str(count)}
    view: HardwareView = view_from_node(Node("n", labels=labels, allocatable={"cpu": str(threads)}), Inventory.load())
    assert view.cpu is not None
    return NodePower(
        cpu_threads=view.cpu.threads,
        cpu_max_watts=view.cpu_max_watts,
        gpu_count=count,
        gpu_max_watts=view.gpu_max_watts,
        curves=node_curves(view),
    )


XEON = _power("Intel Xeon Platinum 8280", 112)
EPYC = _power("AMD EPYC 9654", 384)
A100 = _power("AMD EPYC 7763", 256, "NVIDIA A100 SXM4 40GB", 8)
T4 = _power("Intel Xeon Gold 6230", 80, "Tesla T4", 4)
UNKNOWN = NodePower()
POWERS = st.sampled_from([XEON, EPYC, A100, T4, UNKNOWN])
SHARES = st.none() | st.sampled_from([0.0, 0.2, 0.45, 0.6, 0.75, 0.9, 1.0])
STATES = st.builds(
    TwinSnapshot,
    schedulable_class=st.sampled_from(SchedulableClass),
    measured_watts=st.none() | st.floats(0, 2_000),
    cpu_cap_share=SHARES,
    gpu_cap_share=SHARES,
    assumed_watts=st.floats(0, 500),
)
DEMANDS = st.builds(
    PodDemand,
    cpu_cores=st.floats(0, 300),
    gpus=st.sampled_from([0.0, 1 / 7, 1.0, 8.0]),
    workload_class=st.sampled_from(WorkloadClass),
)
STANDARD = PodDemand(4.0)
PERFORMANCE = PodDemand(4.0, workload_class=WorkloadClass.PERFORMANCE)


def state(node_class=SchedulableClass.PERFORMANCE, measured_watts=200.0, **values) -> TwinSnapshot:
    return TwinSnapshot(
        node_class, measured_watts=measured_watts, **{"cpu_cap_share": 1.0, "gpu_cap_share": 1.0} | values
    )


def terms_of(node, power, demand=STANDARD, *, stale=False):
    return SCORE.explain(NodeSituation(node, power, stale=stale), demand, ClusterTerms())


def row_of(node, power, demand=STANDARD, *, stale=False):
    return SCORE.row(NodeSituation(node, power, stale=stale), demand.workload_class, 6.0)


@given(st.none() | STATES, POWERS, DEMANDS, st.booleans(), st.floats(0, 100))
def test_rows_and_plain_form_agree(node, power, demand, stale, pressure):
    row = row_of(node, power, demand, stale=stale)
    assert row.score(SCORE.size(demand), pressure) == pytest.approx(
        terms_of(node, power, demand, stale=stale).score, abs=1e-9
    )


@given(STATES, POWERS, DEMANDS)
def test_every_score_is_within_its_range(node, power, demand):
    terms = terms_of(node, power, demand)
    assert all(points >= -1e-9 for points in terms.by_name.values())
    assert terms.score <= 100 + 1e-9


@given(STATES, POWERS, DEMANDS)
def test_what_is_not_known_never_makes_a_node_better(node, power, demand):
    known = terms_of(node, power, demand).score + 1e-9
    unknown = {
        "measured_watts": None,
        "cpu_cap_share": None,
        "gpu_cap_share": None,
        "schedulable_class": SchedulableClass.UNKNOWN,
    }
    for name, value in unknown.items():
        assert terms_of(replace(node, **{name: value}), power, demand).score <= known, name
    assert terms_of(node, replace(power, curves=None), demand).score <= known
    assert terms_of(node, UNKNOWN, demand).score <= known
    assert terms_of(node, power, demand, stale=True).score <= known
    assert terms_of(None, power, demand).score <= known


def test_a_node_without_a_twin_or_with_a_stale_one_scores_nothing():
    assert terms_of(None, XEON).neutral is NeutralReason.NO_TWIN
    assert terms_of(state(), XEON, stale=True).neutral is NeutralReason.STALE_TWIN
    assert row_of(None, XEON).score((1.0, 0.0), 0.0) == 0


def test_fewer_watts_per_thread_are_better():
    assert cpu_cost(state(), EPYC) < cpu_cost(state(), XEON)
    assert terms_of(state(), EPYC).score > terms_of(state(), XEON).score


def test_a_cap_above_the_knee_makes_work_cheaper_and_one_above_the_load_changes_nothing():
    busy = XEON.curves.packages_watts[9]
    assert cpu_cost(state(measured_watts=busy, cpu_cap_share=0.6), XEON) < cpu_cost(state(measured_watts=busy), XEON)
    idle = XEON.curves.packages_watts[0]
    assert cpu_cost(state(measured_watts=idle, cpu_cap_share=0.6), XEON) == cpu_cost(state(measured_watts=idle), XEON)
    assert gpu_cost(state(gpu_cap_share=0.6), A100) < gpu_cost(state(), A100)
    # Under half of what is needed for idle nothing is done for the watts.
    assert gpu_cost(state(gpu_cap_share=0.1), A100) == 1


def test_pods_in_flight_count_in_the_load():
    watts = XEON.curves.packages_watts
    loaded = state(measured_watts=watts[9] + 1.0)
    in_flight = state(measured_watts=watts[0], assumed_watts=watts[9] + 1.0 - watts[0])
    assert cpu_cost(loaded, XEON) == cpu_cost(in_flight, XEON)
    assert cpu_cost(loaded, XEON) != cpu_cost(state(measured_watts=watts[0]), XEON)


def test_a_slower_gpu_does_not_win_for_its_lower_watts():
    assert gpu_cost(state(), T4) == gpu_cost(state(), A100)


def test_pods_without_gpus_keep_off_nodes_with_gpus():
    on_gpus, elsewhere = terms_of(state(), A100), terms_of(state(), XEON)
    assert (on_gpus.gpu_points, elsewhere.gpu_points) == (0, 30)
    with_gpu = PodDemand(8.0, 1.0)
    assert terms_of(state(), A100, with_gpu).gpu_points > 25


def test_only_standard_pods_displace_performance():
    for node_class, points in (("performance", 0), ("unknown", 0), ("eco", 20), ("draining", 20)):
        node = state(SchedulableClass(node_class))
        assert terms_of(node, XEON).performance_points == points
        assert terms_of(node, XEON, PERFORMANCE).performance_points == 20
