"""Whole simulations of a small cluster."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from joulie_core.caps import CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.base import Profile
from joulie_core.policy import POLICIES, Plan, PolicyContext, build_policy, queue_aware_v1, queue_lead_v1
from joulie_core.policy.registry import RegisteredPolicy
from joulie_core.policy.static_partition import StaticPartitionSettings
from joulie_core.transition import NodeState
from joulie_sim.engine.arm import Arm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.control_plane import RECONCILE_INTERVAL_S, ControlPlane
from joulie_sim.engine.joulie_settings import JoulieSettings
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.records import SimulationResult
from joulie_sim.engine.simulation import Simulation, SimulationSettings


def _run(machines, jobs, arm: str | Arm = "kube_default", **settings) -> SimulationResult:
    return Simulation(machines, jobs, ARMS[arm] if isinstance(arm, str) else arm, SimulationSettings(**settings)).run()


@dataclass(frozen=True)
class _Switch:
    """All nodes performance while there are two performance pods, else all eco."""

    settings: StaticPartitionSettings
    name: str = "switch"
    follows_demand: bool = True

    def plan_key(self, context: PolicyContext) -> bool:
        return context.performance_pods >= 2

    def plan(self, context: PolicyContext) -> Plan:
        profile = Profile.PERFORMANCE if context.performance_pods >= 2 else Profile.ECO
        names = [candidate.name for candidate in context.candidates]
        return Plan(dict.fromkeys(names, profile), dict.fromkeys(names, "test"), 0, "test")


@pytest.fixture
def switch(monkeypatch) -> Arm:
    """An arm with a policy that is added to joulie_core's registry."""
    monkeypatch.setitem(POLICIES, "switch", RegisteredPolicy(StaticPartitionSettings, _Switch))
    return Arm(name="switch", summary="", joulie=JoulieSettings(policy="switch"))


@pytest.fixture
def one_node(equally_fast):
    """A CPU node of the default cluster, alone."""
    nodes = [node for node in default_nodes(40) if not any(key.endswith("/gpu") for key in node.allocatable)]
    return equally_fast(machines_of(nodes[:1], Inventory.load()))


@pytest.fixture
def two_nodes(equally_fast):
    nodes = [node for node in default_nodes(40) if not any(key.endswith("/gpu") for key in node.allocatable)]
    return equally_fast(machines_of(nodes[:2], Inventory.load()))


def _least_s(machines, jobs, node):
    """Return the seconds that each job takes on its node without caps."""
    hardware = [machines.groups[machines.group[each]].hardware for each in node]
    return jobs.work_s / [parts.work_per_s(gpus=gpus > 0) for parts, gpus in zip(hardware, jobs.gpus, strict=True)]


def _cores(machines) -> int:
    return int(machines.allocatable[0, 0] / 1000)


#: A job that is moved was on more nodes than the one that its record names: see test_moved_jobs.py.
_STAYING = [name for name in ARMS if name != "packing_score_sleep_shared_moved"]


@pytest.mark.parametrize("arm", _STAYING)
def test_all_work_is_done_once_within_the_nodes_resources(machines, busy_jobs, arm) -> None:
    jobs = _run(machines, busy_jobs, arm).jobs
    assert np.all(jobs.node >= 0)
    assert np.all(jobs.started_s >= busy_jobs.arrives_s)
    # No job ends before it has had its work, and every one gets it.
    assert np.all(jobs.ended_s - jobs.started_s >= _least_s(machines, busy_jobs, jobs.node) * (1 - 1e-9))
    for node in range(len(machines)):
        here = np.flatnonzero(jobs.node == node)
        for start_s in jobs.started_s[here]:
            running = here[(jobs.started_s[here] <= start_s) & (jobs.ended_s[here] > start_s)]
            assert busy_jobs.cpu_milli[running].sum() <= machines.allocatable[0, node]
            assert busy_jobs.memory_bytes[running].sum() <= machines.allocatable[1, node]
            assert busy_jobs.gpus[running].sum() <= machines.gpus[:, node].sum()


@pytest.mark.parametrize("arm", ["kube_default", "queue_aware_v1"])
def test_the_energy_of_the_minutes_is_that_of_the_nodes(machines, busy_jobs, arm) -> None:
    result = _run(machines, busy_jobs, arm)
    lengths_s = np.diff([0.0, *result.minutes.ends_s])
    assert result.minutes.ends_s[-1] == result.end_s == np.nanmax(result.jobs.ended_s)
    assert float(np.dot(lengths_s, result.minutes.it_watts)) == pytest.approx(result.node_joules.sum(), rel=1e-9)
    assert float(np.dot(lengths_s, result.minutes.facility_watts)) == pytest.approx(result.facility_joules, rel=1e-9)
    assert result.it_joules > result.idle_watts * result.end_s
    assert 1.05 < result.facility_joules / result.it_joules < 1.4


def test_without_caps_every_job_takes_its_work_over_the_work_per_second_of_its_nodes_model(machines, busy_jobs) -> None:
    jobs = _run(machines, busy_jobs, "kube_default").jobs
    assert jobs.ended_s - jobs.started_s == pytest.approx(_least_s(machines, busy_jobs, jobs.node))


