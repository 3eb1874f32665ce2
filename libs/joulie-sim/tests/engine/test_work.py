"""Work on models that differ in how fast they do it."""

from dataclasses import replace

import numpy as np
import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_runtime import NodeRuntime, RunningJob
from joulie_sim.engine.power_model import CalibratedPowerModel
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.steady import SteadyMix, steady_jobs
from joulie_sim.engine.summary import summarize
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs
from joulie_sim.physics.job import JobRequest
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.workload.item import WorkItem

_HOUR_S = 3_600.0


def _nodes(cpu, threads, *, count=1, gpu=None, gpus=0):
    labels = {"joulie.io/hw.cpu-model": cpu} | ({"nvidia.com/gpu.product": gpu} if gpu else {})
    offered = {"cpu": str(threads), "memory": "1Ti"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return [
        Node(NodeName(f"{cpu}-{gpu}-{index}"), labels=labels, allocatable=offered, capacity=offered)
        for index in range(count)
    ]


def _machines(*groups):
    return machines_of([node for group in groups for node in group], Inventory.load())


def _run(machines, jobs):
    return Simulation(machines, jobs, ARMS["kube_default"], SimulationSettings()).run()


def test_a_job_takes_its_work_over_the_rate_of_its_cpu_model(equal_jobs) -> None:
    slow, fast = _nodes("AMD EPYC 7551", 128), _nodes("AMD EPYC 9654", 384)
    for nodes, rate in ((slow, 0.66), (fast, 1.36)):
        machines = _machines(nodes)
        jobs = equal_jobs([0.0], work_s=100.0)
        result = _run(machines, jobs)
        assert result.jobs.ended_s.tolist() == [pytest.approx(100.0 / rate)]
        summary = summarize(result, jobs, machines)
        assert summary.slowdown_mean(WorkloadClass.STANDARD) == pytest.approx(1.0 / rate)
        assert summary.work_core_hours == pytest.approx(100.0 / 3600)


def test_a_job_with_gpus_takes_the_rate_of_its_gpus_and_not_of_its_cpus() -> None:
    (group,) = _machines(_nodes("AMD EPYC 9654", 384, gpu="NVIDIA-H100-80GB-HBM3", gpus=8)).groups
    node = NodeRuntime(group.hardware, CalibratedPowerModel(group))
    node.start(0, RunningJob(4.0, 2, 1.0, 1.0), 195.0)
    assert node.settle() == pytest.approx(100.0)
    node.start(1, RunningJob(4.0, 0, 0.0, 1.0), 68.0)
    assert node.settle() == pytest.approx(50.0)


def test_the_live_simulator_and_the_engine_finish_the_same_job_at_the_same_time() -> None:
    (group,) = _machines(_nodes("Intel Xeon Platinum 8480", 224, gpu="Tesla-T4", gpus=4)).groups
    for gpus in (0, 1):
        live = SimulatedNode("n", group.hardware, now_s=0.0)
        live.start(JobRequest("a", 8.0, gpus, 0.5, 1.0, work_s=1000.0), 0.0)
        engine = NodeRuntime(group.hardware, CalibratedPowerModel(group))
        engine.start(0, RunningJob(4.0, gpus, 1.0, 1.0), 1000.0)
        assert live.next_completion_s() == pytest.approx(engine.settle())


def test_a_cluster_of_one_model_has_the_same_picture_whatever_its_rate(equally_fast) -> None:
    machines = _machines(_nodes("AMD EPYC 9654", 384, count=3))
    reference = equally_fast(machines)
    mix = ArrivalMix(jobs=800, window_s=2 * _HOUR_S, load=0.6)
    jobs, plain = (synthetic_jobs(mix, each, seed=2) for each in (machines, reference))
    assert jobs.work_s == pytest.approx(1.36 * plain.work_s)
    own, other = _run(machines, jobs), _run(reference, plain)
    assert own.jobs.ended_s == pytest.approx(other.jobs.ended_s)
    assert own.jobs.node.tolist() == other.jobs.node.tolist()
    assert own.it_joules == pytest.approx(other.it_joules)
    sums = [summarize(*each) for each in ((own, jobs, machines), (other, plain, reference))]
    assert sums[0].work_core_hours == pytest.approx(1.36 * sums[1].work_core_hours)
    assert sums[0].joules_per_core_second == pytest.approx(sums[1].joules_per_core_second / 1.36)
    assert sums[0].cores_held == pytest.approx(sums[1].cores_held)


def test_jobs_hold_the_share_of_the_cores_that_is_asked_for_on_a_cluster_of_unequal_models() -> None:
    slow, fast = _nodes("AMD EPYC 7551", 128, count=3), _nodes("AMD EPYC 9375F", 128, count=3)
    machines = _machines(slow, fast)
    assert machines.mean_work_per_thread == pytest.approx((0.66 + 2.47) / 2)
    mix = SteadyMix(load=0.5, warm_up_s=24 * _HOUR_S, window_s=24 * _HOUR_S)
    held = []
    for seed in range(3):
        jobs = steady_jobs(mix, machines, seed)
        held.append(summarize(_run(machines, jobs), jobs, machines, mix.measured).cores_held)
    # The daily cycle of the warm-up is in it, and chance of three seeds.
    assert np.mean(held) == pytest.approx(0.5, abs=0.04)


def test_models_without_a_published_rate_are_as_fast_as_the_reference_and_are_named(equal_jobs) -> None:
    unknown = _nodes("AMD EPYC 9654", 384, count=2, gpu="Tesla-P100-PCIE-16GB", gpus=2)
    machines = _machines(unknown, _nodes("AMD EPYC 7763", 256))
    assert machines.unrated == {"NVIDIA P100 PCIe": 2}
    assert machines.mean_work_per_gpu.tolist() == [1.0]
    jobs = equal_jobs([0.0])
    assert summarize(_run(machines, jobs), jobs, machines).unrated == {"NVIDIA P100 PCIe": 2}


def test_items_get_the_work_of_the_mean_device_of_their_kind() -> None:
    h100 = _nodes("AMD EPYC 7763", 256, gpu="NVIDIA-H100-80GB-HBM3", gpus=8)
    a100 = _nodes("AMD EPYC 9654", 256, gpu="NVIDIA-A100-SXM4-80GB", gpus=8)
    machines = _machines(h100, a100)
    plain = WorkItem(
        name="a",
        arrives_s=0.0,
        workload_class=WorkloadClass.STANDARD,
        cpu_milli=1000,
        memory_mib=1024,
        work_s=100.0,
        cpu_utilization=1.0,
    )
    items = machines.work_of([plain, replace(plain, gpus=1)])
    assert [item.work_s for item in items] == pytest.approx([118.0, 147.5])
    assert machines.slowest_share == pytest.approx(1.0 / 1.475)
