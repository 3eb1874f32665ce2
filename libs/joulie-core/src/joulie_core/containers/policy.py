"""The interface of container policies.

A policy is built from its configuration and the topology of a node, and maps a state and an event to a new state. It
has no clock, performs no I/O and keeps nothing between calls: the resource manager holds the state, compares placements
before and after, and discards a new state whose consequences could not be carried out.

Start, restart, a changed configuration and a changed topology are one operation, `synchronize`: it is given all
containers and the grants that are in force, keeps every grant that is still valid, and allocates the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import EMPTY, Cpus, MemoryNodes
from joulie_core.containers.interrupts import NO_INTERRUPTS, InterruptPlacement

#: A grant as it is stored: strings, numbers, booleans, lists and mappings.
GrantRecord: TypeAlias = Mapping[str, object]


class PolicyConfigError(ValueError):
    """A configuration cannot be used on this node; names the field, its value and what would be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a container runs. None leaves what the runtime has set."""

    #: Name of the pool or balloon.
    zone: str
    cpus: Cpus | None = None
    memory: MemoryNodes | None = None
    #: CPUs of `cpus` that no other container uses.
    exclusive: Cpus = EMPTY
    #: cgroup CPU weight in the scale of `cpu.shares`, 2 to 262144.
    cpu_shares: int | None = None
    #: Scheduling class of the configuration; the runtime applies it when the container is created.
    scheduling_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWarning:
    """Something in a container's metadata or situation that did not stop its placement, for an Event and the log."""

    container: ContainerId
    #: Stable, in CamelCase, such as `InvalidAnnotation`.
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ColdStartEnded:
    """The cold start of a container is over."""

    container: ContainerId


@dataclass(frozen=True, slots=True)
class PowerProfileChanged:
    """The node has another power profile: `performance` or `eco`."""

    profile: str


@dataclass(frozen=True, slots=True)
class RebalanceRequested:
    """Measurements suggest another distribution."""

    #: CPU usage of containers, in thousandths of a CPU; a container that was not measured is absent.
    usage_milli: Mapping[ContainerId, int] = field(default_factory=dict)


PolicyEvent: TypeAlias = ColdStartEnded | PowerProfileChanged | RebalanceRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTimer:
    """A request to be given an event after a time."""

    after_s: float
    event: PolicyEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementZone:
    """A pool or balloon, for metrics and NodeResourceTopology."""

    name: str
    #: Such as `socket`, `numa node`, `balloon`.
    kind: str
    parent: str = ""
    cpus: Cpus = EMPTY
    #: CPUs that its containers may use besides, shared with other zones.
    shared_idle: Cpus = EMPTY
    memory: MemoryNodes = EMPTY
    capacity_milli: int = 0
    #: What containers could be granted if the zone were empty.
    allocatable_milli: int = 0
    #: What another container could still be granted.
    available_milli: int = 0
    containers: tuple[ContainerId, ...] = ()
    #: Whether NodeResourceTopology lists the containers besides the zone.
    show_containers: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


class PolicyState(Protocol):
    """State of a policy, as far as every policy has it; a frozen value."""

    @property
    def placements(self) -> Mapping[ContainerId, Placement]:
        """The placement of every container that the policy has admitted."""

    @property
    def cpu_classes(self) -> Mapping[str, Cpus]:
        """CPUs by the name of their CPU class; a CPU without a class is in none."""


State = TypeVar("State", bound=PolicyState)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult(Generic[State]):
    """A new state, and what happened on the way."""

    state: State
    #: Why a container could not be placed; it has no placement in `state`.
    rejected: Mapping[ContainerId, str] = field(default_factory=dict)
    warnings: tuple[PolicyWarning, ...] = ()
    timers: tuple[PolicyTimer, ...] = ()


class ContainerPolicy(ABC, Generic[State]):
    """Decides placements. Equal arguments give equal results, in whatever order a runtime lists its containers."""

    #: As in the option `--policy`.
    name: ClassVar[str]

    @abstractmethod
    def synchronize(
        self, containers: Sequence[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]
    ) -> PolicyResult[State]:
        """Return the state for exactly these containers.

        Args:
            containers: All containers, in any order.
            grants: What `grants` of this policy returned earlier, under any configuration and topology. A record that
                is malformed, of an unknown container or no longer valid is ignored, and its container allocated anew.
        """

    @abstractmethod
    def allocate(self, state: State, container: ContainerInfo) -> PolicyResult[State]:
        """Place a new container; where that is not possible, return the state unchanged and the reason."""

    def restore(self, state: State, container: ContainerInfo, grant: GrantRecord) -> PolicyResult[State] | None:
        """Place a new container with a grant that an earlier one had, and move no other.

        For a container that is started again: a crash is no reason to move it or its neighbours.

        Args:
            state: The state, without the container.
            container: The container that is being created.
            grant: What `grants` of this policy returned for the earlier one, under any configuration and topology.

        Returns:
            None where the grant is no longer valid or free. A policy whose placements follow from the container alone
            needs no other answer.
        """
        del state, container, grant
        return None

    @abstractmethod
    def release(self, state: State, container: ContainerId) -> PolicyResult[State]:
        """Free what a container was granted; an unknown container changes nothing."""

    @abstractmethod
    def update(self, state: State, container: ContainerInfo) -> PolicyResult[State]:
        """Place a known container whose resources have changed; where that is not possible, as for `allocate`."""

    @abstractmethod
    def handle(self, state: State, event: PolicyEvent) -> PolicyResult[State]:
        """React to an event; one that means nothing to the policy changes nothing."""

    @abstractmethod
    def grants(self, state: State) -> Mapping[ContainerId, GrantRecord]:
        """Return what is stored for each container."""

    @abstractmethod
    def zones(self, state: State) -> tuple[PlacementZone, ...]:
        """Return the pools or balloons, parents first."""

    def interrupts(self, state: State) -> InterruptPlacement:
        """Return what the zones want of the node's interrupts; a policy without such options wants nothing."""
        del state
        return NO_INTERRUPTS

    def class_capacity(self) -> Mapping[str, int]:
        """Return how many CPUs of a class containers can have at most, in thousandths, by CPU class; 0 where absent.

        It depends on configuration and topology only: a scheduler compares it with the requests of all pods.
        """
        return {}

    @abstractmethod
    def check(self, state: State) -> None:
        """Raise AssertionError where an invariant of the policy does not hold; for tests."""
