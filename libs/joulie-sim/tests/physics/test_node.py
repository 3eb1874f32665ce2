import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_sim.physics.cluster import SimulatedCluster
from joulie_sim.physics.job import JobRequest
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.physics.parts import Controls
from joulie_sim.testing import CPU_NODE, GPU_NODE


def cpu_job(key="a", *, cores=32.0, used=1.0, work_s=100.0):
    return JobRequest(key=key, cores=cores, cpu_utilization=used, work_s=work_s)


def gpu_job(key="g", *, gpus=1, used=1.0, work_s=100.0):
    return JobRequest(key=key, cores=0.0, gpus=gpus, gpu_utilization=used, work_s=work_s)


def test_a_job_at_full_speed_completes_after_its_work_seconds():
    node = SimulatedNode("n", CPU_NODE, now_s=10.0)
    node.start(cpu_job(work_s=30.0), 10.0)
    assert node.advance(39.9) == []
    (done,) = node.advance(100.0)
    assert (done.started_s, done.completed_s, done.slowdown) == (10.0, 40.0, 1.0)


def test_a_cap_that_binds_makes_a_job_take_longer():
    node = SimulatedNode("n", CPU_NODE, now_s=0.0)
    node.control(Controls(cpu_cap_watts=100.0), 0.0)
    node.start(cpu_job(work_s=30.0), 0.0)
    (done,) = node.advance(100.0)
    assert done.completed_s == pytest.approx(60.0)
    assert done.slowdown == pytest.approx(2.0)


def test_a_lower_clock_of_a_gpu_slows_the_job_on_it_by_the_published_sweep_and_no_other():
    node, free = (SimulatedNode("n", GPU_NODE, now_s=0.0) for _ in range(2))
    node.control(Controls().with_gpu_clock(0, 0.8), 0.0)
    for each in (node, free):
        each.start(gpu_job("slow", work_s=30.0), 0.0)
        each.start(gpu_job("fast", work_s=30.0), 0.0)
    point = ClockSweeps.load().of(GPU_NODE.gpu.model).at(0.8)
    assert node.point.gpu_speeds[:2] == (pytest.approx(point.speed), 1.0)
    assert node.point.gpu_watts[0] == pytest.approx(point.power * GPU_NODE.gpu.max_watts)
    assert node.point.gpu_watts[1:] == free.point.gpu_watts[1:]
    ends_s = {each.key: each.completed_s for each in node.advance(100.0)}
    assert ends_s == {"slow": pytest.approx(30.0 / point.speed), "fast": 30.0}


def test_a_gpu_without_work_draws_the_same_at_a_lower_clock():
    node = SimulatedNode("n", GPU_NODE, now_s=0.0)
    before = node.point
    node.control(Controls().with_gpu_clock(0, 0.5), 0.0)
    assert node.point.gpu_watts == pytest.approx(before.gpu_watts)


def test_a_cap_set_halfway_slows_the_second_half_only():
    node = SimulatedNode("n", CPU_NODE, now_s=0.0)
    node.start(cpu_job(work_s=30.0), 0.0)
    node.control(Controls(cpu_cap_watts=100.0), 15.0)
    (done,) = node.advance(100.0)
    assert done.completed_s == pytest.approx(15.0 + 30.0)


def test_a_cap_above_the_demand_slows_nothing():
    node = SimulatedNode("n", CPU_NODE, now_s=0.0)
    node.control(Controls(cpu_cap_watts=151.0), 0.0)
    node.start(cpu_job(used=0.5, work_s=30.0), 0.0)
    assert node.advance(100.0)[0].slowdown == 1.0


def test_a_job_without_work_seconds_runs_until_it_is_stopped():
    node = SimulatedNode("n", CPU_NODE, now_s=0.0)
    node.start(cpu_job(work_s=None), 0.0)
    assert node.advance(1e6) == []
    assert node.stop("a", 1e6) == []
    assert node.point.cpu_watts == 100.0


def test_starting_a_running_job_again_keeps_its_progress():
    node = SimulatedNode("n", CPU_NODE, now_s=0.0)
    node.start(cpu_job(work_s=30.0), 0.0)
    node.start(cpu_job(work_s=30.0), 20.0)
    assert node.next_completion_s() == pytest.approx(30.0)


def test_more_requested_cores_than_exist_slow_all_jobs():
    node = SimulatedNode("n", CPU_NODE, now_s=0.0)
    node.start(cpu_job("a", work_s=30.0), 0.0)
    node.start(cpu_job("b", work_s=30.0), 0.0)
    assert node.next_completion_s() == pytest.approx(60.0)
    assert node.point.cpu_watts == 500.0


def test_jobs_get_different_gpus_and_a_gpu_cap_slows_only_gpu_jobs():
    node = SimulatedNode("n", GPU_NODE, now_s=0.0)
    node.start(gpu_job("g", work_s=30.0), 0.0)
    node.start(gpu_job("h", gpus=2, work_s=30.0), 0.0)
    node.start(cpu_job("c", cores=1.0, work_s=30.0), 0.0)
    assert node.point.gpu_watts == (400.0, 400.0, 400.0, 40.0)
    node.control(Controls(gpu_cap_watts=130.0), 0.0)
    assert node.point.gpu_watts == pytest.approx((130.0, 130.0, 130.0, 40.0))
    assert {job.request.key: pytest.approx(job.work_per_s) for job in node.jobs} == {"g": 0.5, "h": 0.5, "c": 1.0}


