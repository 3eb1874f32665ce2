"""The jobs of one node over time."""

from dataclasses import replace
from math import inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory
from joulie_core.power.draw import Draw, LimitedDraw
from joulie_sim.engine.device_limits import DeviceLimits
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.node_runtime import NodeRuntime, RunningJob
from joulie_sim.engine.power_model import CalibratedPowerModel, LimitedGpuWork, ServerDraw, SlowedCores
from joulie_sim.physics.parts import Controls
from joulie_sim.testing import GPU_NODE


class _Linear:
    """A watt a core on 10 W of idle, and 10 W a GPU; a CPU cap is a share of the frequency, a GPU cap of the speed."""

    def server(self, busy_cores: float, controls: Controls, slowed: SlowedCores | None = None) -> ServerDraw:
        assert slowed is None
        frequency = 1.0 if controls.cpu_cap_watts is None else controls.cpu_cap_watts / 100
        return ServerDraw(10 + busy_cores * frequency, LimitedDraw(busy_cores * frequency, frequency))

    def gpu(self, utilization: float, controls: Controls, clock: LimitedGpuWork | None = None) -> Draw:
        speed = 1.0 if controls.gpu_cap_watts is None else controls.gpu_cap_watts / 100
        return Draw(1.0 if not utilization else 10 * utilization * speed, speed)

    def wall_watts(self, gpu_watts: float) -> float:
        return 2 * gpu_watts


_GPU_GROUP = next(
    group for group in machines_of(default_nodes(40), Inventory.load()).groups if group.hardware.gpu is not None
)
_CPU_JOB = RunningJob(4.0, 0, 0.0, 1.0)
_GPU_JOB = RunningJob(2.0, 2, 0.5, 0.0)


@pytest.fixture
def node() -> NodeRuntime:
    return NodeRuntime(GPU_NODE, _Linear())


def _cap(node: NodeRuntime, now_s: float, **caps: float) -> float:
    node.advance(now_s)
    node.controls = Controls(**{f"{part}_cap_watts": value for part, value in caps.items()})
    return node.settle()


def test_a_cap_in_the_middle_of_a_job_delays_the_rest_of_it(node) -> None:
    node.start(0, _CPU_JOB, 100.0)
    assert node.settle() == 100.0
    assert _cap(node, 40.0, cpu=50.0) == 160.0
    assert _cap(node, 60.0) == 110.0
    node.advance(110.0)
    assert node.complete() == [0]


def test_jobs_of_one_speed_end_in_the_order_of_their_work(node) -> None:
    node.start(0, _CPU_JOB, 100.0)
    node.settle()
    node.advance(50.0)
    node.start(1, _CPU_JOB, 20.0)
    assert node.settle() == 70.0
    node.advance(70.0)
    assert node.complete() == [1]
    node.release(_CPU_JOB)
    assert node.settle() == 100.0


def test_each_device_slows_the_jobs_that_use_it(node) -> None:
    node.start(0, _GPU_JOB, 100.0)
    node.settle()
    # The job's work on the CPU does not depend on the frequency.
    assert _cap(node, 0.0, cpu=50.0) == 100.0
    assert _cap(node, 0.0, gpu=50.0) == 200.0


def test_power_is_that_of_the_server_and_of_held_and_free_gpus(node) -> None:
    # Four GPUs at 1 W each; GPUs count twice at the wall.
    assert (node.watts, node.device_watts) == (18.0, 4.0)
    node.start(0, _GPU_JOB, 100.0)
    node.settle()
    assert (node.watts, node.device_watts) == (36.0, 14.0)
    node.advance(100.0)
    node.complete()
    node.release(_GPU_JOB)
    assert node.settle() == inf
    assert (node.watts, node.device_watts) == (18.0, 4.0)


_STEPS = st.lists(
    st.tuples(st.floats(0.0, 30.0), st.sampled_from(["cpu", "gpu", "cap", "free"]), st.floats(1.0, 90.0)), max_size=25
)


