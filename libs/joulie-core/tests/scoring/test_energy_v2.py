"""The score that fills nodes: idle power is shared by what pods hold, and work is that of the model."""

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
from joulie_core.scoring.energy_v2 import (
    LEAST_WORK_PER_GPU,
    LEAST_WORK_PER_THREAD,
    PackingScore,
    cpu_costs,
    gpu_cost,
)
from joulie_core.scoring.formula import NeutralReason
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot
from joulie_core.stated_time import NINTHS

SCORE = PackingScore()


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
A100 = _power("AMD EPYC 7763", 256, "NVIDIA A100 SXM4 80GB", 8)
H100 = _power("AMD EPYC 7763", 256, "NVIDIA H100 80GB HBM3", 8)
UNKNOWN = NodePower()
SHARES = st.none() | st.sampled_from([0.0, 0.2, 0.45, 0.6, 0.75, 0.9, 1.0])
STATES = st.builds(
    TwinSnapshot,
    schedulable_class=st.sampled_from(SchedulableClass),
    measured_watts=st.none() | st.floats(0, 2_000),
    cpu_cap_share=SHARES,
    gpu_cap_share=SHARES,
    assumed_watts=st.floats(0, 500),
    held_cores=st.none() | st.floats(0, 400),
    held_gpus=st.none() | st.floats(0, 8),
)
DEMANDS = st.builds(
    PodDemand,
    cpu_cores=st.floats(0, 300),
    gpus=st.sampled_from([0.0, 1 / 7, 1.0, 8.0]),
    workload_class=st.sampled_from(WorkloadClass),
)
POWERS = st.sampled_from([XEON, EPYC, A100, H100, UNKNOWN])
CPU_POD, GPU_POD = PodDemand(4.0), PodDemand(8.0, 1.0)


def node(held_cores=0.0, held_gpus=0.0, **values) -> TwinSnapshot:
    common = {"measured_watts": 200.0, "cpu_cap_share": 1.0, "gpu_cap_share": 1.0}
    return TwinSnapshot(
        SchedulableClass.PERFORMANCE, **common | {"held_cores": held_cores, "held_gpus": held_gpus} | values
    )


def terms_of(twin, power, demand=CPU_POD, *, stale=False):
    return SCORE.explain(NodeSituation(twin, power, stale=stale), demand, ClusterTerms())


def energy_of(twin, power, demand=CPU_POD) -> float:
    return terms_of(twin, power, demand).energy_points


@given(STATES, POWERS, DEMANDS)
def test_what_is_not_known_never_makes_a_node_better(twin, power, demand):
    known = terms_of(twin, power, demand).score + 1e-9
    fields = ("measured_watts", "cpu_cap_share", "gpu_cap_share", "held_cores", "held_gpus")
    for unknown in [*({name: None} for name in fields), {"schedulable_class": SchedulableClass.UNKNOWN}]:
        assert terms_of(replace(twin, **unknown), power, demand).score <= known, unknown
    assert terms_of(twin, replace(power, curves=None), demand).score <= known
    if power.curves is not None:
        slowest = replace(power.curves, work_per_thread=None)
        assert terms_of(twin, replace(power, curves=slowest), demand).score <= known
        if power.curves.gpu is not None:
            slowest = replace(power.curves, gpu=replace(power.curves.gpu, work_per_gpu=None))
            assert terms_of(twin, replace(power, curves=slowest), demand).score <= known
    assert terms_of(twin, power, demand, stale=True).score <= known
    assert terms_of(None, power, demand).score <= known


def test_the_rates_of_unknown_models_are_those_of_the_slowest_published_ones():
    inventory = Inventory.load()
    threads = [spec.work_per_thread.value for spec in inventory.cpus.values() if spec.work_per_thread]
    gpus = [spec.work_per_gpu.value for spec in inventory.gpus.values() if spec.work_per_gpu]
    assert min(threads) == LEAST_WORK_PER_THREAD
    assert pytest.approx(min(gpus), abs=0.005) == LEAST_WORK_PER_GPU
    assert min(gpus) >= LEAST_WORK_PER_GPU


def test_a_node_without_a_twin_or_with_a_stale_one_scores_nothing():
    assert (terms_of(None, XEON).neutral, terms_of(None, XEON).score) == (NeutralReason.NO_TWIN, 0.0)
    stale = terms_of(node(), XEON, stale=True)
    assert (stale.neutral, stale.score) == (NeutralReason.STALE_TWIN, 0.0)