@pytest.mark.parametrize("arm", ["queue_aware_v1", "class_limits_25_queue"])
def test_a_seed_gives_the_same_result_to_the_bit(machines, busy_jobs, arm) -> None:
    first, second = (_run(machines, busy_jobs, arm, seed=5) for _ in range(2))
    assert first.jobs.ended_s.tobytes() == second.jobs.ended_s.tobytes()
    assert first.jobs.node.tobytes() == second.jobs.node.tobytes()
    assert (first.minutes, first.it_joules) == (second.minutes, second.it_joules)
    other = _run(machines, busy_jobs, arm, seed=6)
    assert first.jobs.node.tobytes() != other.jobs.node.tobytes()


def test_an_idle_cluster_draws_the_same_in_every_arm(machines, equal_jobs) -> None:
    results = [_run(machines, equal_jobs([]), arm, horizon_s=600.0) for arm in ARMS]
    assert {result.it_joules for result in results} == {results[0].idle_watts * 600.0}


def test_a_job_without_room_starts_when_another_ends(one_node, equal_jobs) -> None:
    jobs = _run(one_node, equal_jobs([0.0, 1.0, 2.0], cores=_cores(one_node))).jobs
    assert jobs.started_s.tolist() == [0.0, 100.0, 200.0]


@pytest.mark.parametrize(("debounce_s", "planned_s"), [(0.0, 10.25), (0.5, 10.5)])
def test_a_plan_follows_demand_after_the_debounce_that_later_changes_share(
    two_nodes, equal_jobs, switch, debounce_s, planned_s
) -> None:
    arm = replace(switch, joulie=replace(switch.joulie, plan_debounce_s=debounce_s))
    jobs = _run(two_nodes, equal_jobs([10.0, 10.25], performance=True), arm).jobs
    assert jobs.started_s.tolist() == [planned_s, planned_s]


def test_jobs_without_room_are_dropped_where_that_is_the_protocol(one_node, equal_jobs) -> None:
    arrivals = [0.0, 50.0, 150.0]
    jobs = _run(one_node, equal_jobs(arrivals, cores=_cores(one_node)), drop_on_arrival=True).jobs
    assert jobs.node.tolist() == [0, -1, 0]
    assert np.isnan(jobs.ended_s).tolist() == [False, True, False]


def test_a_horizon_ends_the_simulation_with_what_is_done_by_then(one_node, equal_jobs) -> None:
    result = _run(one_node, equal_jobs([0.0, 10.0], cores=_cores(one_node)), horizon_s=130.0)
    assert result.end_s == 130.0
    assert np.isnan(result.jobs.ended_s).tolist() == [False, True]


def test_the_planned_profiles_are_those_of_the_registered_policy(two_nodes, equal_jobs, switch) -> None:
    # One performance pod alone finds no performance node; with the second there are two.
    jobs = _run(two_nodes, equal_jobs([0.0, 500.0], performance=True), switch).jobs
    assert jobs.started_s.tolist() == [500.0, 500.0]


def test_a_performance_job_that_no_node_may_take_is_missed(two_nodes, equal_jobs, switch) -> None:
    result = _run(two_nodes, equal_jobs([0.0], performance=True), switch)
    assert np.isnan(result.jobs.started_s).tolist() == [True]


def test_a_node_with_a_performance_job_keeps_its_speed_until_the_job_has_left(two_nodes, equal_jobs, switch) -> None:
    cores = _cores(two_nodes)
    jobs = equal_jobs([0.0, 0.0, 100.0], cores=cores, performance=True)
    # The second job ends at 50 s and leaves one performance pod: both nodes are planned eco, the first one drains.
    jobs.work_s[1] = 50.0
    jobs.performance[2] = False
    result = _run(two_nodes, jobs, switch)
    assert result.jobs.ended_s[:2].tolist() == [100.0, 50.0]
    # The standard job runs at the eco cap from its start.
    assert result.jobs.ended_s[2] > 205.0
    assert 1 in result.minutes.draining_nodes


@pytest.mark.parametrize("policy", list(POLICIES))
def test_the_nodes_follow_what_the_policy_plans_for_the_demand_of_the_moment(machines, policy) -> None:
    values = {"queue_hp_base_frac": 0.1, "queue_perf_per_hp_node": 3, "lead_perf_per_hp_node": 3}
    plane = ControlPlane(
        machines, policy=policy, policy_values=values, caps=CapSettings(), on_change=lambda _node: None
    )
    pods, named, planned = 0, build_policy(policy, values), [None]
    for step in range(200):
        now_s = 20.0 * step
        # Demand rises to 50 and falls again.
        if step % 100 < 50:
            plane.arrived(now_s)
            pods += 1
        else:
            plane.dropped(now_s)
            pods -= 1
        if not named.follows_demand:
            plane.plan(now_s)
        plan = named.plan(PolicyContext(machines.candidates(), pods, now_s, RECONCILE_INTERVAL_S, planned[-1]))
        performance = sum(profile is Profile.PERFORMANCE for profile in plan.profiles.values())
        assert plane.count(NodeState.ACTIVE_PERFORMANCE) == performance
        planned.append(performance)
    assert (len(set(planned)) > 6) is (policy in {queue_aware_v1.NAME, queue_lead_v1.NAME})