@settings(max_examples=60)
@given(_STEPS)
def test_every_job_gets_exactly_its_work(steps) -> None:
    node, left, done = NodeRuntime(GPU_NODE, _Linear()), {}, set()
    next_s, now_s = node.settle(), 0.0
    work = {}

    def pass_until(until_s: float) -> None:
        nonlocal next_s, now_s
        while next_s <= until_s and next_s < inf:
            _receive(next_s)
            node.advance(next_s)
            now_s = next_s
            for job in node.complete():
                done.add(job)
                assert isclose(left.pop(job), 0.0, abs_tol=1e-6)
                node.release(work[job])
            next_s = node.settle()
        _receive(until_s)
        node.advance(until_s)
        now_s = until_s

    def _receive(until_s: float) -> None:
        frequency = 1.0 if node.controls.cpu_cap_watts is None else node.controls.cpu_cap_watts / 100
        for job in list(left):
            left[job] -= (until_s - now_s) * (frequency if work[job] is _CPU_JOB else 1.0)
            assert left[job] > -1e-6

    for number, (wait_s, what, value) in enumerate(steps):
        pass_until(now_s + wait_s)
        if what == "cap":
            node.controls = Controls(cpu_cap_watts=value)
        elif what == "free":
            node.controls = Controls()
        else:
            work[number] = _CPU_JOB if what == "cpu" else _GPU_JOB
            left[number] = value
            node.start(number, work[number], value)
        next_s = node.settle()
    pass_until(1e6)
    assert done == set(work)


def test_limits_reach_the_devices_of_limited_jobs_only() -> None:
    parts = _GPU_GROUP.hardware
    hardware = replace(parts, gpu=replace(parts.gpu, work_per_gpu=1.0))
    node = NodeRuntime(hardware, CalibratedPowerModel(_GPU_GROUP), DeviceLimits(200.0, 0.8))
    free = node.watts
    standard, performance = RunningJob(8.0, 2, 1.0, 1.0, limited=True), RunningJob(8.0, 2, 1.0, 1.0)
    node.start(0, performance, 100.0)
    assert node.settle() == 100.0
    without_limits = node.watts
    node.start(1, standard, 100.0)
    assert node.settle() == 100.0, "the performance job is as fast as alone"
    assert node.watts - without_limits < without_limits - free
    node.advance(100.0)
    assert node.complete() == [0]
    node.release(performance)
    assert node.settle() > 120.0
    limited = node.watts
    node.release(standard)
    node.settle()
    assert node.watts == pytest.approx(free)
    assert limited < without_limits


def test_a_job_that_is_stopped_leaves_the_others_and_says_what_it_has_not_received(node):
    idle_watts = node.watts
    for job, work_s in ((1, 100.0), (2, 300.0), (3, 50.0)):
        node.start(job, _CPU_JOB, work_s)
    node.settle()
    speed = 50.0 / node.settle()
    node.advance(20.0)
    assert node.stop(1) == pytest.approx(100.0 - 20.0 * speed)
    node.release(_CPU_JOB)
    assert node.settle() == pytest.approx(50.0 / speed)
    assert dict(node.left()).keys() == {2, 3}
    for job in (2, 3):
        node.stop(job)
        node.release(_CPU_JOB)
    assert node.settle() == inf
    assert (node.watts, node.has_jobs) == (idle_watts, False)
    with pytest.raises(KeyError):
        node.stop(1)


def test_a_job_whose_load_changes_keeps_the_work_that_it_has_received() -> None:
    parts = _GPU_GROUP.hardware
    hardware = replace(parts, gpu=replace(parts.gpu, work_per_gpu=1.0))
    node = NodeRuntime(hardware, CalibratedPowerModel(_GPU_GROUP), DeviceLimits(200.0))
    idle_watts, free = node.watts, RunningJob(0.0, 2, 1.0, 1.0)
    limited = free._replace(limited=True)
    for job in (1, 2):
        node.start(job, free, 100.0)
    node.settle()
    both_watts = node.watts
    node.advance(40.0)
    node.change(1, free, limited)
    end_s = node.settle()
    assert end_s == 100.0, "the other job is as fast as before"
    assert dict(node.left()) == {1: 60.0, 2: 60.0}
    assert idle_watts < node.watts < both_watts
    node.advance(100.0)
    assert node.complete() == [2]
    node.release(free)
    assert node.settle() > 100.0
    assert node.stop(1) > 0.0
    node.release(limited)
    node.settle()
    assert node.watts == pytest.approx(idle_watts)
    with pytest.raises(KeyError):
        node.change(1, limited, free)