@pytest.mark.parametrize("power", [XEON, EPYC])
def test_of_equal_nodes_the_one_whose_pods_hold_more_cores_is_better(power):
    points = [energy_of(node(held), power) for held in (0.0, 2.0, 8.0, 32.0, 100.0)]
    assert points == sorted(points)
    assert len(set(points)) == len(points)


def test_a_node_with_gpus_is_filled_before_the_next_one_is_begun():
    points = [energy_of(node(8.0 * held, held), A100, GPU_POD) for held in (0.0, 1.0, 4.0, 7.0)]
    assert points == sorted(points)
    assert len(set(points)) == len(points)


def test_a_begun_node_is_better_than_an_empty_one_of_a_model_that_costs_less_when_full():
    assert energy_of(node(100.0), EPYC) > energy_of(node(100.0), XEON)
    assert energy_of(node(20.0), XEON) > energy_of(node(0.0), EPYC)


def test_a_gpu_that_does_more_work_may_draw_more_watts():
    held = node(32.0, 4.0)
    assert H100.curves.gpu.natural_watts > A100.curves.gpu.natural_watts
    assert energy_of(held, H100, GPU_POD) > energy_of(held, A100, GPU_POD)
    equal = replace(H100, curves=replace(H100.curves, gpu=replace(H100.curves.gpu, work_per_gpu=1.0)))
    assert energy_of(held, equal, GPU_POD) < energy_of(held, A100, GPU_POD)


def test_the_cost_of_a_device_is_what_it_adds_and_its_part_of_the_idle_node():
    cost = cpu_costs(EPYC.curves, 0.0, 1.0)[4]
    added = (EPYC.curves.wall_watts[5] - EPYC.curves.wall_watts[4]) * 10 / EPYC.curves.threads
    assert cost.added == pytest.approx(added / EPYC.curves.work_per_thread)
    assert cost.idle == pytest.approx(EPYC.curves.wall_watts[0] / EPYC.curves.work_per_thread)
    assert cost.shared_by(6.0, 4.0) == pytest.approx(cost.added + cost.idle / 10.0)
    gpu = A100.curves.gpu
    cost = gpu_cost(A100.curves, 8.0, 1.0)
    # Supplies and fans.
    assert cost.added == pytest.approx((gpu.natural_watts - gpu.idle_watts) * (1 / 0.94 + 0.15))
    gpus_watts = 8.0 * (gpu.idle_watts * (1 / 0.94 + 0.15) + gpu.max_watts * 0.15)
    assert cost.idle == pytest.approx(A100.curves.wall_watts[0] + gpus_watts)


def test_a_cap_makes_work_cost_less_and_keeps_the_node_on_for_longer():
    free, capped = cpu_costs(XEON.curves, 0.0, 1.0)[9], cpu_costs(XEON.curves, 0.0, 0.7)[9]
    assert capped.added < free.added
    assert capped.idle > free.idle


def test_units_of_shared_gpus_are_parts_of_a_gpu():
    shared = replace(A100, units_per_gpu=7.0)
    assert energy_of(node(8.0, 7.0), shared, GPU_POD) == energy_of(node(8.0, 1.0), A100, GPU_POD)


@given(STATES, POWERS, DEMANDS, st.integers(0, NINTHS))
def test_the_fast_form_is_the_plain_one_whatever_is_covered(twin, power, demand, covered):
    situation = NodeSituation(twin, power, covered=covered)
    row = SCORE.row(situation, demand.workload_class, 6.0)
    plain = SCORE.explain(situation, demand, ClusterTerms()).score
    assert row.score(SCORE.size(demand), 0.0) == pytest.approx(plain)


@given(STATES, POWERS, DEMANDS)
def test_the_longer_others_are_stated_to_run_the_better_and_nothing_stated_is_the_worst(twin, power, demand):
    scores = [
        SCORE.explain(NodeSituation(twin, power, covered=covered), demand, ClusterTerms()).score
        for covered in range(NINTHS + 1)
    ]
    assert scores == sorted(scores)
    assert scores[0] == terms_of(twin, power, demand).score


def test_idle_watts_count_for_what_is_not_covered_of_the_run_time():
    cost = cpu_costs(EPYC.curves, 0.0, 1.0)[4]
    assert cost.shared_by(6.0, 4.0, 3) == pytest.approx(cost.added + cost.idle * 6.0 / 9.0 / 10.0)
    assert cost.shared_by(6.0, 4.0, NINTHS) == cost.added
