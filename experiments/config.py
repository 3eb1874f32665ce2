"""What an experiment is made of: its `config.toml`, nodes and jobs."""

import os
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from joulie_core.hardware.inventory import Inventory
from joulie_core.node import Node
from joulie_devcluster.control_plane.nodes import read_node_classes, scale
from joulie_sim.demo.openb_nodes import node_classes
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs
from joulie_sim.workload.openb import NodeGroup, capacity_of, replay, scaled_groups
from joulie_sim.workload.openb_csv import TracePod, read_nodes, read_pods

ROOT: Final = Path(__file__).parent
_SECONDS_PER_HOUR: Final = 3600.0
_NODES_CSV: Final = "openb_node_list_all_node.csv"
_PODS_CSV: Final = "openb_pod_list_default.csv"


class MissingDataError(Exception):
    """Public data that an experiment replays is not there; the message has where it was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One `config.toml`; fields without a comment are its keys as they are."""

    directory: Path
    node_count: int
    #: Jobs of one seed.
    jobs: int
    #: Time in which the jobs arrive.
    hours: float
    gpu_share: float = 0.0
    performance_share: float = 0.0
    report_interval_s: float
    loads: tuple[float, ...]
    #: Offered load of the protocol that drops jobs which find no room; None: only the other protocol.
    overload: float | None = None
    seeds: int
    arms: tuple[str, ...]
    #: Directory of a trace in openb's format, in the directory of the public data; None for synthetic jobs.
    trace: str | None = None
    #: Share of the trace's nodes.
    node_scale: float = 1.0
    #: Longest work of a job of the trace.
    longest_hours: float = 0.0

    @staticmethod
    def read(name: str) -> "Experiment":
        """Return an experiment by the name of its directory."""
        directory = ROOT / name
        data: dict[str, Any] = tomllib.loads((directory / "config.toml").read_text(encoding="utf-8"))
        data |= {key: tuple(data[key]) for key in ("loads", "arms")}
        return Experiment(directory=directory, **data)

    @property
    def window_s(self) -> float:
        """Seconds in which the jobs arrive."""
        return self.hours * _SECONDS_PER_HOUR

    @property
    def protocols(self) -> tuple[tuple[str, float], ...]:
        """Protocols and loads, in the order in which they run."""
        backlog = tuple(("backlog", load) for load in self.loads)
        return backlog if self.overload is None else (*backlog, ("overload", self.overload))

    def nodes(self) -> list[Node]:
        """Return the nodes of `nodes.yaml`, scaled to `node_count`, or those of the trace.

        Raises:
            MissingDataError: the trace is not there.
        """
        if self.trace is not None:
            return nodes_of_classes(node_classes(_trace_groups(trace_directory(self.trace), self.node_scale)))
        return nodes_of_classes(scale(read_node_classes(self.directory / "nodes.yaml"), self.node_count))

    def machines(self, inventory: Inventory | None = None) -> Machines:
        """Return the machines, by the figures of an inventory; None for the one that ships.

        Raises:
            MissingDataError: the trace is not there.
        """
        return machines_of(self.nodes(), inventory or Inventory.load())

    def workload(self, machines: Machines, *, load: float, seed: int) -> Jobs:
        """Return the jobs of one seed; of a trace, the seed's part of it.

        Raises:
            MissingDataError: the trace is not there.
        """
        if self.trace is not None:
            return self._replayed(trace_directory(self.trace), load=load, part=seed)
        mix = ArrivalMix(
            jobs=self.jobs,
            window_s=self.window_s,
            load=load,
            performance_share=self.performance_share,
            gpu_share=self.gpu_share if machines.gpus.any() else 0.0,
        )
        return synthetic_jobs(mix, machines, seed)

    def _replayed(self, directory: Path, *, load: float, part: int) -> Jobs:
        """Return consecutive pods of a trace in order of arrival: the first `jobs`, or a later part of that size."""
        pods = _trace_pods(directory)[part * self.jobs : (part + 1) * self.jobs]
        items = replay(
            pods,
            capacity=capacity_of(_trace_groups(directory, self.node_scale)),
            window_s=self.window_s,
            load=load,
            longest_s=self.longest_hours * _SECONDS_PER_HOUR,
        )
        return Jobs.of(items)


def trace_directory(name: str) -> Path:
    """Return the directory of a trace, in `JOULIE_DATA_DIR` or in `shared/data` beside the repository.

    Raises:
        MissingDataError: it is in neither.
    """
    given = os.environ.get("JOULIE_DATA_DIR")
    directory = (Path(given) if given else ROOT.parents[1] / "shared" / "data") / name
    if not (directory / _PODS_CSV).exists():
        raise MissingDataError(f"there is no {directory / _PODS_CSV}; JOULIE_DATA_DIR names the directory of {name}")
    return directory


@lru_cache(maxsize=2)
def _trace_groups(directory: Path, node_scale: float) -> tuple[NodeGroup, ...]:
    return scaled_groups(read_nodes(directory / _NODES_CSV), node_scale)


@lru_cache(maxsize=1)
def _trace_pods(directory: Path) -> tuple[TracePod, ...]:
    """Return the pods that were ever scheduled, in order of arrival."""
    pods = (pod for pod in read_pods(directory / _PODS_CSV) if pod.scheduled_s is not None)
    return tuple(sorted(pods, key=lambda pod: (pod.created_s, pod.name)))
