"""The estimate of savings beside pairs on a real control plane: `python -m experiments.live_savings` (50 minutes).

Each pair has the same pods on the same nodes twice, each time on a cluster of its own: kube-scheduler with its default
scores alone, and Joulie with its preset `sleep`, whose operator estimates what it saves. Times are scaled: three hours
in three minutes. Servers have simulated BMCs, and draw other watts than the models say, by a factor for each kind of
hardware (`experiments.savings_estimate`), which the estimate does not know. Energies are at the wall, by samples, over
the same hours in both; every pod ends within them. Rows that are in `runs.csv` are not measured again.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from experiments import frequent_looks
from experiments.config import ROOT
from experiments.live_savings_table import table
from experiments.report import write_between
from experiments.rows import Row, append_row, read_table, text_row
from experiments.savings_counts import SavingsCounts, counted_in, difference
from experiments.savings_estimate import Judged, PairResult, misjudged
from joulie_api.presets import PRESETS, PresetName
from joulie_api.resources import NODE_SLEEP_POLICIES
from joulie_core.demand import WorkloadClass
from joulie_core.durations import format_duration
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.savings import EstimateRange, Lever
from joulie_core.units import JOULES_PER_KWH
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import NodeClass, default_node_classes, scale
from joulie_devcluster.host.progress import Reporter, terminal_reporter
from joulie_sim.demo.cycle import Cycle, cyclic_items, falling_and_rising
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.following import FollowingTasks
from joulie_sim.demo.record import energy_kwh
from joulie_sim.demo.settings import AGENT_SHARDS, INTERVAL_S, MIN_AWAKE, agent_env
from joulie_sim.demo.sleeping.observer import SleepingObserver
from joulie_sim.demo.sleeping.servers import SleepingServers
from joulie_sim.demo.sleeping.settings import NODE_MONITOR_S, operator_sleep_env, out_of_band_env, sleep_policy
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.stopwatch import Stopwatch
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.power_model import NodePowerModel
from joulie_sim.pod_figures import WaitFigures
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_sim.workload.item import WorkItem

DIRECTORY: Final = ROOT / "14-live-savings"
_NODES: Final = 40
#: More than the lengths of the pods permit, so that most of them have the longest.
_LOAD: Final = 0.5
_SCALE: Final = TimeScale(60.0)
#: Simulated: of the pods, and of what is compared; a pod that waits for a boot ends in between.
_SPAN_S: Final = 3.0 * 3_600.0
_COMPARED_S: Final = 1.15 * _SPAN_S
#: Shares of the span.
_ARRIVALS: Final = 0.75
_LONGEST: Final = 0.2
#: Of the clock.
_SAMPLE_S: Final = 0.5
#: Shorter than a node is idle before it goes to sleep, so that its last reading is one without work.
_READINGS: Final = ("BMC_POLL_INTERVAL", "STATUS_HEARTBEAT")
_READING_S: Final = 3.0
_START_S: Final = 120.0
_NAME: Final = "live-savings"
_SIMULATOR: Final = {"SIM_SPEED": f"{_SCALE.speed:g}"}
_BOUNDS: Final = ("lower", "middle", "upper")


def _steady(shares: Floats) -> Floats:
    return _ARRIVALS * _SPAN_S * shares


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of several runs, which differ in their seed."""

    pods: int
    steady: bool
    seeds: int

    def items(self, classes: Sequence[NodeClass], seed: int) -> tuple[WorkItem, ...]:
        """Return the pods of one run, with times in simulated seconds."""
        arrivals = _steady if self.steady else falling_and_rising(_ARRIVALS * _SPAN_S)
        cycle = Cycle(span_s=_SPAN_S, longest_s=_LONGEST * _SPAN_S, load=_LOAD, arrivals=arrivals)
        return cyclic_items(classes, cycle, pods=self.pods, seed=seed)


WORKLOADS: Final[Mapping[str, Workload]] = {
    "400 pods, falling and rising": Workload(400, steady=False, seeds=4),
    "400 pods, steady": Workload(400, steady=True, seeds=3),
    "500 pods, steady": Workload(500, steady=True, seeds=3),
}