def test_a_freed_gpu_is_assigned_next():
    node = SimulatedNode("n", GPU_NODE, now_s=0.0)
    for key in "abcd":
        node.start(gpu_job(key), 0.0)
    node.stop("b", 0.0)
    node.start(gpu_job("e"), 0.0)
    assert {job.request.key: job.load.gpus for job in node.jobs}["e"] == (1,)


def test_energy_is_watts_times_time():
    node = SimulatedNode("n", GPU_NODE, now_s=0.0)
    node.start(cpu_job(work_s=30.0), 0.0)
    node.start(gpu_job(work_s=40.0), 0.0)
    node.advance(100.0)
    assert node.energy.cpu_joules == pytest.approx(500 * 30 + 100 * 70)
    assert node.energy.gpu_joules == pytest.approx(160 * 100 + 360 * 40)


events = st.lists(
    st.tuples(
        st.floats(0.0, 50.0),
        st.one_of(
            st.builds(
                lambda key, cores, used, gpus, work_s: JobRequest(
                    key=key, cores=cores, cpu_utilization=used, gpus=gpus, gpu_utilization=used, work_s=work_s
                ),
                st.sampled_from("abcdef"),
                st.floats(0.1, 40.0),
                st.floats(0.0, 1.0),
                st.integers(0, 4),
                st.none() | st.floats(0.1, 60.0),
            ),
            st.builds(
                Controls,
                st.none() | st.floats(60.0, 250.0),
                st.floats(0.0, 100.0),
                st.none() | st.floats(60.0, 400.0),
            ),
            st.sampled_from("abcdef"),
        ),
    ),
    max_size=12,
)


def replay(node, script, *, reads):
    """Run a script of events; with `reads`, also read the node in between."""
    completions, now_s = [], 0.0
    for wait_s, event in script:
        for part in range(1, reads + 1):
            completions += node.advance(now_s + wait_s * part / (reads + 1))
        now_s += wait_s
        match event:
            case JobRequest():
                completions += node.start(event, now_s)
            case Controls():
                completions += node.control(event, now_s)
            case key:
                completions += node.stop(key, now_s)
    return completions + node.advance(now_s + 100.0)


@given(events, st.integers(1, 5))
def test_energy_and_completions_do_not_depend_on_how_often_the_node_is_read(script, reads):
    seldom, often = SimulatedNode("n", GPU_NODE, now_s=0.0), SimulatedNode("n", GPU_NODE, now_s=0.0)
    once, many = replay(seldom, script, reads=0), replay(often, script, reads=reads)
    assert often.energy.joules == pytest.approx(seldom.energy.joules)
    # A completion within rounding of an event may fall on either side of it; a stop then finds the job done or not.
    assert {done.key for done in once} >= {done.key for done in many} or len(once) == len(many)
    for one, other in zip(once, many, strict=False):
        assert one.completed_s == pytest.approx(other.completed_s, abs=1e-6)


@given(events)
def test_no_job_gets_more_work_than_time_and_none_completes_short_of_its_work(script):
    node = SimulatedNode("n", GPU_NODE, now_s=0.0)
    for done in replay(node, script, reads=0):
        assert done.completed_s - done.started_s >= done.work_s - 1e-6
    for job in node.jobs:
        assert job.done_s <= node.now_s - job.started_s + 1e-6
        assert job.request.work_s is None or job.done_s <= job.request.work_s + 1e-6


@given(events)
def test_energy_lies_between_idle_and_peak(script):
    node = SimulatedNode("n", GPU_NODE, now_s=0.0)
    replay(node, script, reads=0)
    assert 260.0 * node.now_s <= node.energy.joules + 1e-6
    assert node.energy.joules <= 2100.0 * node.now_s + 1e-6


def test_the_cluster_completes_jobs_of_all_nodes_in_order_of_time():
    world = SimulatedCluster()
    for name in ("n1", "n2"):
        world.put_node(name, CPU_NODE, 0.0)
    world.start_job("n1", cpu_job("late", work_s=20.0), 0.0)
    world.start_job("n2", cpu_job("early", work_s=10.0), 0.0)
    assert world.next_completion_s() == 10.0
    assert [done.key for done in world.complete_due(15.0)] == ["early"]
    world.control("n1", Controls(cpu_cap_watts=100.0), 15.0)
    assert world.next_completion_s() == pytest.approx(25.0)
    assert [done.key for done in world.complete_due(25.1)] == ["late"]
    assert world.next_completion_s() is None


def test_the_agenda_does_not_grow_with_reading():
    world = SimulatedCluster()
    world.put_node("n", CPU_NODE, 0.0)
    world.start_job("n", cpu_job(work_s=1000.0), 0.0)
    for second in range(500):
        world.advance(float(second))
    assert len(world._agenda) == 1


def test_a_job_on_an_unknown_node_is_ignored():
    assert SimulatedCluster().start_job("nowhere", cpu_job(), 0.0) == []
