"""Running jobs that consolidation may move: standard ones that have a controller, which starts them again elsewhere."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from joulie_sim.engine.arrays import Bools
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.node_resources import PlacementRequest

#: Which jobs have a controller is the same in every arm.
_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingSettings:
    """Jobs that can be moved, and what that costs."""

    #: Share of the standard jobs that have a controller.
    share: float = 1.0
    #: Work that a job loses by a restart, at most what it has received: that since its last checkpoint, and the time to
    #: load. Seconds of the reference model; assumed.
    lost_s: float = 300.0


class MovableJobs:
    """The movable jobs of each node.

    Args:
        jobs: the workload.
        settings: which of them can be moved.
    """

    def __init__(self, jobs: Jobs, settings: MovingSettings) -> None:
        with_controller = np.random.Generator(np.random.PCG64(_SEED)).random(len(jobs)) < settings.share
        self.lost_s = settings.lost_s
        self._movable: Bools = with_controller & ~jobs.performance
        self._on: dict[int, dict[int, PlacementRequest]] = {}
        self._nodes: dict[int, int] = {}

    def started(self, job: int, node: int, request: PlacementRequest) -> None:
        """Take a job that was bound to a node."""
        if self._movable.item(job):
            self._on.setdefault(node, {})[job] = request
            self._nodes[job] = node

    def ended(self, job: int) -> None:
        """Take a job that has ended or was stopped."""
        node = self._nodes.pop(job, None)
        if node is not None:
            del self._on[node][job]

    def on(self, node: int) -> dict[int, PlacementRequest]:
        """Return the movable jobs of a node, and what they request."""
        return dict(self._on.get(node, {}))
