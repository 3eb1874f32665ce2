"""A pair of arms on a real control plane with the live simulator: `python -m experiments.live`.

Both arms get the same nodes and pods, one after the other, each on a cluster of its own: kube-scheduler alone, and
Joulie with `static_partition`. The engine then simulates the pods of each arm at the times at which they were really
created, with the power model of the live simulator's machines. Energies count up to the end of the last of the four.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp

from experiments.config import ROOT
from experiments.report import write_between
from experiments.rows import Row, read_table, text_row, write_rows
from experiments.trace import Trace
from joulie_core.demand import WorkloadClass
from joulie_core.durations import format_duration
from joulie_core.hardware.inventory import Inventory
from joulie_core.policy import static_partition
from joulie_core.units import JOULES_PER_KWH
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.host.progress import Reporter, terminal_reporter
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.record import PodTrack
from joulie_sim.demo.scenario import work_of
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.demo.without_joulie import PackagePowerModel
from joulie_sim.energy import kwh_until
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_sim.tables import TextTable
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import NVIDIA_GPU, WorkItem

DIRECTORY: Final = ROOT / "08-live-pair"
PAIR: Final = ("kube_default", static_partition.NAME)
_TRACE: Final = "openb-2023"
_NODE_SCALE: Final = 0.1
_PODS: Final = 900
_ARRIVALS_S: Final = 195.0
_LONGEST_S: Final = 900.0
#: Of the operator and the agents.
_INTERVAL_S: Final = 5.0
_SAMPLE_S: Final = 1.0
_PLANNED_S: Final = 600.0
#: Services share a machine of few cores with the control plane.
_START_S: Final = 240.0
_WORKLOAD: Final = "live"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What was measured of one arm, from the first pod to the end of the last one."""

    kwh: float
    seconds: float
    #: Means.
    slowdowns: Mapping[WorkloadClass, float | None]
    transitions: int
    tracks: Mapping[str, PodTrack]


def workload(classes: Sequence[NodeClass]) -> tuple[WorkItem, ...]:
    """Return the pods: half of the cluster's CPUs and GPUs, three tenths performance pods."""
    mix = Mix(
        pods=_PODS,
        window_s=_ARRIVALS_S,
        cpu_milli=sum(1000 * each.cpu.cores * each.cpu.threads_per_core * each.count for each in classes),
        node_cpu_milli=32_000,
        gpu_resources={NVIDIA_GPU: sum(each.gpu.count * each.count for each in classes if each.gpu is not None)},
        performance_share=0.3,
        cpu_load=0.5,
        gpu_load=0.5,
    )
    return work_of(classes, generate(mix, seed=1))


async def measure(arm: str, classes: tuple[NodeClass, ...], items: Sequence[WorkItem], reporter: Reporter) -> LiveRun:
    """Run an arm on a cluster of its own.

    Raises:
        DemoError: the operator does not plan the nodes in time; also in groups.
        TimeoutError: the pods do not end in time; also in groups.
        joulie_devcluster.errors.DevClusterError: the cluster or a service failed; also in groups.
    """
    joulie = arm != PAIR[0]
    interval = {"RECONCILE_INTERVAL": format_duration(_INTERVAL_S)}
    stacked = StackConfig(
        services=tuple(Service) if joulie else (Service.SIM,),
        env={Service.OPERATOR: {"POLICY_TYPE": arm} | interval, Service.AGENT: interval},
        start_timeout_s=_START_S,
    )
    config = ClusterConfig(name="live", nodes=classes, extender=joulie)
    async with DevCluster(config, reporter=reporter) as cluster, JoulieStack(cluster, stacked) as stack:
        supervisor = Supervisor(stack.services.values(), reporter, check_cluster=cluster.check)
        return await _observe(cluster, stack, supervisor, items, planned=joulie)


async def _observe(
    cluster: DevCluster, stack: JoulieStack, supervisor: Supervisor, items: Sequence[WorkItem], *, planned: bool
) -> LiveRun:
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()

    def clock() -> float:
        return now_s() - begun_s

    async with (
        await cluster.client(user_agent="joulie-live") as client,
        aiohttp.ClientSession() as session,
        asyncio.TaskGroup() as group,
    ):
        observer = Observer(client, sim_url=stack.sim_url, workload=_WORKLOAD, clock=clock)
        following: list[asyncio.Task[Any]] = [group.create_task(each) for each in observer.runs()]
        if planned:
            nodes = sum(each.count for each in cluster.config.nodes)
            await observer.wait_planned(supervisor.check, nodes=nodes, timeout_s=_PLANNED_S)
        begun_s = now_s()

        sample = await observer.sample(session)
        feeding = group.create_task(feed(client, items, workload=_WORKLOAD, clock=clock, on_create=observer.created))
        async with asyncio.timeout(_LONGEST_S):
            while not feeding.done() or observer.record.unfinished:
                await asyncio.sleep(_SAMPLE_S)
                await supervisor.check()
                sample = await observer.sample(session)
        for task in following:
            task.cancel()
    return LiveRun(
        sum(observer.energy_joules.values()) / JOULES_PER_KWH,
        sample.at_s,
        observer.slowdowns,
        observer.record.transition_count,
        observer.record.pods,
    )


