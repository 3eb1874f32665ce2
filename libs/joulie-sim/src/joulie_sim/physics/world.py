"""All simulated nodes on one time line.

Guarantees that time passes once: every call carries `now_s`, completions come out in order of time, and a node that is
not touched costs nothing until it is read. Does not know Kubernetes: the caller converts nodes and pods.
"""

import heapq
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from joulie_sim.physics.job import Completion, JobRequest
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.physics.parts import Controls, Hardware


class SimulatedCluster:
    """The nodes by name. Unknown names are ignored by the job calls: a pod may be seen before its node."""

    def __init__(self) -> None:
        self._nodes: dict[str, SimulatedNode] = {}
        #: Planned completions (time, node name, node version); stale ones are dropped when met.
        self._agenda: list[tuple[float, str, int]] = []
        #: Version of each node that is on the agenda, so that no version is put there twice.
        self._planned_versions: dict[str, int] = {}

    @property
    def nodes(self) -> Mapping[str, SimulatedNode]:
        """The nodes by name, each accounted for up to the last call that touched it."""
        return MappingProxyType(self._nodes)

    def next_completion_s(self) -> float | None:
        """When the next job of any node completes if nothing changes; None when none will."""
        while self._agenda:
            at_s, name, version = self._agenda[0]
            node = self._nodes.get(name)
            if node is not None and node.version == version:
                return at_s
            heapq.heappop(self._agenda)
        return None

    def put_node(self, name: str, hardware: Hardware, now_s: float) -> list[Completion]:
        """Add a node, or give a known one other parts; returns what completed on it meanwhile."""
        node = self._nodes.get(name)
        if node is None:
            self._nodes[name] = SimulatedNode(name, hardware, now_s=now_s)
            return []
        return self._planned(node, node.replace_hardware(hardware, now_s))

    def drop_node(self, name: str) -> SimulatedNode | None:
        """Forget a node with its jobs and energy; returns it."""
        self._planned_versions.pop(name, None)
        return self._nodes.pop(name, None)

    def start_job(self, name: str, request: JobRequest, now_s: float) -> list[Completion]:
        """Begin a job on a node; returns what completed on it meanwhile."""
        node = self._nodes.get(name)
        return self._planned(node, node.start(request, now_s)) if node is not None else []

    def stop_job(self, name: str, key: str, now_s: float) -> list[Completion]:
        """Drop a job; returns what completed on its node meanwhile."""
        node = self._nodes.get(name)
        return self._planned(node, node.stop(key, now_s)) if node is not None else []

    def control(self, name: str, controls: Controls, now_s: float) -> list[Completion]:
        """Set caps and throttle of a node; returns what completed on it meanwhile."""
        node = self._nodes.get(name)
        return self._planned(node, node.control(controls, now_s)) if node is not None else []

    def advance_node(self, name: str, now_s: float) -> list[Completion]:
        """Account for one node up to `now_s`; returns what completed on it."""
        node = self._nodes.get(name)
        return self._planned(node, node.advance(now_s)) if node is not None else []

    def complete_due(self, now_s: float) -> list[Completion]:
        """Return the jobs of all nodes that complete up to `now_s`, in order of time."""
        completions: list[Completion] = []
        while (at_s := self.next_completion_s()) is not None and at_s <= now_s:
            # Taken off before the node moves: rounding may leave a trifle to do, which is then planned anew for later.
            _, name, _ = heapq.heappop(self._agenda)
            self._planned_versions.pop(name, None)
            node = self._nodes[name]
            completions += self._planned(node, node.advance(now_s))
        return sorted(completions, key=lambda completion: completion.completed_s)

    def advance(self, now_s: float) -> list[Completion]:
        """Account for all nodes up to `now_s`; returns what completed. To be called before nodes are read."""
        completions = [done for node in list(self._nodes.values()) for done in self._planned(node, node.advance(now_s))]
        return sorted(completions, key=lambda completion: completion.completed_s)

    def __iter__(self) -> Iterator[SimulatedNode]:
        return iter(self._nodes.values())

    def _planned(self, node: SimulatedNode, completions: list[Completion]) -> list[Completion]:
        if self._planned_versions.get(node.name) == node.version:
            return completions
        self._planned_versions[node.name] = node.version
        at_s = node.next_completion_s()
        if at_s is not None:
            heapq.heappush(self._agenda, (at_s, node.name, node.version))
        return completions
