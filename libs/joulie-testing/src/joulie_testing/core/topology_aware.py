"""A node with the topology-aware policy, for tests."""

from collections.abc import Iterable, Mapping

from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.policy import Placement, PolicyEvent, PolicyResult
from joulie_core.containers.topology import HardwareTopology
from joulie_core.containers.topology_aware.policy import TopologyAwareContainerPolicy
from joulie_core.containers.topology_aware.state import TopologyAwareState
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicySpec


class TopologyAwareNode:
    """The policy with its state. Every step checks all invariants; a rejected container is a failure."""

    def __init__(self, topology: HardwareTopology, options: Mapping[str, object]) -> None:
        """Start without containers; options as in a manifest."""
        self.topology = topology
        self.options = options
        self.policy = self._policy()
        self.containers: dict[ContainerId, ContainerInfo] = {}
        self.state = self.policy.synchronize([], {}).state

    def run(self, *containers: ContainerInfo) -> PolicyResult[TopologyAwareState]:
        """Place containers one after the other, and return the last result."""
        result = PolicyResult(state=self.state)
        for container in containers:
            result = self.policy.allocate(self.state, container)
            self._adopt(result, [container])
        return result

    def refuse(self, container: ContainerInfo) -> str:
        """Return why a new container is rejected."""
        result = self.policy.allocate(self.state, container)
        assert result.state is self.state
        return result.rejected[container.id]

    def resize(self, container: ContainerInfo) -> PolicyResult[TopologyAwareState]:
        """Update a container that is known by its id."""
        result = self.policy.update(self.state, container)
        self._adopt(result, [container])
        return result

    def end(self, *names: str) -> None:
        """Release containers."""
        for name in names:
            self._adopt(self.policy.release(self.state, ContainerId(name)), [])
            del self.containers[ContainerId(name)]

    def handle(self, event: PolicyEvent) -> PolicyResult[TopologyAwareState]:
        """Handle an event."""
        result = self.policy.handle(self.state, event)
        self._adopt(result, [])
        return result

    def restart(
        self, options: Mapping[str, object] | None = None, topology: HardwareTopology | None = None
    ) -> PolicyResult[TopologyAwareState]:
        """Synchronize with all containers and grants, with other options or another topology where given."""
        grants = self.policy.grants(self.state)
        self.topology = topology or self.topology
        self.options = self.options if options is None else options
        self.policy = self._policy()
        result = self.policy.synchronize(list(self.containers.values()), grants)
        self._adopt(result, [])
        return result

    def placement(self, name: str) -> Placement:
        """Return where a container is."""
        return self.state.placements[ContainerId(name)]

    def cpus(self, *names: str) -> dict[str, str]:
        """Return the CPUs of containers as text; of all where none is named."""
        return {name: str(self.placement(name).cpus) for name in names or self.state.placements}

    def memory(self, *names: str) -> dict[str, str]:
        """Return the memory nodes of containers as text; of all where none is named."""
        return {name: str(self.placement(name).memory) for name in names or self.state.placements}

    def zones(self, *names: str) -> dict[str, str]:
        """Return the names of the pools of containers; of all where none is named."""
        return {name: self.placement(name).zone for name in names or self.state.placements}

    def _policy(self) -> TopologyAwareContainerPolicy:
        return TopologyAwareContainerPolicy(TopologyAwarePolicySpec.model_validate(self.options), self.topology)

    def _adopt(self, result: PolicyResult[TopologyAwareState], containers: Iterable[ContainerInfo]) -> None:
        assert not result.rejected, result.rejected
        self.state = result.state
        self.policy.check(self.state)
        self.containers.update({container.id: container for container in containers})
