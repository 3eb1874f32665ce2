"""A pair of arms with limits by class on a real control plane: `python -m experiments.live_class_limits`.

Kube-scheduler alone, and the same with agents that limit the GPUs of standard pods by what these allow (`CLASS_LIMITS=
Enforce`); see `experiments.live_pair`. Both arms have kube-scheduler's own scores.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from experiments.config import ROOT
from experiments.gpu_machines import GpuMachine, GpuMachines
from experiments.live_pair import INTERVAL_S, PLANNED_S, START_S, LiveRun, observe, pair_table, run_pair
from experiments.report import write_between
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.durations import format_duration
from joulie_core.labels import MAX_SLOWDOWN
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.manifests import apply_manifests
from joulie_devcluster.control_plane.nodes import CpuClass, GpuClass, NodeClass
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.cycle import total_cpu_milli
from joulie_sim.demo.feeder import NAMESPACE
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.scenario import work_of
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.engine.arm import Arm
from joulie_sim.engine.arms import ARMS as ENGINE_ARMS
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import NVIDIA_GPU, WorkItem

DIRECTORY: Final = ROOT / "15-live-class-limits"
_ALLOWED: Final = AllowedSlowdown.QUARTER
_LIMITED: Final = ENGINE_ARMS[f"class_limits_{_ALLOWED.pct}"]
assert _LIMITED.joulie is not None
#: What the engine simulates, by name.
ARMS: Final[Mapping[str, Arm]] = {
    "kube_default": ENGINE_ARMS["kube_default"],
    _LIMITED.name: replace(_LIMITED, joulie=replace(_LIMITED.joulie, score=None)),
}
_NODES: Final = 4
_GPUS: Final = 8
_PODS: Final = 24
_ARRIVALS_S: Final = 150.0
_OPERATOR: Final = {"STATIC_HP_FRAC": "1.0", "RECONCILE_INTERVAL": format_duration(INTERVAL_S)}


def node_classes() -> tuple[NodeClass, ...]:
    """Return the nodes: each has an agent, whose processes share this machine with the control plane."""
    cpu = CpuClass(model="Intel-Xeon-Platinum-8480", cores=112)
    gpu = GpuClass(model="NVIDIA-H100-80GB-HBM3", count=_GPUS)
    return (NodeClass(name="h100", count=_NODES, cpu=cpu, gpu=gpu),)


def workload(classes: Sequence[NodeClass]) -> tuple[WorkItem, ...]:
    """Return the pods: all with GPUs, of which they use 60 %; three tenths are performance pods."""
    mix = Mix(
        pods=_PODS,
        window_s=_ARRIVALS_S,
        cpu_milli=total_cpu_milli(classes),
        node_cpu_milli=112_000,
        gpu_resources={NVIDIA_GPU: _NODES * _GPUS},
        performance_share=0.3,
        gpu_share=1.0,
        gpu_load=0.6,
    )
    return work_of(classes, generate(mix, seed=1))


async def measure(classes: tuple[NodeClass, ...], items: Sequence[WorkItem], arm: str, reporter: Reporter) -> LiveRun:
    """Run an arm on a cluster of its own.

    Raises:
        DemoError: the operator does not plan the nodes in time; also in groups.
        TimeoutError: held clocks are not measured, or the pods do not end, in time; also in groups.
        joulie_devcluster.errors.DevClusterError: the cluster or a process failed; also in groups.
    """
    limited = arm == _LIMITED.name
    services = (Service.SIM, Service.OPERATOR) if limited else (Service.SIM,)
    stacked = StackConfig(services=services, env={Service.OPERATOR: _OPERATOR}, start_timeout_s=START_S)
    config = ClusterConfig(name="live", nodes=classes)
    async with DevCluster(config, reporter=reporter) as cluster, JoulieStack(cluster, stacked) as stack:
        supervisor = Supervisor(stack.services.values(), reporter, check_cluster=cluster.check)
        if not limited:
            return await observe(cluster, stack, supervisor, items)
        with tempfile.TemporaryDirectory() as directory:
            return await _limited(cluster, stack, supervisor, items, Path(directory))


async def _limited(
    cluster: DevCluster, stack: JoulieStack, supervisor: Supervisor, items: Sequence[WorkItem], directory: Path
) -> LiveRun:
    names = [name for each in cluster.config.nodes for name in each.node_names()]
    machines = GpuMachines(
        [GpuMachine(directory / name, name, _GPUS, cluster.kubeconfig) for name in names], stack.sim_url
    )
    async with await cluster.client(user_agent="joulie-live") as client:
        consent = {"name": NAMESPACE, "annotations": {MAX_SLOWDOWN: _ALLOWED.value}}
        await apply_manifests(client, [{"apiVersion": "v1", "kind": "Namespace", "metadata": consent}])

        async def ready(observer: Observer) -> None:
            await observer.wait_planned(supervisor.check, nodes=len(names), timeout_s=PLANNED_S)
            await machines.wait_held(client, _GPUS)

        async with machines.running():
            run = await observe(cluster, stack, supervisor, items, ready=ready)
            machines.check()
            return run


def main() -> None:
    """Run what is missing, and put the table on the page."""
    classes = node_classes()
    items = workload(classes)
    rows = run_pair(DIRECTORY, ARMS, classes, items, partial(measure, classes, items))
    write_between("15-live-class-limits", pair_table(rows), ROOT / "README.md")


if __name__ == "__main__":
    main()
