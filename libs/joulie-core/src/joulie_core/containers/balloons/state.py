"""State of the balloons policy: balloons, the containers in them, and idle CPUs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import EMPTY, Cpus, MemoryNodes
from joulie_core.containers.memory import MemoryState
from joulie_core.containers.policy import GrantRecord, Placement
from joulie_core.containers.topology import MemoryKind


class BalloonKey(NamedTuple):
    """Identifies a balloon."""

    type: str
    #: Lowest number that no other balloon of the type had when it was created.
    number: int

    def __str__(self) -> str:
        """Return its name, such as `web[0]`."""
        return f"{self.type}[{self.number}]"


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """Memory nodes that a container has already."""

    #: None where its memory was not pinned.
    nodes: MemoryNodes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A container in a balloon, with what its metadata requests."""

    container: ContainerInfo
    #: Name of the balloon type that it belongs to. It is in a balloon of another one where its own have no room.
    type: str = ""
    #: The value of `groupBy` for it; None where the type has none.
    group: str | None = None
    hide_hyperthreads: bool = False
    #: False where the runtime's memory nodes are left alone.
    pin_memory: bool = True
    memory_kinds: frozenset[MemoryKind] = frozenset()
    #: CPUs close to its devices, by the name of the resource.
    devices: Mapping[str, Cpus] = field(default_factory=dict)
    scheduling_class: str | None = None

    @property
    def request_milli(self) -> int:
        """Its CPU request."""
        return self.container.resources.cpu_request_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class Balloon:
    """A set of CPUs and the containers that share it."""

    key: BalloonKey
    cpus: Cpus = EMPTY
    #: In the order of arrival.
    seats: Mapping[ContainerId, Seat] = field(default_factory=dict)
    #: Sum of the requests of the containers.
    requested_milli: int = 0
    #: The balloons that a composite balloon consists of; they have no containers of their own.
    components: tuple["Balloon", ...] = ()

    @property
    def free_milli(self) -> int:
        """Thousandths of a CPU beyond the requests; negative where it could not grow as far as it should."""
        return 1000 * len(self.cpus) - self.requested_milli

    def leaves(self) -> "Iterator[Balloon]":
        """Return the balloons without components that it consists of; itself where it has none."""
        if not self.components:
            yield self
        for component in self.components:
            yield from component.leaves()

    def all_balloons(self) -> "Iterator[Balloon]":
        """Return itself and all its components."""
        yield self
        for component in self.components:
            yield from component.all_balloons()

    def all_keys(self) -> Iterator[BalloonKey]:
        """Return its own key and those of all its components."""
        return (balloon.key for balloon in self.all_balloons())


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonsState:
    """The state of the balloons policy."""

    #: All balloons that are no component of another.
    balloons: Mapping[BalloonKey, Balloon] = field(default_factory=dict)
    #: Available CPUs that are in no balloon.
    free: Cpus = EMPTY
    #: The balloon of every container that is in one.
    homes: Mapping[ContainerId, BalloonKey] = field(default_factory=dict)
    #: Containers that are left alone.
    alone: frozenset[ContainerId] = frozenset()
    #: Idle CPUs that the containers of a balloon may use besides; without balloons that may use none.
    shared_idle: Mapping[BalloonKey, Cpus] = field(default_factory=dict)
    memory: MemoryState = field(default_factory=MemoryState)
    placements: Mapping[ContainerId, Placement] = field(default_factory=dict)
    #: What is stored of each container.
    records: Mapping[ContainerId, GrantRecord] = field(default_factory=dict)
    cpu_classes: Mapping[str, Cpus] = field(default_factory=dict)
