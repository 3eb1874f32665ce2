"""A public trace that an experiment replays, in the directory `JOULIE_DATA_DIR`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.demo.scenario import work_of
from joulie_sim.engine.jobs import Jobs
from joulie_sim.workload.openb import capacity_of, densest, replay, scaled_groups
from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE, TraceNode, TracePod, read_nodes, read_pods
from joulie_sim.workload.openb_nodes import node_classes


class MissingTraceError(Exception):
    """A trace is not there; the message has where it was looked for."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes and pods of a trace in openb's format."""

    all_nodes: tuple[TraceNode, ...]
    all_pods: tuple[TracePod, ...]

    @staticmethod
    @lru_cache(maxsize=1)
    def read(name: str) -> "Trace":
        """Return a trace by the name of its directory.

        Raises:
            MissingTraceError: it is not in the directory `JOULIE_DATA_DIR`, or that is not set.
            joulie_sim.workload.openb_csv.TraceError: a file is no list of openb's format.
        """
        data = os.environ.get("JOULIE_DATA_DIR")
        directory = Path(data or ".") / name
        if data is None or not (directory / POD_FILE).exists():
            raise MissingTraceError(f"no {name}/{POD_FILE} in the directory JOULIE_DATA_DIR: {data or 'not set'}")
        return Trace(read_nodes(directory / NODE_FILE), read_pods(directory / POD_FILE))

    def node_classes(self, scale: float) -> tuple[NodeClass, ...]:
        """Return the nodes, of each kind at least one."""
        return node_classes(scaled_groups(self.all_nodes, scale))

    def part(self, number: int, *, of: int, pods: int) -> tuple[TracePod, ...]:
        """Return every `of`-th pod, from that `number` on, of the `of * pods` that arrived in the shortest time.

        Raises:
            ValueError: there is no such part.
        """
        if not 0 <= number < of:
            raise ValueError(f"the trace has {of} parts, and no part {number}")
        return densest(self.all_pods, of * pods)[number::of]

    def jobs(self, pods: Sequence[TracePod], *, node_scale: float, window_s: float, load: float) -> Jobs:
        """Return pods as jobs that arrive within the window and offer the load to the scaled nodes."""
        groups = scaled_groups(self.all_nodes, node_scale)
        items = replay(pods, capacity=capacity_of(groups), window_s=window_s, load=load, longest_s=window_s)
        return Jobs.of(work_of(node_classes(groups), items))
