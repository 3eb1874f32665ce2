"""Limits of devices that standard jobs hold, and when they are lifted."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.enforced_limit import SETTLED_S, STEP_S
from joulie_core.class_caps.waiting import LiftRule
from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.hardware.inventory import Inventory
from joulie_core.power.draw import WorkKind
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.device_limits import (
    ClassCapSettings,
    ClassLimitSettings,
    DeviceLimits,
    LimitedBy,
    limits_of_node,
)
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.limit_lifting import LimitLifting
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.placement import PlacementRequests
from joulie_sim.engine.running_nodes import RunningNodes, calibrated_models
from joulie_sim.engine.simulation import Simulation, SimulationSettings

_COMPUTE, _MEMORY = (tuple(WorkKind).index(kind) for kind in (WorkKind.COMPUTE, WorkKind.MEMORY))
_MEMORY_BYTES = 1024**3
_ONLY_WAITING = LiftRule(spare_pct=0.0)
#: The decision has to be the same for a time, and is seen half of a step late in the mean.
_SET_AFTER_S = SETTLED_S + STEP_S / 2.0


@pytest.fixture
def gpu_node(equally_fast):
    """A node with GPUs, alone."""
    nodes = [node for node in default_nodes(40) if any(key.endswith("/gpu") for key in node.allocatable)]
    return equally_fast(machines_of(nodes[:1], Inventory.load()))


@pytest.fixture
def gpu(gpu_node):
    return gpu_node.groups[0].view.gpu


def _jobs(machines, *rows: tuple[float, bool, int]) -> Jobs:
    """Return jobs of 100 s of work that hold all GPUs of a node; rows of arrival, performance and kind of work."""
    arrives_s, performance, kind = zip(*rows, strict=True)
    count = len(rows)
    return Jobs(
        arrives_s=np.array(arrives_s),
        performance=np.array(performance),
        cpu_milli=np.full(count, 1000),
        memory_bytes=np.full(count, _MEMORY_BYTES),
        gpus=np.full(count, int(machines.gpus.max())),
        gpu_resource=np.zeros(count, dtype=np.int64),
        work_s=np.full(count, 100.0),
        kind=np.array(kind),
        cpu_utilization=np.zeros(count),
        gpu_utilization=np.ones(count),
        gpu_resources=machines.gpu_resources,
    )


def _run(machines, jobs, arm: str):
    return Simulation(machines, jobs, ARMS[arm], SimulationSettings()).run()


def _limited_s(gpu, work_s: float, allowed: AllowedSlowdown = AllowedSlowdown.HALF) -> float:
    """Return how long compute work takes that is limited from its beginning on."""
    share = limits_of_node(gpu, ClassLimitSettings(allowed)).gpu_clock_share
    return work_s / ClockSweeps.load().typical.at(share, memory_bound=False).speed


def _with_rule(machines, jobs, rule: LiftRule):
    arm = ARMS["class_limits_50"]
    limits = replace(arm.joulie.class_limits, lift=rule)
    patient = replace(arm, joulie=replace(arm.joulie, class_limits=limits))
    return Simulation(machines, jobs, patient, SimulationSettings()).run()


def test_fixed_shares_are_of_natural_power_and_of_the_full_frequency(gpu) -> None:
    natural_watts = gpu.spec.natural_watts
    limits = limits_of_node(gpu, ClassCapSettings(75.0, 80.0))
    assert limits == DeviceLimits(gpu_cap_watts=0.75 * natural_watts, cpu_frequency_share=0.8)
    assert limits_of_node(gpu, ClassCapSettings(10.0, 100.0)) == DeviceLimits(gpu_cap_watts=gpu.lowest_cap_watts)
    assert limits_of_node(None, ClassCapSettings(75.0, 90.0)) == DeviceLimits(cpu_frequency_share=0.9)


@pytest.mark.parametrize(
    ("allowed", "clock_share"),
    [(AllowedSlowdown.TENTH, 1800 / 1980), (AllowedSlowdown.QUARTER, 1590 / 1980), (AllowedSlowdown.HALF, 1320 / 1980)],
)
def test_an_allowed_slowdown_limits_the_clock_and_nothing_else(gpu, allowed, clock_share) -> None:
    assert limits_of_node(gpu, ClassLimitSettings(allowed)) == DeviceLimits(gpu_clock_share=clock_share)
    assert limits_of_node(None, ClassLimitSettings(allowed)) == DeviceLimits()


def test_the_lever_power_limits_power_and_nothing_else(gpu) -> None:
    limits = limits_of_node(gpu, ClassLimitSettings(AllowedSlowdown.QUARTER, LimitedBy.POWER))
    assert limits == DeviceLimits(gpu_cap_watts=pytest.approx(0.75 * gpu.spec.natural_watts))


def test_no_limits_without_settings_and_for_an_allowed_slowdown_of_zero(gpu) -> None:
    assert limits_of_node(gpu, None) == DeviceLimits()
    assert limits_of_node(gpu, ClassLimitSettings(AllowedSlowdown.NONE)) == DeviceLimits()


@pytest.mark.parametrize("kind", [_COMPUTE, _MEMORY])
@pytest.mark.parametrize("percent", [10, 25, 50])
def test_a_standard_job_under_a_clock_limit_is_as_slow_as_its_kind_of_work_and_draws_less(
    gpu_node, gpu, percent, kind
) -> None:
    jobs = _jobs(gpu_node, (0.0, False, kind))
    limited, free = _run(gpu_node, jobs, f"class_limits_{percent}"), _run(gpu_node, jobs, "energy_scoring")
    share = limits_of_node(gpu, ClassLimitSettings(AllowedSlowdown(f"{percent}%"))).gpu_clock_share
    speed = ClockSweeps.load().typical.at(share, memory_bound=kind == _MEMORY).speed
    assert limited.jobs.ended_s[0] == pytest.approx(_SET_AFTER_S + (100.0 - _SET_AFTER_S) / speed)
    assert limited.jobs.ended_s[0] <= 100.0 + percent
    assert limited.it_joules / limited.end_s < free.it_joules / free.end_s


def test_a_performance_job_keeps_its_speed(gpu_node) -> None:
    jobs = _jobs(gpu_node, (0.0, True, _COMPUTE))
    assert _run(gpu_node, jobs, "class_limits_50").jobs.ended_s[0] == 100.0


def test_each_job_is_limited_a_while_after_its_own_start_and_draws_as_without_limits_before(gpu_node, gpu) -> None:
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE), (3.0, False, _COMPUTE))
    halves = replace(jobs, gpus=jobs.gpus // 2)
    limited, free = _run(gpu_node, halves, "class_limits_50"), _run(gpu_node, halves, "energy_scoring")
    alone_s = _SET_AFTER_S + _limited_s(gpu, 100.0 - _SET_AFTER_S)
    assert limited.jobs.ended_s == pytest.approx([alone_s, 3.0 + alone_s])

    def joules(run_arm: str, until_s: float) -> float:
        return Simulation(gpu_node, halves, ARMS[run_arm], SimulationSettings(horizon_s=until_s)).run().it_joules

    assert joules("class_limits_50", _SET_AFTER_S) == pytest.approx(joules("energy_scoring", _SET_AFTER_S))
    first, both = _SET_AFTER_S + 1.0, _SET_AFTER_S + 4.0
    watts = [
        (joules(arm, until_s + 1.0) - joules(arm, until_s))
        for arm in ("energy_scoring", "class_limits_50")
        for until_s in (first, both)
    ]
    assert watts[0] == pytest.approx(watts[1])
    assert watts[0] - watts[3] == pytest.approx(2.0 * (watts[0] - watts[2])) != 0.0
    assert limited.it_joules / limited.end_s < free.it_joules / free.end_s


def test_a_job_that_ends_before_its_limit_is_set_runs_without(gpu_node, gpu) -> None:
    short = replace(_jobs(gpu_node, (0.0, False, _COMPUTE), (4.0, False, _COMPUTE)), work_s=np.array([4.0, 100.0]))
    # The second job has the GPUs from the end of the first one on, and a time of its own.
    ended_s = _run(gpu_node, short, "class_limits_50").jobs.ended_s
    assert ended_s == pytest.approx([4.0, 4.0 + _SET_AFTER_S + _limited_s(gpu, 100.0 - _SET_AFTER_S)])


def test_limits_at_fixed_shares_are_in_force_from_the_start(gpu_node) -> None:
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE))
    short = replace(jobs, work_s=np.array([1.0]))
    ended_s, short_s = (_run(gpu_node, each, "class_caps_gpu_75").jobs.ended_s[0] for each in (jobs, short))
    assert ended_s == pytest.approx(100.0 * short_s)
    assert short_s > 1.0


def test_limits_are_lifted_while_a_performance_job_waits_for_the_model(gpu_node, gpu) -> None:
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE), (40.0, True, _COMPUTE))
    waiting, patient = _run(gpu_node, jobs, "class_limits_50"), _with_rule(gpu_node, jobs, _ONLY_WAITING)
    alone_s, lifted_s = waiting.jobs.ended_s[0], 40.0 + _ONLY_WAITING.grace_s
    # Under the limit until then, and the rest without.
    received_s = _SET_AFTER_S + (lifted_s - _SET_AFTER_S) / _limited_s(gpu, 1.0)
    assert patient.jobs.ended_s[0] == pytest.approx(lifted_s + 100.0 - received_s)
    assert patient.jobs.started_s[1] == patient.jobs.ended_s[0] < alone_s


def test_limits_come_back_a_while_after_the_last_performance_job_has_waited(gpu_node, gpu) -> None:
    # The second standard job starts when the performance job, the last that waited, has ended.
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE), (40.0, True, _COMPUTE), (50.0, False, _COMPUTE))
    waiting, patient = _run(gpu_node, jobs, "class_limits_50"), _with_rule(gpu_node, jobs, LiftRule(0.0, 60.0, 0.0))
    lasts = [run.jobs.ended_s[2] - run.jobs.started_s[2] for run in (patient, waiting)]
    assert lasts[0] == pytest.approx(lasts[1])
    # The performance job has run for 100 s since it waited; the next 80 s are without limits. Then these have to be
    # allowed for a while, as at the start of a job; the rest is with them.
    held = _with_rule(gpu_node, jobs, LiftRule(0.0, 180.0, 0.0))
    last_s = held.jobs.ended_s[2] - held.jobs.started_s[2]
    free_s = 80.0 + _SET_AFTER_S
    assert last_s == pytest.approx(free_s + _limited_s(gpu, 100.0 - free_s))


def test_limits_that_are_lifted_again_before_they_are_back_stay_lifted(gpu_node) -> None:
    jobs = _jobs(gpu_node, (0.0, True, _COMPUTE))
    (request,) = PlacementRequests(jobs, gpu_node.gpu_resources).requests
    limits = ARMS["class_limits_50"].joulie.class_limits
    nodes = RunningNodes(gpu_node, calibrated_models(gpu_node), limits)
    in_force = nodes[0].limits
    lifting = LimitLifting(gpu_node, nodes, LiftRule(spare_pct=0.0, hold_s=0.0, grace_s=0.0))

    def lifted(now_s: float, *, waits: bool = False) -> bool:
        lifting.follow([(request, now_s)] if waits else [], now_s)
        return nodes[0].limits != in_force

    assert not lifted(0.0)
    assert lifted(1.0, waits=True)
    # What waited at the last event has waited until now.
    assert all(lifted(now_s) for now_s in (2.0, 3.0))
    back_s = 3.0 + _SET_AFTER_S
    assert lifting.due_s == back_s
    assert all(lifted(now_s, waits=True) for now_s in (4.0, back_s, 10.0))
    assert all(lifted(now_s) for now_s in (11.0, 12.0))
    assert lifting.due_s == 12.0 + _SET_AFTER_S
    assert not lifted(lifting.due_s)
    assert lifting.due_s == inf


def test_a_job_that_has_waited_for_less_than_the_grace_lifts_nothing(gpu_node, gpu) -> None:
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE), (40.0, True, _COMPUTE))
    alone_s = _run(gpu_node, jobs, "class_limits_50").jobs.ended_s[0]
    # No other event is at the end of the grace.
    patient = _with_rule(gpu_node, jobs, replace(_ONLY_WAITING, grace_s=7.0))
    received_s = _SET_AFTER_S + (47.0 - _SET_AFTER_S) / _limited_s(gpu, 1.0)
    assert patient.jobs.ended_s[0] == pytest.approx(47.0 + 100.0 - received_s)
    late = _with_rule(gpu_node, jobs, replace(_ONLY_WAITING, grace_s=500.0))
    assert late.jobs.ended_s[0] == alone_s


def test_limits_are_lifted_while_too_few_gpus_are_free(gpu_node) -> None:
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE))
    assert _run(gpu_node, jobs, "class_limits_50_queue").jobs.ended_s[0] == pytest.approx(100.0)
    assert _with_rule(gpu_node, jobs, LiftRule(spare_pct=1.0)).jobs.ended_s[0] == pytest.approx(100.0)
    half = replace(jobs, gpus=jobs.gpus // 2)
    limited_s = _run(gpu_node, half, "class_limits_50").jobs.ended_s[0]
    assert _with_rule(gpu_node, half, LiftRule(spare_pct=50.0)).jobs.ended_s[0] == limited_s
    assert _with_rule(gpu_node, half, LiftRule(spare_pct=51.0)).jobs.ended_s[0] == pytest.approx(100.0)


@pytest.mark.parametrize("second", [(40.0, False, _COMPUTE), None])
def test_a_standard_job_that_waits_lifts_nothing(gpu_node, second) -> None:
    rows = [(0.0, False, _COMPUTE), *([second] if second else [])]
    jobs = _jobs(gpu_node, *rows)
    limited_s = _run(gpu_node, jobs, "class_limits_50").jobs.ended_s[0]
    assert _with_rule(gpu_node, jobs, _ONLY_WAITING).jobs.ended_s[0] == limited_s


def test_a_performance_job_that_no_node_could_ever_hold_lifts_nothing(gpu_node) -> None:
    jobs = _jobs(gpu_node, (0.0, False, _COMPUTE), (40.0, True, _COMPUTE))
    too_large = replace(jobs, gpus=jobs.gpus * np.array([1, 2]))
    limited_s = _run(gpu_node, too_large, "class_limits_50").jobs.ended_s[0]
    assert _with_rule(gpu_node, too_large, _ONLY_WAITING).jobs.ended_s[0] == limited_s
