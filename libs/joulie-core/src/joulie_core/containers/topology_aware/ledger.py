"""Ledger of what is granted: the values that placing a container changes."""

from collections.abc import Mapping
from dataclasses import dataclass

from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.memory import MemoryState
from joulie_core.containers.topology_aware.need import ContainerNeed, CpuNeed
from joulie_core.containers.topology_aware.supply import Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrant:
    """Grant of a container, as far as its CPUs go. Its memory is in the state of the memory allocator."""

    container: ContainerInfo
    need: ContainerNeed
    pool: int
    #: Differs from the need where that could not be met.
    cpu: CpuNeed
    #: Exclusive CPUs, as a mask.
    exclusive: int = 0
    #: Whether the container still starts on slow memory only.
    cold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLedger:
    """All grants of a node, and what is left."""

    supply: Supply
    memory: MemoryState
    grants: Mapping[ContainerId, PoolGrant]

    def with_grant(self, supply: Supply, grant: PoolGrant) -> "PoolLedger":
        """Return the ledger with a grant and the supply that is left with it."""
        return PoolLedger(supply=supply, memory=self.memory, grants={**self.grants, grant.container.id: grant})
