"""All simulated nodes, on one time scale.

Every call has `now_s`. Guarantees: completions are returned in order of time, and a node costs nothing until it is read
or changed. Independent of Kubernetes: the caller converts nodes and pods.
"""

import heapq
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from joulie_sim.physics.job import Completion, JobRequest
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.physics.parts import Controls, Hardware


class SimulatedCluster:
    """The nodes by name. Calls about jobs ignore unknown nodes: a pod may be seen before its node."""

    def __init__(self) -> None:
        self._nodes: dict[str, SimulatedNode] = {}
        #: Planned completions (time, node name, node version); stale ones are dropped when reached.
        self._agenda: list[tuple[float, str, int]] = []
        #: Version of each node in the agenda, so that no version is added twice.
        self._planned_versions: dict[str, int] = {}

    @property
    def nodes(self) -> Mapping[str, SimulatedNode]:
        """The nodes by name, each integrated up to the last call that concerned it."""
        return MappingProxyType(self._nodes)

    def next_completion_s(self) -> float | None:
        """Return when the next job of any node completes if nothing changes; None if none will."""
        while self._agenda:
            at_s, name, version = self._agenda[0]
            node = self._nodes.get(name)
            if node is not None and node.version == version:
                return at_s
            heapq.heappop(self._agenda)
        return None

    def put_node(self, name: str, hardware: Hardware, now_s: float) -> list[Completion]:
        """Add a node, or replace the parts of a known one; return its completions up to `now_s`."""
        node = self._nodes.get(name)
        if node is None:
            self._nodes[name] = SimulatedNode(name, hardware, now_s=now_s)
            return []
        return self._planned(node, node.replace_hardware(hardware, now_s))

    def drop_node(self, name: str) -> SimulatedNode | None:
        """Remove a node with its jobs and energy, and return it."""
        self._planned_versions.pop(name, None)
        return self._nodes.pop(name, None)

    def start_job(self, name: str, request: JobRequest, now_s: float) -> list[Completion]:
        """Start a job on a node; return the node's completions up to `now_s`."""
        node = self._nodes.get(name)
        return self._planned(node, node.start(request, now_s)) if node is not None else []

    def stop_job(self, name: str, key: str, now_s: float) -> list[Completion]:
        """Stop a job; return its node's completions up to `now_s`."""
        node = self._nodes.get(name)
        return self._planned(node, node.stop(key, now_s)) if node is not None else []

    def control(self, name: str, controls: Controls, now_s: float) -> list[Completion]:
        """Set caps and throttle of a node; return its completions up to `now_s`."""
        node = self._nodes.get(name)
        return self._planned(node, node.control(controls, now_s)) if node is not None else []

    def advance_node(self, name: str, now_s: float) -> list[Completion]:
        """Integrate one node up to `now_s`; return its completions."""
        node = self._nodes.get(name)
        return self._planned(node, node.advance(now_s)) if node is not None else []

    def complete_due(self, now_s: float) -> list[Completion]:
        """Return the completions of all nodes up to `now_s`, in order of time."""
        completions: list[Completion] = []
        while (at_s := self.next_completion_s()) is not None and at_s <= now_s:
            # Removed before the node advances: rounding may leave a small rest of work, which is then planned again.
            _, name, _ = heapq.heappop(self._agenda)
            self._planned_versions.pop(name, None)
            node = self._nodes[name]
            completions += self._planned(node, node.advance(now_s))
        return sorted(completions, key=lambda completion: completion.completed_s)

    def advance(self, now_s: float) -> list[Completion]:
        """Integrate all nodes up to `now_s`; return the completions. To be called before nodes are read."""
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
