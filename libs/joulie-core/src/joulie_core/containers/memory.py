"""Allocation of memory nodes.

A grant is a set of nodes, its *zone*; its bytes may be anywhere within. The sizes of all grants fit their zones at all
times. Where a new grant would not fit, grants are widened to further nodes, the least important and smallest first;
where that does not help, the request is refused and nothing has changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import IdSet, MemoryNodes
from joulie_core.containers.memory_capacity import bits, crowded_nodes
from joulie_core.containers.topology import MemoryKind, MemoryNode

DRAM_ONLY: Final = frozenset({MemoryKind.DRAM})
#: Distance between nodes that the kernel does not show: unreachable in the firmware's table.
UNKNOWN_DISTANCE: Final = 255


class MemoryRequestError(Exception):
    """A request cannot be granted; names the rule, or how many bytes are missing."""


class MemoryPriority(IntEnum):
    """Priority of a grant when memory is short: the lowest is widened first."""

    BEST_EFFORT = 0
    BURSTABLE = 1_024
    GUARANTEED = 16_384
    #: Never.
    PRESERVED = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """Memory that a container needs."""

    container: ContainerId
    size_bytes: int
    #: Where its CPUs are; empty: anywhere.
    affinity: MemoryNodes
    #: Wanted kinds of memory; empty: any.
    kinds: frozenset[MemoryKind] = DRAM_ONLY
    #: Refuse other kinds than the wanted ones.
    strict: bool = False
    priority: MemoryPriority = MemoryPriority.BURSTABLE
    #: Creation of the container: of equal grants the youngest is widened first.
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class MemoryGrant:
    """A request and the nodes that were granted for it."""

    request: MemoryRequest
    nodes: MemoryNodes


@dataclass(frozen=True, slots=True)
class MemoryState:
    """All grants of a node."""

    grants: Mapping[ContainerId, MemoryGrant] = field(default_factory=dict)
    #: Bytes of grants by their zone, as a mask; without empty ones.
    wanted: Mapping[int, int] = field(default_factory=dict)


class MemoryAllocator:
    """Grants memory nodes of one machine; states are values."""

    def __init__(self, nodes: Mapping[int, MemoryNode]) -> None:
        """Read capacities and distances; nodes without memory are never granted."""
        self._capacity = {1 << node.id: node.capacity_bytes for node in nodes.values() if node.capacity_bytes > 0}
        self._existing = sum(1 << number for number in nodes)
        self._all = sum(self._capacity)
        self._normal = sum(1 << node.id for node in nodes.values() if node.normal) & self._all
        self._kinds = {
            kind: sum(1 << node.id for node in nodes.values() if node.kind is kind) & self._all for kind in MemoryKind
        }
        # Tables of firmware may be asymmetric: twice the mean of both directions.
        self._distance = {
            (1 << a.id, 1 << b.id): a.distances.get(b.id, UNKNOWN_DISTANCE) + b.distances.get(a.id, UNKNOWN_DISTANCE)
            for a in nodes.values()
            for b in nodes.values()
        }
        # What only depends on the machine, and is computed again and again.
        self._sizes: dict[int, int] = {}
        self._initial_zones: dict[tuple[int, frozenset[MemoryKind], bool], int] = {}

    def initial_nodes(self, request: MemoryRequest) -> MemoryNodes:
        """Return the nodes for a request on an empty machine.

        These are the nodes of its affinity that are of a wanted kind, and for each kind that is missing there the
        nearest nodes of that kind; with the nearest node of normal memory where there is none.

        Raises:
            MemoryRequestError: The request is strict and there is no memory of the wanted kinds.
        """
        return IdSet.from_mask(self._initial(request, request.affinity.mask))

    def allocate(self, state: MemoryState, request: MemoryRequest) -> MemoryState:
        """Grant a request, in place of an earlier grant of the same container; other grants may be widened.

        Raises:
            MemoryRequestError: The memory does not fit whatever is widened, or is of no wanted kind.
        """
        zone = self._initial(request, request.affinity.mask)
        state = self.release(state, request.container)
        granted = self._with(state, MemoryGrant(request, IdSet.from_mask(zone)))
        return granted if request.size_bytes <= self._free(state, zone) else self._fit(granted)

    def keep(self, state: MemoryState, request: MemoryRequest, nodes: MemoryNodes) -> MemoryState:
        """Grant exactly these nodes, which the container has already, without touching other grants.

        Raises:
            MemoryRequestError: There are no such nodes, they break a rule of the request, or the memory does not fit.
        """
        zone = nodes.mask
        if not zone or zone & ~self._all:
            raise MemoryRequestError(f"{str(nodes)!r} is not a set of nodes with memory")
        if not zone & self._normal and self._normal:
            raise MemoryRequestError(f"nodes {nodes} have no normal memory")
        if request.strict and request.kinds and zone & ~self._of(request.kinds):
            raise MemoryRequestError(f"nodes {nodes} are not all of the kinds {_names(request.kinds)}")
        state = self.release(state, request.container)
        kept = self._with(state, MemoryGrant(request, nodes))
        if request.size_bytes > self._free(state, zone) and (crowded := crowded_nodes(kept.wanted, self._capacity)):
            raise MemoryRequestError(self._shortage(kept, crowded))
        return kept

    def release(self, state: MemoryState, container: ContainerId) -> MemoryState:
        """Free the memory of a container; an unknown one changes nothing. Other grants stay as they are."""
        if container not in state.grants:
            return state
        grants = dict(state.grants)
        grant = grants.pop(container)
        return MemoryState(grants, _moved(state.wanted, grant.request.size_bytes, grant.nodes.mask, 0))

    def offer(
        self, state: MemoryState, request: MemoryRequest, affinity: MemoryNodes | None = None
    ) -> MemoryNodes | None:
        """Return the nodes that `allocate` would grant, with another affinity if given; None where it would refuse."""
        try:
            zone = self._initial(request, (request.affinity if affinity is None else affinity).mask)
            if request.container not in state.grants and request.size_bytes <= self._free(state, zone):
                return IdSet.from_mask(zone)
            if affinity is not None:
                request = replace(request, affinity=affinity)
            return self.allocate(state, request).grants[request.container].nodes
        except MemoryRequestError:
            return None

    def kinds_of(self, nodes: MemoryNodes) -> frozenset[MemoryKind]:
        """Return the kinds of memory of nodes."""
        return frozenset(kind for kind, mask in self._kinds.items() if mask & nodes.mask)

    def of_kinds(self, nodes: MemoryNodes, kinds: Iterable[MemoryKind]) -> MemoryNodes:
        """Return those of the nodes that have memory of these kinds."""
        return IdSet.from_mask(nodes.mask & self._of(kinds))

    def capacity_bytes(self, nodes: MemoryNodes) -> int:
        """Return how much memory nodes have."""
        return self._size(nodes.mask)

    def free_bytes(self, state: MemoryState, nodes: MemoryNodes) -> int:
        """Return how much of the memory of nodes is granted neither within them nor to sets that overlap them."""
        return self._free(state, nodes.mask)

    def _initial(self, request: MemoryRequest, affinity: int) -> int:
        key = (affinity, request.kinds, request.strict)
        zone = self._initial_zones.get(key)
        if zone is None:
            zone = self._initial_zones[key] = self._find_initial(request, affinity)
        return zone

    def _find_initial(self, request: MemoryRequest, affinity: int) -> int:
        wanted = self._of(request.kinds) if request.kinds else self._all
        origin = affinity & self._existing or wanted or self._all
        zone = origin & self._all
        for kind in sorted(request.kinds):
            if not zone & self._kinds[kind]:
                zone |= self._nearest(origin, self._kinds[kind])
        if not zone & wanted and request.strict and request.kinds:
            raise MemoryRequestError(f"the machine has no memory of the kinds {_names(request.kinds)}")
        zone = zone & wanted or zone or self._nearest(origin, self._all)
        if not zone & self._normal:
            zone |= self._nearest(zone, self._normal)
        return zone

    def _free(self, state: MemoryState, zone: int) -> int:
        """Return what of a zone is free wherever the grants that overlap it are; with so much, nothing is crowded."""
        granted = 0
        for other, size in state.wanted.items():
            if other & zone:
                granted += size
        return max(0, self._size(zone) - granted)

    def _fit(self, state: MemoryState) -> MemoryState:
        """Widen grants until everything fits."""
        while crowded := crowded_nodes(state.wanted, self._capacity):
            state = self._relieve(state, crowded)
        return state

    def _relieve(self, state: MemoryState, crowded: int) -> MemoryState:
        """Widen grants within crowded nodes to further nodes, until what remains fits."""
        grants, wanted = dict(state.grants), state.wanted
        excess = sum(size for zone, size in wanted.items() if not zone & ~crowded) - self._size(crowded)
        for limit in (MemoryPriority.BURSTABLE, MemoryPriority.GUARANTEED):
            for extra in (0, *(self._kinds[kind] for kind in _SPILL_ORDER)):
                for grant in _by_importance(grants.values(), crowded, limit):
                    zone = self._widened(grant, crowded, extra)
                    if zone is None:
                        continue
                    grants[grant.request.container] = replace(grant, nodes=IdSet.from_mask(zone))
                    wanted = _moved(wanted, grant.request.size_bytes, grant.nodes.mask, zone)
                    excess -= grant.request.size_bytes
                    if excess <= 0:
                        return MemoryState(grants, wanted)
        raise MemoryRequestError(self._shortage(state, crowded))

    def _widened(self, grant: MemoryGrant, crowded: int, extra: int) -> int | None:
        """Return the zone of a grant with the nearest nodes outside the crowded ones, None where there are none."""
        zone, request = grant.nodes.mask, grant.request
        allowed = extra
        for mask in self._kinds.values():
            if mask & zone:
                allowed |= mask
        if request.strict and request.kinds:
            allowed &= self._of(request.kinds)
        nearest = self._nearest(zone, allowed & ~crowded)
        return zone | nearest if nearest else None

    def _nearest(self, start: int, among: int) -> int:
        """Return all nodes of `among` at the least distance from any node of `start`."""
        nearest, least = 0, None
        for node in bits(among & ~start):
            distance = min(self._distance[member, node] for member in bits(start))
            if least is None or distance < least:
                nearest, least = node, distance
            elif distance == least:
                nearest |= node
        return nearest

    def _with(self, state: MemoryState, grant: MemoryGrant) -> MemoryState:
        request = grant.request
        grants = {**state.grants, request.container: grant}
        return MemoryState(grants, _moved(state.wanted, request.size_bytes, 0, grant.nodes.mask))

    def _of(self, kinds: Iterable[MemoryKind]) -> int:
        mask = 0
        for kind in kinds:
            mask |= self._kinds[kind]
        return mask

    def _size(self, mask: int) -> int:
        if mask not in self._sizes:
            self._sizes[mask] = sum(self._capacity.get(node, 0) for node in bits(mask))
        return self._sizes[mask]

    def _shortage(self, state: MemoryState, crowded: int) -> str:
        wanted = sum(size for zone, size in state.wanted.items() if not zone & ~crowded)
        return f"memory nodes {IdSet.from_mask(crowded)} have {self._size(crowded)} bytes, {wanted} are needed there"


#: Kinds that a grant is widened to where its own kinds are exhausted.
_SPILL_ORDER: Final = (MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM)


def _by_importance(grants: Iterable[MemoryGrant], within: int, limit: MemoryPriority) -> list[MemoryGrant]:
    inside = [grant for grant in grants if not grant.nodes.mask & ~within and grant.request.size_bytes]
    return sorted((grant for grant in inside if grant.request.priority <= limit), key=_importance)


def _importance(grant: MemoryGrant) -> tuple[int, int, int, str]:
    request = grant.request
    return request.priority, request.size_bytes, -request.created_ns, request.container


def _moved(wanted: Mapping[int, int], size: int, old: int, new: int) -> Mapping[int, int]:
    """Return the bytes by zone after a grant has moved; 0 is no zone."""
    if not size:
        return wanted
    result = dict(wanted)
    if old:
        result[old] -= size
        if not result[old]:
            del result[old]
    if new:
        result[new] = result.get(new, 0) + size
    return result


def _names(kinds: Iterable[MemoryKind]) -> str:
    return ", ".join(sorted(kinds))
