"""Pairs of arms on a real control plane with the live simulator, beside the engine's prediction.

Both arms get the same nodes and pods, one after the other, each on a cluster of its own. The engine then simulates the
pods of each arm at the times at which they were really created, with the power model of the live simulator's machines.
Energies count up to the end of the last of the four.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from experiments.rows import Row, read_table, text_row, write_rows
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.units import JOULES_PER_KWH
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.host.progress import Reporter, terminal_reporter
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.following import FollowingTasks
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.record import PodTrack
from joulie_sim.demo.stopwatch import Stopwatch
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.demo.without_joulie import PackagePowerModel
from joulie_sim.energy import kwh_until
from joulie_sim.engine.arm import Arm
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize
from joulie_sim.stack.stack import JoulieStack
from joulie_sim.tables import TextTable
from joulie_sim.workload.item import WorkItem

#: Of the operator and the agents.
INTERVAL_S: Final = 5.0
#: Services share a machine of few cores with the control plane.
START_S: Final = 240.0
PLANNED_S: Final = 600.0
_LONGEST_S: Final = 900.0
_SAMPLE_S: Final = 1.0
_WORKLOAD: Final = "live"
_PLACES: Final = ("live", "engine")


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What was measured of one arm, from the first pod to the end of the last one."""

    kwh: float
    seconds: float
    #: Means.
    slowdowns: Mapping[WorkloadClass, float | None]
    transitions: int
    tracks: Mapping[str, PodTrack]


async def observe(
    cluster: DevCluster,
    stack: JoulieStack,
    supervisor: Supervisor,
    items: Sequence[WorkItem],
    *,
    ready: Callable[[Observer], Awaitable[None]] | None = None,
) -> LiveRun:
    """Feed the pods and measure until the last of them has ended.

    Args:
        cluster: the control plane.
        stack: the services.
        supervisor: restarts services that exit.
        items: the pods.
        ready: waits until the first pod may come; None: it may at once.

    Raises:
        TimeoutError: the pods do not end in time; also in groups.
    """
    stopwatch = Stopwatch()
    clock = stopwatch.seconds
    async with (
        await cluster.client(user_agent="joulie-live") as client,
        aiohttp.ClientSession() as session,
        FollowingTasks() as tasks,
    ):
        observer = Observer(client, sim_url=stack.sim_url, workload=_WORKLOAD, clock=clock)
        for each in observer.runs():
            tasks.follow(each)
        if ready is not None:
            await ready(observer)
        stopwatch.reset()
        sample = await observer.sample(session)
        feeding = tasks.follow(feed(client, items, workload=_WORKLOAD, clock=clock, on_create=observer.created))
        async with asyncio.timeout(_LONGEST_S):
            while not feeding.done() or observer.record.unfinished:
                await asyncio.sleep(_SAMPLE_S)
                await supervisor.check()
                sample = await observer.sample(session)
    return LiveRun(
        sum(observer.energy_joules.values()) / JOULES_PER_KWH,
        sample.at_s,
        observer.slowdowns,
        observer.record.transition_count,
        observer.record.pods,
    )


def simulate(
    arm: Arm, classes: Sequence[NodeClass], items: Sequence[WorkItem], tracks: Mapping[str, PodTrack]
) -> SimulationSummary:
    """Return what the engine makes of an arm's pods, created at the times at which they really were."""
    machines = machines_of(nodes_of_classes(classes), Inventory.load())
    jobs = Jobs.of([replace(item, arrives_s=tracks[item.name].created_s) for item in items])
    # The development cluster's kube-scheduler scores every node in both arms.
    every_node = replace(arm, nodes_to_score_pct=100)
    settings = SimulationSettings(report_interval_s=INTERVAL_S)
    models = [PackagePowerModel(group) for group in machines.groups]
    return summarize(Simulation(machines, jobs, every_node, settings, power_models=[*models]).run(), jobs, machines)


def read_pair(directory: Path) -> list[Row]:
    """Return the rows of `runs.csv`; none where it does not exist."""
    return read_table(directory / "runs.csv")


def run_pair(
    directory: Path,
    arms: Mapping[str, Arm],
    classes: tuple[NodeClass, ...],
    items: Sequence[WorkItem],
    measure: Callable[[str, Reporter], Coroutine[Any, Any, LiveRun]],
) -> list[Row]:
    """Run and simulate the arms that `runs.csv` does not have yet; each row is written when it is done.

    Args:
        directory: of the experiment.
        arms: what the engine simulates, by name, the baseline first.
        classes: the nodes.
        items: the pods.
        measure: runs the arm of a name on a cluster of its own.
    """
    rows = read_pair(directory)
    with terminal_reporter() as reporter:
        for name in [*arms][len(rows) :]:
            live = asyncio.run(measure(name, reporter))
            rows.append(pair_row(name, live, simulate(arms[name], classes, items, live.tracks)))
            write_rows(directory / "runs.csv", rows)
            reporter.note(f"{rows[-1]}")
    return rows


def pair_row(arm: str, live: LiveRun, engine: SimulationSummary) -> Row:
    """Return the row of an arm."""
    figures: dict[str, Any] = {"arm": arm, "live_kwh": live.kwh, "live_s": live.seconds}
    figures |= {"engine_kwh": engine.it_kwh, "engine_s": engine.end_s, "idle_kw": engine.idle_kw}
    for workload_class in WorkloadClass:
        slowdowns = {"live": live.slowdowns[workload_class], "engine": engine.slowdown_mean(workload_class)}
        assert None not in slowdowns.values(), "pods of both classes are done"
        figures |= {f"{place}_{workload_class.value}_slowdown": value for place, value in slowdowns.items()}
    return text_row(figures | {"live_transitions": live.transitions, "engine_transitions": engine.transitions})


def pair_table(rows: Sequence[Row]) -> str:
    """Return the energies of both arms and what is saved, on the control plane and in the engine.

    The slowdowns are those over the first arm's.
    """
    end_s = max(float(row[f"{place}_s"]) for row in rows for place in _PLACES)

    def kwh(row: Row, place: str) -> float:
        own_kwh, own_end_s = float(row[f"{place}_kwh"]), float(row[f"{place}_s"])
        return kwh_until(end_s, own_kwh, own_end_s, idle_kw=float(row["idle_kw"]))

    titles = ("control plane, kWh", "engine, kWh", "engine less, %", "control plane saves, %", "engine saves, %")
    titles += tuple(f"slowdown of {each.value} pods, control plane / engine" for each in WorkloadClass)
    lines = []
    for row in rows:
        live, engine = kwh(row, "live"), kwh(row, "engine")
        cells = [f"{live:.3f}", f"{engine:.3f}", f"{100.0 * (1.0 - engine / live):.1f}"]
        cells += [f"{100.0 * (1.0 - kwh(row, place) / kwh(rows[0], place)):.1f}" for place in _PLACES]
        cells += [
            " / ".join(f"{_slowdown(row, place, each) / _slowdown(rows[0], place, each):.3f}" for place in _PLACES)
            for each in WorkloadClass
        ]
        lines.append((f"`{row['arm']}`", *cells))
    return TextTable(("arm", *titles), lines).markdown()


def _slowdown(row: Row, place: str, workload_class: WorkloadClass) -> float:
    return float(row[f"{place}_{workload_class.value}_slowdown"])
