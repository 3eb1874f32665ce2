"""One attempt to place a container."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_core.containers.container import ContainerInfo
from joulie_core.containers.idset import MemoryNodes
from joulie_core.containers.policy import PolicyWarning
from joulie_core.containers.topology_aware.need import ContainerNeed


class PlacementError(Exception):
    """A container cannot be placed; the text is for its pod's events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """Previous grant of a container, of which as little as possible changes."""

    pool: int | None = None
    #: Exclusive CPUs, as a mask.
    exclusive: int = 0
    memory: MemoryNodes | None = None
    cold: bool = False


NOTHING: Final = Previous()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Attempt to place a container: its inputs, and what happened on the way."""

    container: ContainerInfo
    need: ContainerNeed
    previous: Previous = NOTHING
    #: Worth of each pool by the containers that this one wants to be near to or far from; None for no such wish.
    affinity: Sequence[float] | None = None
    #: The container runs and is not known: it is granted less than it needs rather than nothing.
    running: bool = False
    warnings: list[PolicyWarning] = field(default_factory=list)

    def warn(self, reason: str, message: str) -> None:
        """Report something that does not stop the placement."""
        self.warnings.append(PolicyWarning(container=self.container.id, reason=reason, message=message))