@dataclass(frozen=True, slots=True)
class LiveArm:
    """What was measured of one arm over the compared time; energies in simulated joules."""

    joules: float
    estimates: Mapping[Lever, EstimateRange]
    #: Of the compared time, of the lever that least is known of.
    unknown_share: float
    #: Seconds, simulated.
    waits: WaitFigures
    #: Means.
    slowdowns: Mapping[WorkloadClass, float | None]
    power_offs: int
    #: What sleep has saved, by the servers.
    asleep_joules: float


@dataclass(frozen=True, slots=True)
class SleepPair:
    """Nodes, pods and watts of a pair."""

    classes: tuple[NodeClass, ...]
    items: tuple[WorkItem, ...]
    seed: int

    def _models(self, machines: Machines) -> list[NodePowerModel]:
        return misjudged(machines, self.seed)

    async def measure(self, reporter: Reporter, *, joulie: bool) -> LiveArm:
        """Run one arm.

        Raises:
            DemoError: servers or plan are not ready in time; also in groups.
            TimeoutError: the simulator does not answer; also in groups.
            joulie_devcluster.errors.DevClusterError: the cluster or a service failed; also in groups.
        """
        servers = SleepingServers(
            WallPower(self.classes, self._models), scale=_SCALE, clock=asyncio.get_running_loop().time
        )
        config = ClusterConfig(name=_NAME, nodes=self.classes, extender=joulie, node_monitor_period_s=NODE_MONITOR_S)
        async with (
            DevCluster(config, reporter=reporter) as cluster,
            JoulieStack(cluster, _stack(joulie=joulie)) as stack,
            AsyncExitStack() as opened,
        ):
            if joulie:
                client = await opened.enter_async_context(await cluster.client(user_agent=_NAME))
                certificates = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="joulie-bmc-")))
                await opened.enter_async_context(servers.running(stack, client, certificates))
            return await self._observe(cluster, stack, servers, Supervisor(stack.services.values(), reporter))

    async def _observe(
        self, cluster: DevCluster, stack: JoulieStack, servers: SleepingServers, supervisor: Supervisor
    ) -> LiveArm:
        stopwatch = Stopwatch()
        joulie = Service.OPERATOR in stack.config.services

        def clock() -> float:
            return _SCALE.simulated_s(stopwatch.seconds())

        async with (
            await cluster.client(user_agent=_NAME) as client,
            aiohttp.ClientSession() as session,
            FollowingTasks() as tasks,
        ):
            observer = SleepingObserver(client, sim_url=stack.sim_url, workload=_NAME, clock=clock, servers=servers)
            for each in observer.runs():
                tasks.follow(each)
            if joulie:
                await observer.wait_planned(supervisor.check, nodes=_NODES)
                await client.create(NODE_SLEEP_POLICIES, sleep_policy(_SCALE, MIN_AWAKE))
            stopwatch.reset()
            before = await _counted(stack)
            tasks.follow(
                feed(
                    client,
                    self.items,
                    workload=_NAME,
                    clock=stopwatch.seconds,
                    on_create=observer.created,
                    scale=_SCALE,
                )
            )
            asleep_joules, sampled_s = 0.0, clock()
            while clock() < _COMPARED_S:
                await supervisor.check()
                await observer.sample(session)
                asleep_joules += _saved_by_sleep_watts(servers) * (clock() - sampled_s)
                sampled_s = clock()
                await asyncio.sleep(_SAMPLE_S)
            after = await _counted(stack)
        counted = difference(before, after)
        return _arm_of(observer, servers, counted, pods=len(self.items), asleep_joules=asleep_joules)


async def _counted(stack: JoulieStack) -> SavingsCounts:
    joulie = Service.OPERATOR in stack.config.services
    return counted_in(await stack.operator.metrics() if joulie else "")


def _saved_by_sleep_watts(servers: SleepingServers) -> float:
    """Return by how much less servers draw now that are off or boot than on and without work."""
    return sum(
        servers.wall_power.idle_watts(name) - each.watts
        for name, each in servers.servers.items()
        if each.power_state != PowerState.ON
    )


