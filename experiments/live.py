"""A pair of arms on a real control plane with the live simulator: `python -m experiments.live`.

Kube-scheduler alone, and Joulie with `static_partition`; see `experiments.live_pair`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from experiments.config import ROOT
from experiments.live_pair import INTERVAL_S, PLANNED_S, START_S, LiveRun, observe, pair_table, run_pair
from experiments.report import write_between
from experiments.trace import Trace
from joulie_core.durations import format_duration
from joulie_core.policy import static_partition
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.cycle import total_cpu_milli
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.scenario import work_of
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.engine.arms import ARMS
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import NVIDIA_GPU, WorkItem

DIRECTORY: Final = ROOT / "08-live-pair"
PAIR: Final = ("kube_default", static_partition.NAME)
_TRACE: Final = "openb-2023"
_NODE_SCALE: Final = 0.1
_PODS: Final = 900
_ARRIVALS_S: Final = 195.0


def workload(classes: Sequence[NodeClass]) -> tuple[WorkItem, ...]:
    """Return the pods: half of the cluster's CPUs and GPUs, three tenths performance pods."""
    mix = Mix(
        pods=_PODS,
        window_s=_ARRIVALS_S,
        cpu_milli=total_cpu_milli(classes),
        node_cpu_milli=32_000,
        gpu_resources={NVIDIA_GPU: sum(each.gpu.count * each.count for each in classes if each.gpu is not None)},
        performance_share=0.3,
        cpu_load=0.5,
        gpu_load=0.5,
    )
    return work_of(classes, generate(mix, seed=1))


async def measure(classes: tuple[NodeClass, ...], items: Sequence[WorkItem], arm: str, reporter: Reporter) -> LiveRun:
    """Run an arm on a cluster of its own.

    Raises:
        DemoError: the operator does not plan the nodes in time; also in groups.
        TimeoutError: the pods do not end in time; also in groups.
        joulie_devcluster.errors.DevClusterError: the cluster or a service failed; also in groups.
    """
    joulie = arm != PAIR[0]
    interval = {"RECONCILE_INTERVAL": format_duration(INTERVAL_S)}
    stacked = StackConfig(
        services=tuple(Service) if joulie else (Service.SIM,),
        env={Service.OPERATOR: {"POLICY_TYPE": arm} | interval, Service.AGENT: interval},
        start_timeout_s=START_S,
    )
    config = ClusterConfig(name="live", nodes=classes, extender=joulie)
    async with DevCluster(config, reporter=reporter) as cluster, JoulieStack(cluster, stacked) as stack:
        supervisor = Supervisor(stack.services.values(), reporter, check_cluster=cluster.check)

        async def planned(observer: Observer) -> None:
            nodes = sum(each.count for each in classes)
            await observer.wait_planned(supervisor.check, nodes=nodes, timeout_s=PLANNED_S)

        return await observe(cluster, stack, supervisor, items, ready=planned if joulie else None)


def main() -> None:
    """Run what is missing, and put the table on the page."""
    classes = Trace.read(_TRACE).node_classes(_NODE_SCALE)
    items = workload(classes)
    rows = run_pair(DIRECTORY, {arm: ARMS[arm] for arm in PAIR}, classes, items, partial(measure, classes, items))
    write_between("08-live-pair", pair_table(rows), ROOT / "README.md")


if __name__ == "__main__":
    main()
