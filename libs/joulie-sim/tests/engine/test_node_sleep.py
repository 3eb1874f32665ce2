"""Simulations of arms whose idle nodes sleep."""

import numpy as np
import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SpareOf
from joulie_core.sleep import SleepSettings
from joulie_sim.engine.arm import SleepingArm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.node_sleep_settings import NodeSleepSettings
from joulie_sim.engine.records import SimulationResult
from joulie_sim.engine.simulation import Simulation, SimulationSettings

_SLEEP = NodeSleepSettings(
    decision=SleepSettings(min_awake={"count": 1, "spare": 0}, idle_seconds=120.0, min_awake_seconds=0.0)
)
_ARM = SleepingArm(name="sleep", summary="", sleep=_SLEEP)


def _run(machines, jobs, arm=_ARM, **settings) -> SimulationResult:
    return Simulation(machines, jobs, arm, SimulationSettings(**settings)).run()


def test_an_idle_cluster_draws_less_by_the_nodes_that_are_off(machines, equal_jobs) -> None:
    hour_s = 3600.0
    later = equal_jobs([2 * hour_s])
    result = _run(machines, later, horizon_s=hour_s)
    asleep = max(result.minutes.asleep_nodes)
    assert asleep == result.power_cycles == len(machines) // 2
    awake = _run(machines, later, ARMS["kube_default"], horizon_s=hour_s)
    assert result.it_joules < 0.8 * awake.it_joules
    # What the last minute draws is what idle nodes go on to draw.
    assert result.minutes.it_watts[-1] == pytest.approx(result.idle_watts)
    assert result.idle_watts > asleep * _SLEEP.off_watts


def test_spare_nodes_by_resources_are_those_that_offer_the_same_gpus(equal_jobs) -> None:
    machines = machines_of(default_nodes(40), Inventory.load())
    min_awake = MinAwakeSpec(count=0, spare=1, spare_of=SpareOf.RESOURCES)
    decision = SleepSettings(min_awake=min_awake, idle_seconds=120.0, min_awake_seconds=0.0, max_asleep_percent=90)
    arm = SleepingArm(name="sleep", summary="", sleep=NodeSleepSettings(decision=decision))
    result = _run(machines, equal_jobs([7200.0]), arm, horizon_s=7200.0)
    # A node without GPUs, one with NVIDIA's and one with AMD's are spare; ten percent of each zone are more.
    joules = {(row > 0).tobytes(): [] for row in machines.gpus.T}
    for column, drawn in zip(machines.gpus.T, result.node_joules, strict=True):
        joules[(column > 0).tobytes()].append(drawn)
    assert len(joules) == 3
    for drawn in joules.values():
        assert max(drawn) > 3 * min(drawn)


def test_a_job_without_room_waits_for_the_nearest_decision_and_a_boot(machines, equal_jobs) -> None:
    cores = int(machines.allocatable[0].max() / 1000)
    largest = int((machines.allocatable[0] == machines.allocatable[0].max()).sum())
    jobs = equal_jobs([3600.0] * largest, cores=cores)
    result = _run(machines, jobs)
    assert not np.isnan(result.jobs.ended_s).any()
    waits_s = result.jobs.started_s - 3600.0
    assert 0.0 < waits_s.max() <= _SLEEP.gpu_boot_s + 2 * _SLEEP.interval_s
    assert _run(machines, jobs, ARMS["kube_default"]).jobs.started_s.max() == 3600.0


def test_a_server_without_gpus_boots_in_ten_minutes(equal_jobs) -> None:
    nodes = [node for node in default_nodes(20) if not any(key.endswith("/gpu") for key in node.allocatable)]
    machines = machines_of(nodes, Inventory.load())
    cores = int(machines.allocatable[0].max() / 1000)
    result = _run(machines, equal_jobs([3600.0] * 5, cores=cores, work_s=10_000.0))
    assert 600.0 <= (result.jobs.started_s - 3600.0).max() <= 600.0 + 2 * _SLEEP.interval_s


def test_a_node_without_jobs_draws_what_off_and_booting_servers_draw_for_their_times(machines, busy_jobs) -> None:
    simulation = Simulation(machines, busy_jobs, _ARM, SimulationSettings())
    nodes = simulation._nodes
    fix_watts, seen = nodes.fix_watts, []

    def observed(node: int, watts: float | None, now_s: float) -> None:
        assert watts is None or not list(nodes[node].left()), "off under a job"
        seen.append((node, watts, now_s))
        fix_watts(node, watts, now_s)

    nodes.fix_watts = observed  # type: ignore[method-assign] - observes the simulation
    result = simulation.run()
    assert not np.isnan(result.jobs.ended_s).any()
    woken = 0
    for node in range(len(machines)):
        course = [(watts, now_s) for place, watts, now_s in seen if place == node]
        # Going off draws as usual; then off, then booting, then as usual again.
        expected = [None, _SLEEP.off_watts, _SLEEP.boot_over_idle * nodes.idle_watts_of(node), None]
        for begin in range(0, len(course), 4):
            cycle = course[begin : begin + 4]
            assert [watts for watts, _ in cycle] == expected[: len(cycle)]
            if len(cycle) == 4:
                woken += 1
                assert cycle[1][1] - cycle[0][1] == _SLEEP.off_s
                gpus = machines.groups[machines.group[node]].hardware.gpu is not None
                assert cycle[3][1] - cycle[2][1] == (900.0 if gpus else 600.0)
    assert woken > 0
    assert result.power_cycles >= woken


def test_waiting_jobs_are_those_that_came_first(machines, equal_jobs) -> None:
    cores = int(machines.allocatable[0].max() / 1000)
    count = 2 * len(machines)
    simulation = Simulation(
        machines, equal_jobs([0.0] * count, cores=cores), ARMS["kube_default"], SimulationSettings(horizon_s=1.0)
    )
    simulation.run()
    flow = simulation._flow
    assert len(flow.pending(3)) == 3
    assert len(flow.pending(10_000)) == flow.waiting < count


def test_spare_nodes_by_arrivals_are_kept_for_a_day_and_then_as_many_as_came(equal_jobs) -> None:
    hour_s = 3600.0
    machines = machines_of(default_nodes(20), Inventory.load())
    least = MinAwakeSpec(count=0, spare=2, spare_of=SpareOf.ARRIVALS)
    decision = SleepSettings(min_awake=least, idle_seconds=120.0, min_awake_seconds=0.0, max_asleep_percent=90)
    arm = SleepingArm(name="sleep", summary="", sleep=NodeSleepSettings(decision=decision))
    asleep = _run(machines, equal_jobs([30 * hour_s]), arm, horizon_s=25 * hour_s).minutes.asleep_nodes
    kinds = [(column > 0).tobytes() for column in machines.gpus.T]
    assert asleep[20 * 60] == len(machines) - sum(min(2, kinds.count(kind)) for kind in set(kinds))
    assert asleep[-1] == 0.9 * len(machines)
