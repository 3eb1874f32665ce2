"""A public trace that an experiment replays, in the directory `JOULIE_DATA_DIR`."""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.demo.scenario import work_of
from joulie_sim.engine.jobs import Jobs
from joulie_sim.workload.openb import capacity_of, replay, scaled_groups
from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE, TraceNode, TracePod, read_nodes, read_pods
from joulie_sim.workload.openb_nodes import node_classes

_DAY_S: Final = 86_400


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

    def jobs_of_days(self, first: int, days: int, *, node_scale: float, load: float, longest_s: float) -> Jobs:
        """Return the pods of whole days as jobs, at the times of the trace.

        Args:
            first: day of the trace, from 0 on.
            days: how many.
            node_scale: of the nodes to which the load is offered, as for `node_classes`.
            load: share of the scarcer resource that the work, multiplied by one factor, occupies in the mean.
            longest_s: limit of the work of one job.

        Raises:
            ValueError: no pod was created on these days.
        """
        begin_s, end_s = first * _DAY_S, (first + days) * _DAY_S
        pods = [pod for pod in self.all_pods if pod.scheduled_s is not None and begin_s <= pod.created_s < end_s]
        if not pods:
            raise ValueError(f"the trace has no pods from day {first} to day {first + days}")
        groups = scaled_groups(self.all_nodes, node_scale)
        items = replay(
            pods,
            capacity=capacity_of(groups),
            window_s=end_s - begin_s,
            load=load,
            longest_s=longest_s,
            span=(begin_s, end_s),
        )
        return Jobs.of(work_of(node_classes(groups), items))
