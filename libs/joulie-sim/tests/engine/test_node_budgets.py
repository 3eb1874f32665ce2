"""Nodes that share a feed: limits by `joulie_core.budget`, in the engine."""

import numpy as np
import pytest

from joulie_sim.engine.arm import Arm, BudgetArm
from joulie_sim.engine.node_budgets import INTERVAL_S, HeldFirstBudgetSettings, NodeBudgetSettings, SharedFeed
from joulie_sim.engine.node_runtime import RunningJob
from joulie_sim.engine.running_nodes import RunningNodes, calibrated_models
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.physics.parts import Controls


def _run(machines, jobs, supplied=None, **budgets):
    arm = Arm(name="none", summary="")
    if supplied is not None:
        arm = BudgetArm(name="budget", summary="", budgets=NodeBudgetSettings(supplied=supplied, **budgets))
    return Simulation(machines, jobs, arm, SimulationSettings()).run()


def _highest(machines) -> list[float]:
    return [machines.groups[group].view.tdp_watts for group in machines.group]


def _limit_watts(machines, nodes, node: int) -> float:
    """Watts of all packages and GPUs of a node that its caps add up to."""
    view, controls = machines.groups[machines.group[node]].view, nodes[node].controls
    cpu_watts = controls.cpu_cap_watts if controls.cpu_cap_watts is not None else view.cpu.max_watts_per_socket
    watts = cpu_watts * view.cpu.sockets
    if view.gpu is not None:
        gpu_watts = controls.gpu_cap_watts if controls.gpu_cap_watts is not None else view.gpu.max_watts
        watts += gpu_watts * view.gpu.count
    return watts


class _Demand:
    """Nodes whose demand is set from outside, in place of that of jobs."""

    def __init__(self, machines, monkeypatch, supplied: float, *, by_demand: bool = True) -> None:
        self.machines = machines
        self.nodes = RunningNodes(machines, calibrated_models(machines))
        self.watts = [0.0] * len(machines)
        by_runtime = {id(self.nodes[node]): node for node in range(len(machines))}
        kind = type(self.nodes[0])
        monkeypatch.setattr(kind, "uncapped_watts", lambda runtime: self.watts[by_runtime[id(runtime)]])
        self.budgets = SharedFeed(machines, NodeBudgetSettings(supplied=supplied, by_demand=by_demand), self.nodes)
        self.now_s = 0.0

    def decide(self) -> list[float]:
        """Return the limits of all nodes after a decision."""
        assert self.budgets.due_s == self.now_s
        self.budgets.decide(self.now_s)
        self.now_s += INTERVAL_S
        return [_limit_watts(self.machines, self.nodes, node) for node in range(len(self.machines))]


@pytest.fixture
def demand(machines, monkeypatch):
    return lambda supplied, **options: _Demand(machines, monkeypatch, supplied, **options)


@pytest.mark.parametrize("supplied", [0.45, 0.6, 0.8])
def test_limits_never_add_up_to_more_than_the_feed_whichever_node_acts_first(machines, demand, supplied):
    world, highest = demand(supplied), _highest(machines)
    feed, chance = supplied * sum(highest), np.random.default_rng(7)
    before = world.decide()
    for _ in range(200):
        busy = chance.random(len(machines)) < chance.random()
        world.watts = [most * (0.9 if on else 0.2) for most, on in zip(highest, busy, strict=True)]
        after = world.decide()
        # Between two decisions some nodes have their new limit and others the old one.
        assert sum(map(max, before, after)) <= feed + 1e-6
        before = after
    # Nothing is left over once demand stays.
    assert sum(world.decide()) > 0.999 * feed


def test_a_node_is_raised_to_what_it_wants_within_two_decisions(machines, demand):
    world, highest = demand(0.6), _highest(machines)
    world.watts = [0.3 * most for most in highest]
    world.decide()
    world.watts[0] = 0.95 * highest[0]
    world.decide()
    assert world.decide()[0] >= 0.95 * highest[0] - 0.01


def test_fixed_parts_do_not_follow_demand(machines, demand):
    world, highest = demand(0.6, by_demand=False), _highest(machines)
    first = world.decide()
    world.watts = [0.9 * highest[0], *(0.0 for _ in highest[1:])]
    assert world.decide() == world.decide() == first
    assert sum(first) == pytest.approx(0.6 * sum(highest), rel=1e-4)
    assert len({round(limit / most, 2) for limit, most in zip(first, highest, strict=True)}) < len(machines)


def test_a_feed_below_the_lowest_limits_of_the_hardware_leaves_those(machines, demand):
    limits = demand(0.01).decide()
    views = [machines.groups[group].view for group in machines.group]
    assert limits == pytest.approx(
        [
            view.cpu.sockets * view.cpu.min_watts_per_socket
            + (view.gpu.count * view.gpu.min_watts if view.gpu is not None else 0.0)
            for view in views
        ]
    )


def test_a_feed_for_all_nodes_changes_nothing(machines, busy_jobs, demand):
    assert _run(machines, busy_jobs, 1.0).it_joules == _run(machines, busy_jobs).it_joules
    world = demand(1.0)
    world.decide()
    assert all(world.nodes[node].controls == Controls() for node in range(len(machines)))


def test_jobs_under_a_small_feed_take_longer_and_all_their_work_is_done(machines, busy_jobs):
    free = _run(machines, busy_jobs)
    ends = {by: _run(machines, busy_jobs, 0.35, by_demand=by) for by in (True, False)}
    late = {by: np.sum(result.jobs.ended_s - free.jobs.ended_s) for by, result in ends.items()}
    assert 0.0 < late[True] < late[False]
    assert all(np.all(result.jobs.left_s == 0.0) for result in ends.values())


def test_a_node_with_free_gpus_gives_its_limit_to_the_held_ones(machines, monkeypatch):
    nodes = RunningNodes(machines, calibrated_models(machines))
    node = next(index for index, group in enumerate(machines.group) if machines.groups[group].view.gpu is not None)
    view = machines.groups[machines.group[node]].view
    running = RunningJob(gpus=1, gpu_utilization=1.0, busy_cores=1.0, sensitivity=None, limited=False)
    nodes[node].start(0, running, 1e9)
    caps = {}
    for settings in (NodeBudgetSettings(supplied=0.6), HeldFirstBudgetSettings(supplied=0.6)):
        feed = SharedFeed(machines, settings, nodes)
        for step in range(3):
            feed.decide(step * INTERVAL_S)
        caps[type(settings)] = nodes[node].controls.gpu_cap_watts
    assert caps[NodeBudgetSettings] < view.gpu.max_watts
    assert caps[HeldFirstBudgetSettings] is None


def test_demand_is_that_without_caps(machines):
    nodes = RunningNodes(machines, calibrated_models(machines))
    for node in range(len(machines)):
        idle_watts = nodes[node].device_watts
        nodes[node].controls = Controls(cpu_cap_watts=1.0, gpu_cap_watts=1.0)
        nodes.settle(node, 0.0)
        assert nodes[node].uncapped_watts() == pytest.approx(idle_watts)