def simulate(
    arm: str, classes: Sequence[NodeClass], items: Sequence[WorkItem], tracks: Mapping[str, PodTrack]
) -> SimulationSummary:
    """Return what the engine makes of an arm's pods, created at the times at which they really were."""
    machines = machines_of(nodes_of_classes(classes), Inventory.load())
    jobs = Jobs.of([replace(item, arrives_s=tracks[item.name].created_s) for item in items])
    # The development cluster's kube-scheduler scores every node in both arms.
    every_node = replace(ARMS[arm], nodes_to_score_pct=100)
    settings = SimulationSettings(report_interval_s=_INTERVAL_S)
    models = [PackagePowerModel(group) for group in machines.groups]
    return summarize(Simulation(machines, jobs, every_node, settings, power_models=[*models]).run(), jobs, machines)


def run() -> None:
    """Run and simulate the arms that `runs.csv` does not have yet; each row is written when it is done."""
    classes = Trace.read(_TRACE).node_classes(_NODE_SCALE)
    items = workload(classes)
    rows = read_pair()
    with terminal_reporter() as reporter:
        for arm in PAIR[len(rows) :]:
            live = asyncio.run(measure(arm, classes, items, reporter))
            rows.append(_row(arm, live, simulate(arm, classes, items, live.tracks)))
            write_rows(DIRECTORY / "runs.csv", rows)
            reporter.note(f"{rows[-1]}")


def _row(arm: str, live: LiveRun, engine: SimulationSummary) -> Row:
    figures: dict[str, Any] = {"arm": arm, "live_kwh": live.kwh, "live_s": live.seconds}
    figures |= {"engine_kwh": engine.it_kwh, "engine_s": engine.end_s, "idle_kw": engine.idle_kw}
    for workload_class in WorkloadClass:
        slowdowns = {"live": live.slowdowns[workload_class], "engine": engine.slowdown_mean(workload_class)}
        assert None not in slowdowns.values(), "pods of both classes are done"
        figures |= {f"{place}_{workload_class.value}_slowdown": value for place, value in slowdowns.items()}
    return text_row(figures | {"live_transitions": live.transitions, "engine_transitions": engine.transitions})


def table(rows: Sequence[Row]) -> str:
    """Return the energies of both arms and what is saved, on the control plane and in the engine."""
    end_s = max(float(row[f"{place}_s"]) for row in rows for place in ("live", "engine"))

    def kwh(row: Row, place: str) -> float:
        own_kwh, own_end_s = float(row[f"{place}_kwh"]), float(row[f"{place}_s"])
        return kwh_until(end_s, own_kwh, own_end_s, idle_kw=float(row["idle_kw"]))

    titles = ("control plane, kWh", "engine, kWh", "engine less, %", "control plane saves, %", "engine saves, %")
    titles += tuple(f"slowdown of {each.value} pods, control plane / engine" for each in WorkloadClass)
    lines = []
    for row in rows:
        live, engine = kwh(row, "live"), kwh(row, "engine")
        cells = [f"{live:.3f}", f"{engine:.3f}", f"{100.0 * (1.0 - engine / live):.1f}"]
        cells += [f"{100.0 * (1.0 - kwh(row, place) / kwh(rows[0], place)):.1f}" for place in ("live", "engine")]
        cells += [
            " / ".join(f"{float(row[f'{place}_{each.value}_slowdown']):.3f}" for place in ("live", "engine"))
            for each in WorkloadClass
        ]
        lines.append((f"`{row['arm']}`", *cells))
    return TextTable(("arm", *titles), lines).markdown()


def read_pair() -> list[Row]:
    """Return the rows of `runs.csv`; none where it does not exist."""
    return read_table(DIRECTORY / "runs.csv")


if __name__ == "__main__":
    run()
    write_between("08-live-pair", table(read_pair()), ROOT / "README.md")
