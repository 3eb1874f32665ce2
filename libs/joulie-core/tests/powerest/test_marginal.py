"""Marginal watts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.marginal import (
    GENERIC_WATTS_PER_GPU,
    GENERIC_WATTS_PER_THREAD,
    Coefficients,
    Marginal,
    NodePower,
    marginal_watts,
)
from joulie_core.powerest.pod_demand import PodDemand

NODE = NodePower(cpu_threads=128, cpu_max_watts=700, gpu_count=8, gpu_max_watts=3200)
STANDARD = WorkloadClass.STANDARD
PERFORMANCE = WorkloadClass.PERFORMANCE


def test_the_default_coefficients_are_those_of_the_documents_example():
    assert Coefficients() == Coefficients(cpu_util=0.8, gpu_util_standard=0.6, gpu_util_performance=0.9)


def test_a_cpu_pod_adds_its_share_of_the_nodes_cpu_power():
    added = marginal_watts(PodDemand(cpu_cores=32), NODE, Coefficients())
    assert added == Marginal(cpu_watts=pytest.approx(0.8 * 32 / 128 * 700), gpu_watts=0)


@given(st.integers(1, 512), st.floats(1, 2_000), st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1))
def test_pods_that_together_take_all_threads_add_no_more_than_the_nodes_maximum(threads, watts, shares, coefficient):
    power = NodePower(cpu_threads=threads, cpu_max_watts=watts)
    whole = math.fsum(shares) or 1.0
    pods = [PodDemand(cpu_cores=threads * share / whole) for share in shares]
    added = math.fsum(marginal_watts(pod, power, Coefficients(cpu_util=coefficient)).cpu_watts for pod in pods)
    assert added <= watts * (1 + 1e-9)


@pytest.mark.parametrize(("workload_class", "coefficient"), [(STANDARD, 0.6), (PERFORMANCE, 0.9)])
def test_a_gpu_pod_adds_its_share_of_the_nodes_gpu_power(workload_class, coefficient):
    added = marginal_watts(PodDemand(0, gpus=2, workload_class=workload_class), NODE, Coefficients())
    assert added.total_watts == pytest.approx(coefficient * 2 / 8 * 3200)


def test_a_pue_of_1_6_makes_every_watt_cost_60_percent_more():
    demand = PodDemand(cpu_cores=32, gpus=2)
    plain, weighted = (marginal_watts(demand, NODE, Coefficients(), pue) for pue in (None, 1.6))
    assert weighted.cpu_watts == pytest.approx(1.6 * plain.cpu_watts)
    assert weighted.gpu_watts == pytest.approx(1.6 * plain.gpu_watts)
    assert weighted.total_watts == pytest.approx(1.6 * plain.total_watts)


@pytest.mark.parametrize("pue", [None, 1.0, 0.8, 0.0, math.nan])
def test_a_pue_not_above_one_has_no_effect(pue):
    demand = PodDemand(cpu_cores=32, gpus=2)
    assert marginal_watts(demand, NODE, Coefficients(), pue) == marginal_watts(demand, NODE, Coefficients())


@pytest.mark.parametrize(
    "power",
    [NodePower(), NodePower(cpu_threads=64), NodePower(cpu_max_watts=700), NodePower(64, math.inf, 8, math.nan)],
)
def test_unknown_hardware_is_never_free(power):
    added = marginal_watts(PodDemand(cpu_cores=1, gpus=1), power, Coefficients(1, 1, 1))
    assert added == Marginal(GENERIC_WATTS_PER_THREAD, GENERIC_WATTS_PER_GPU)


DEMANDS = st.builds(
    PodDemand, cpu_cores=st.floats(0, 2**63), gpus=st.floats(0, 2**63), workload_class=st.sampled_from(WorkloadClass)
)


@given(DEMANDS, st.builds(NodePower, *[st.floats(allow_nan=True, allow_infinity=True)] * 4), st.floats(1, 1e9))
def test_any_pod_on_any_hardware_adds_a_finite_amount_that_is_not_negative(demand, power, pue):
    total = marginal_watts(demand, power, Coefficients(), pue).total_watts
    assert math.isfinite(total)
    assert total >= 0