def _arm_of(
    observer: SleepingObserver, servers: SleepingServers, counted: SavingsCounts, *, pods: int, asleep_joules: float
) -> LiveArm:
    tracks = observer.record.pods
    if len(tracks) < pods or observer.record.unfinished:
        raise RuntimeError(f"{len(tracks)} of {pods} pods were created, and {observer.record.unfinished} did not end")
    found = {lever for lever, _ in counted.joules}
    return LiveArm(
        joules=sum(energy_kwh(observer.record.samples, _COMPARED_S).values()) * JOULES_PER_KWH,
        estimates={
            lever: EstimateRange(*(_SCALE.speed * counted.joules[lever, bound] for bound in _BOUNDS))
            for lever in Lever
            if lever in found
        },
        unknown_share=_SCALE.simulated_s(max(counted.unknown_s.values(), default=0.0)) / _COMPARED_S,
        waits=WaitFigures.of(track.wait_s for track in tracks.values()),
        slowdowns=observer.slowdowns,
        power_offs=servers.power_offs,
        asleep_joules=asleep_joules,
    )


def _stack(*, joulie: bool) -> StackConfig:
    if not joulie:
        return StackConfig(services=(Service.SIM,), env={Service.SIM: _SIMULATOR}, start_timeout_s=_START_S)
    preset = PRESETS[PresetName.SLEEP]
    operator = {
        **preset.operator,
        **operator_sleep_env(),
        "RECONCILE_INTERVAL": format_duration(INTERVAL_S),
        "SAVINGS_ENABLED": "true",
        "PYTHONPATH": str(ROOT.parent),
    }
    return StackConfig(
        agent_shards=AGENT_SHARDS,
        env={
            Service.OPERATOR: operator,
            Service.AGENT: agent_env(),
            Service.EXTENDER: preset.extender,
            Service.SIM: _SIMULATOR,
            Service.OUTOFBAND: out_of_band_env() | dict.fromkeys(_READINGS, format_duration(_READING_S)),
        },
        start_timeout_s=_START_S,
        commands={Service.OPERATOR: (sys.executable, "-m", frequent_looks.__name__)},
    )


async def measure_pair(workload: str, seed: int, reporter: Reporter) -> Row:
    """Measure both arms of a pair, and return its row; errors as of `SleepPair.measure`."""
    classes = scale(default_node_classes(), _NODES)
    run = SleepPair(classes, WORKLOADS[workload].items(classes, seed), seed)
    without, with_joulie = await asyncio.gather(*(run.measure(reporter, joulie=joulie) for joulie in (False, True)))
    saved = without.joules - with_joulie.joules
    figures: dict[str, Any] = {"workload": workload, "seed": seed}
    figures |= PairResult(without.joules, saved, dict(with_joulie.estimates)).figures(Judged.HOURS)
    figures |= {"sleep_saved_kwh": with_joulie.asleep_joules / JOULES_PER_KWH}
    figures |= {"unknown_share": with_joulie.unknown_share, "power_offs": with_joulie.power_offs}
    for name, arm in {"without": without, "with": with_joulie}.items():
        figures |= {f"{name}_wait_p99_s": arm.waits.p99_s, f"{name}_wait_longest_s": arm.waits.longest_s}
        figures |= {f"{name}_{each.value}_slowdown": arm.slowdowns[each] for each in WorkloadClass}
    return text_row(figures)


def run() -> None:
    """Measure the pairs that `runs.csv` does not have yet; each row is written when it is done."""
    path = DIRECTORY / "runs.csv"
    known = {(row["workload"], int(row["seed"])) for row in read_table(path)}
    with terminal_reporter() as reporter:
        for name, workload in WORKLOADS.items():
            for seed in range(workload.seeds):
                if (name, seed) not in known:
                    append_row(path, asyncio.run(measure_pair(name, seed, reporter)))
                    reporter.note(f"{DIRECTORY.name}: {name}, seed {seed} of {workload.seeds}")


if __name__ == "__main__":
    run()
    write_between(DIRECTORY.name, table(read_table(DIRECTORY / "runs.csv")), ROOT / "README.md")
