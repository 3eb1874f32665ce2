"""What an experiment is made of: its `config.toml`, nodes and jobs."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from joulie_core.hardware.inventory import Inventory
from joulie_core.node import Node
from joulie_devcluster.control_plane.nodes import read_node_classes, scale
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs

ROOT: Final = Path(__file__).parent
_SECONDS_PER_HOUR: Final = 3600.0


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
        """Return the nodes of `nodes.yaml`, scaled to `node_count`."""
        return nodes_of_classes(scale(read_node_classes(self.directory / "nodes.yaml"), self.node_count))

    def machines(self, inventory: Inventory | None = None) -> Machines:
        """Return the machines, by the figures of an inventory; None for the one that ships."""
        return machines_of(self.nodes(), inventory or Inventory.load())

    def workload(self, machines: Machines, *, load: float, seed: int) -> Jobs:
        """Return the jobs of one seed."""
        mix = ArrivalMix(
            jobs=self.jobs,
            window_s=self.window_s,
            load=load,
            performance_share=self.performance_share,
            gpu_share=self.gpu_share if machines.gpus.any() else 0.0,
        )
        return synthetic_jobs(mix, machines, seed)
