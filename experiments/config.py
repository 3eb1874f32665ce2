"""What an experiment is made of: its `config.toml`, nodes and jobs."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from experiments.trace import Trace
from joulie_core.hardware.inventory import Inventory
from joulie_core.node import Node
from joulie_devcluster.control_plane.nodes import read_node_classes, scale
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.records import MeasuredWindow
from joulie_sim.engine.steady import SteadyMix, steady_jobs
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs

ROOT: Final = Path(__file__).parent
_SECONDS_PER_HOUR: Final = 3600.0
_HOURS_PER_DAY: Final = 24.0

#: Protocols, see README.md. The last one is *steady* with kube-scheduler up to Kubernetes 1.35.
OVERLOAD: Final = "overload"
STEADY: Final = "steady"
STEADY_OLDER: Final = "steady-1.35"
STEADY_PROTOCOLS: Final = (STEADY, STEADY_OLDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The protocol *steady* of an experiment."""

    loads: tuple[float, ...]
    #: Time before the window, and the window, which is whole days.
    warm_up_hours: float
    hours: float
    #: Arms that are simulated with an older kube-scheduler, too.
    older_scheduler: tuple[str, ...] = ()

    def mix(self, load: float, performance_share: float) -> SteadyMix:
        """Return the parameters of the workload."""
        return SteadyMix(
            load=load,
            warm_up_s=self.warm_up_hours * _SECONDS_PER_HOUR,
            window_s=self.hours * _SECONDS_PER_HOUR,
            performance_share=performance_share,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One `config.toml`; fields without a comment are its keys as they are."""

    directory: Path
    node_count: int
    #: Jobs of one seed, and the time in which they arrive, of the protocol *overload*.
    jobs: int = 0
    hours: float = 0.0
    gpu_share: float = 0.0
    performance_share: float = 0.0
    report_interval_s: float
    steady: Steady | None = None
    #: Offered load of the protocol that drops jobs which find no room; None: only the other protocol.
    overload: float | None = None
    seeds: int
    arms: tuple[str, ...]
    #: Directory of a trace in openb's format; None for synthetic jobs. A seed is then as many of its days as a run has.
    trace: str | None = None
    #: Share of the trace's nodes, each kind with at least one.
    node_scale: float = 1.0
    #: Day of the trace with which the first seed begins.
    first_day: int = 0

    @staticmethod
    def read(name: str) -> "Experiment":
        """Return an experiment by the name of its directory."""
        directory = ROOT / name
        data: dict[str, Any] = tomllib.loads((directory / "config.toml").read_text(encoding="utf-8"))
        data["arms"] = tuple(data["arms"])
        if "steady" in data:
            steady: dict[str, Any] = data["steady"]
            lists = {key: tuple(steady[key]) for key in ("loads", "older_scheduler") if key in steady}
            data["steady"] = Steady(**(steady | lists))
        return Experiment(directory=directory, **data)

    @property
    def window_s(self) -> float:
        """Seconds in which the jobs arrive."""
        return self.hours * _SECONDS_PER_HOUR

    @property
    def protocols(self) -> tuple[tuple[str, float], ...]:
        """Protocols and loads, in the order in which they run: those of one workload together."""
        steady = () if self.steady is None else self.steady.loads
        found = tuple((protocol, load) for load in steady for protocol in STEADY_PROTOCOLS)
        return found if self.overload is None else (*found, (OVERLOAD, self.overload))

    def arms_of(self, protocol: str) -> tuple[str, ...]:
        """Return the arms that run by a protocol."""
        if protocol != STEADY_OLDER:
            return self.arms
        return () if self.steady is None else self.steady.older_scheduler

    def nodes(self) -> list[Node]:
        """Return the nodes of `nodes.yaml`, scaled to `node_count`, or those of the trace.

        Raises:
            MissingTraceError: the trace is not there.
        """
        if self.trace is not None:
            return nodes_of_classes(Trace.read(self.trace).node_classes(self.node_scale))
        return nodes_of_classes(scale(read_node_classes(self.directory / "nodes.yaml"), self.node_count))

    def machines(self, inventory: Inventory | None = None) -> Machines:
        """Return the machines, by the figures of an inventory; None for the one that ships.

        Raises:
            MissingTraceError: the trace is not there.
        """
        return machines_of(self.nodes(), inventory or Inventory.load())

    def steady_workload(self, machines: Machines, *, load: float, seed: int) -> tuple[Jobs, MeasuredWindow]:
        """Return the jobs of one seed by the protocol *steady*, and what is measured.

        Raises:
            MissingTraceError: the trace is not there.
        """
        assert self.steady is not None
        mix = self.steady.mix(load, self.performance_share)
        if self.trace is None:
            return steady_jobs(mix, machines, seed), mix.measured
        days = round((self.steady.warm_up_hours + self.steady.hours) / _HOURS_PER_DAY)
        first = self.first_day + seed * days
        return Trace.read(self.trace).jobs_of_days(
            first, days, node_scale=self.node_scale, load=load, longest_s=mix.warm_up_s
        ), mix.measured

    def overload_workload(self, machines: Machines, *, load: float, seed: int) -> Jobs:
        """Return the jobs of one seed by the protocol *overload*."""
        mix = ArrivalMix(
            jobs=self.jobs,
            window_s=self.window_s,
            load=load,
            performance_share=self.performance_share,
            gpu_share=self.gpu_share if machines.gpus.any() else 0.0,
        )
        return synthetic_jobs(mix, machines, seed)
