"""A policy on a machine, driven event by event."""

from collections.abc import Callable

import pytest

from joulie_core.containers.balloons import BalloonsContainerPolicy, BalloonsState
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import PolicyResult
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.balloons_policy import BalloonsPolicySpec
from joulie_testing.core.machines import MachineShape

#: Two packages of two NUMA nodes of four cores of two threads; node n has the CPUs 8n to 8n+7, cores are pairs.
MACHINE = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False)


class Node:
    """A node with the policy, checked after every event."""

    def __init__(
        self,
        *types: dict,
        machine: HardwareTopology | None = None,
        reserved: str = "cpuset:0",
        devices: dict[str, Cpus] | None = None,
        **options: object,
    ) -> None:
        self.machine = machine or MACHINE.topology()
        self.result: PolicyResult[BalloonsState]
        self._devices = devices
        self.configure(*types, reserved=reserved, **options)
        self._take(self.policy.synchronize([], {}))

    def configure(self, *types: dict, reserved: str = "cpuset:0", **options: object) -> None:
        """Build the policy anew; the state stays until `synchronize`."""
        document = {"reservedResources": {"cpu": reserved}, "balloonTypes": types, **options}
        spec = BalloonsPolicySpec.model_validate(document)
        self.policy = BalloonsContainerPolicy(spec, self.machine, self._devices)

    def add(self, *containers: ContainerInfo) -> "Node":
        """Allocate containers, all of which must be placed."""
        for each in containers:
            result = self.policy.allocate(self.state, each)
            assert result.rejected == {}
            self._take(result)
        return self

    def refuse(self, container: ContainerInfo) -> str:
        """Return why a container cannot be placed."""
        result = self.policy.allocate(self.state, container)
        assert result.state is self.state
        return result.rejected[container.id]

    def remove(self, *names: str) -> "Node":
        for name in names:
            self._take(self.policy.release(self.state, ContainerId(name)))
        return self

    def update(self, container: ContainerInfo) -> "Node":
        result = self.policy.update(self.state, container)
        assert result.rejected == {}
        self._take(result)
        return self

    def synchronize(self, *containers: ContainerInfo, grants: dict | None = None) -> "Node":
        """Synchronize with the grants of the present state unless others are passed."""
        found = self.policy.grants(self.state) if grants is None else grants
        self._take(self.policy.synchronize(containers, found))
        return self

    def zone(self, name: str) -> str:
        return self.state.placements[ContainerId(name)].zone

    def cpus(self, name: str) -> Cpus:
        """Return the CPUs of a container."""
        cpus = self.state.placements[ContainerId(name)].cpus
        assert cpus is not None
        return cpus

    def memory(self, name: str) -> str:
        return str(self.state.placements[ContainerId(name)].memory)

    def balloons(self) -> dict[str, int]:
        """Return the number of CPUs of each balloon by its name."""
        return {str(key): len(self.state.balloons[key].cpus) for key in sorted(self.state.balloons)}

    def balloon(self, name: str) -> Cpus:
        return next(each.cpus for key, each in self.state.balloons.items() if str(key) == name)

    @property
    def state(self) -> BalloonsState:
        return self.result.state

    def _take(self, result: PolicyResult[BalloonsState]) -> None:
        self.result = result
        self.policy.check(result.state)


@pytest.fixture
def node() -> Callable[..., Node]:
    """A function that returns a node with balloon types and options."""
    return Node
