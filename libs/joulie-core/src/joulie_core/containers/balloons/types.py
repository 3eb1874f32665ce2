"""Balloon types as the policy uses them: options with their defaults applied, resolved on one node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.containers.balloons.devices import Preferences
from joulie_core.containers.cpu_tree import CpuWish, TreeLevel
from joulie_core.containers.idset import Cpus
from joulie_core.containers.memory import DRAM_ONLY
from joulie_core.containers.node_cpus import NodeCpus
from joulie_core.containers.policy import PolicyConfigError
from joulie_core.containers.topology import CpuPriority, HardwareTopology, MemoryKind
from joulie_core.kinds.balloons_policy import (
    DEFAULT,
    RESERVED,
    BalloonsPolicySpec,
    BalloonTypeSpec,
    ComponentCreation,
    IdleSharing,
    InterruptMode,
)
from joulie_core.kinds.match_expression import ExpressionSpec

#: Always on the reserved CPUs.
SYSTEM_NAMESPACE: Final = "kube-system"
#: The class of CPUs without another one, where a class of that name is defined.
DEFAULT_CLASS: Final = "default"
_SHARED_LEVEL: Final[Mapping[IdleSharing, TreeLevel]] = {
    level: TreeLevel[level.name] for level in IdleSharing if level is not IdleSharing.NONE
}
#: The order in which balloons are created before there are containers.
_CREATION_ORDER: Final = (CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW, CpuPriority.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonType:
    """A type of balloons on one node."""

    name: str
    #: Its place among all types; the first that a container belongs to counts.
    order: int
    namespaces: tuple[str, ...]
    match_expressions: tuple[ExpressionSpec, ...]
    group_by: str
    #: Bounds of a balloon's size; without a limit the most are all available CPUs.
    min_cpus: int
    max_cpus: int
    min_balloons: int
    #: None for no limit.
    max_balloons: int | None
    cpu_class: str
    loads: frozenset[str]
    memory_kinds: frozenset[MemoryKind]
    pin_memory: bool
    scheduling_class: str | None
    wish: CpuWish
    #: Resources whose devices a balloon is placed close to; more important than what `wish` is close to.
    close_resources: tuple[str, ...]
    hide_hyperthreads: bool
    prefer_spreading_pods: bool
    prefer_per_namespace: bool
    prefer_new: bool
    #: Idle CPUs are shared within parts of this level.
    share_idle: TreeLevel | None
    #: Names of types; not empty for composite balloons.
    components: tuple[str, ...]
    #: A new composite balloon gets one component instead of all.
    balance_components: bool
    show_containers: bool
    interrupt_claims: tuple[str, ...]
    interrupt_mode: InterruptMode
    #: The CPUs that the only balloon of the type always has, whatever its containers request.
    exact: Cpus | None


@dataclass(frozen=True, slots=True)
class BalloonTypes:
    """All types of a configuration on one node."""

    #: By name: `reserved` first, `default` last, the others as they are configured.
    by_name: Mapping[str, BalloonType]

    @property
    def default(self) -> BalloonType:
        """The type of containers that belong to no other."""
        return self.by_name[DEFAULT]

    def in_creation_order(self) -> list[BalloonType]:
        """Return the types in the order in which their first balloons are created."""
        return sorted(
            self.by_name.values(),
            key=lambda each: (each.exact is None, _CREATION_ORDER.index(each.wish.priority), each.order),
        )

    def leaves(self, kind: BalloonType) -> Iterator[BalloonType]:
        """Return the types without components that a balloon of a type can consist of; itself where it has none."""
        if not kind.components:
            yield kind
        for name in kind.components:
            yield from self.leaves(self.by_name[name])

    def least(self, kind: BalloonType) -> int:
        """Return how many CPUs a balloon of a type has at least."""
        if not kind.components:
            return kind.min_cpus
        parts = [self.least(self.by_name[name]) for name in kind.components]
        return max(kind.min_cpus, max(parts) if kind.balance_components else sum(parts))


def resolve_types(
    spec: BalloonsPolicySpec, topology: HardwareTopology, cpus: NodeCpus, devices: Mapping[str, Cpus]
) -> BalloonTypes:
    """Apply defaults to the configured types, and add the built-in ones.

    Args:
        spec: The configuration.
        topology: The node.
        cpus: The CPUs that the policy may use.
        devices: CPUs close to devices, by path in sysfs.

    Raises:
        PolicyConfigError: The options of reserved CPUs contradict each other, or not all balloons that always exist
            have room on the node.
    """
    specs = _with_builtin(spec)
    preferences = Preferences(specs, topology, cpus.reserved_set, devices)
    resolver = _Resolver(spec, cpus, preferences)
    types = BalloonTypes({each.name: resolver.resolve(order, each) for order, each in enumerate(specs)})
    _check_room(types, len(cpus.available))
    return types


def _with_builtin(spec: BalloonsPolicySpec) -> list[BalloonTypeSpec]:
    configured = {each.name: each for each in spec.balloon_types}
    reserved = configured.pop(RESERVED, BalloonTypeSpec(name=RESERVED))
    default = configured.pop(DEFAULT, BalloonTypeSpec(name=DEFAULT, min_balloons=1, max_balloons=1))
    namespaces = (SYSTEM_NAMESPACE, *spec.reserved_pool_namespaces, *reserved.namespaces)
    return [reserved.model_copy(update={"namespaces": namespaces}), *configured.values(), default]


class _Resolver:
    def __init__(self, spec: BalloonsPolicySpec, cpus: NodeCpus, preferences: Preferences) -> None:
        self._spec = spec
        self._cpus = cpus
        self._preferences = preferences
        self._classes = spec.classes_by_name

    def resolve(self, order: int, each: BalloonTypeSpec) -> BalloonType:
        least, most, exact = self._sizes(each)
        return BalloonType(
            name=each.name,
            order=order,
            namespaces=each.namespaces,
            match_expressions=each.match_expressions,
            group_by=each.group_by,
            min_cpus=least,
            max_cpus=most,
            min_balloons=max(1, each.min_balloons or 0) if each.name == RESERVED else each.min_balloons or 0,
            max_balloons=1 if exact is not None else _most_balloons(each),
            cpu_class=each.cpu_class or (DEFAULT_CLASS if DEFAULT_CLASS in self._classes else ""),
            loads=frozenset(each.loads),
            memory_kinds=frozenset(each.memory_types) or DRAM_ONLY,
            pin_memory=_first(each.pin_memory, self._spec.pin_memory),
            scheduling_class=each.scheduling_class or None,
            wish=self._wish(each),
            close_resources=self._preferences.resources(each),
            hide_hyperthreads=each.hide_hyperthreads,
            prefer_spreading_pods=each.prefer_spreading_pods,
            prefer_per_namespace=each.prefer_per_namespace_balloon,
            prefer_new=each.prefer_new_balloons,
            share_idle=_SHARED_LEVEL.get(each.share_idle_cpus_in_same),
            components=tuple(part.balloon_type for part in each.components),
            balance_components=each.component_creation is ComponentCreation.BALANCE_BALLOONS,
            show_containers=_first(each.show_containers_in_nrt, self._spec.show_containers_in_nrt),
            interrupt_claims=each.irq_claim,
            interrupt_mode=each.irq_mode,
            exact=exact,
        )

    def _wish(self, each: BalloonTypeSpec) -> CpuWish:
        usual = CpuPriority.HIGH
        if each.name == RESERVED:
            usual = CpuPriority.LOW if self._cpus.reserved_set is None else CpuPriority.NORMAL
        return CpuWish(
            close=self._preferences.close(each),
            far=self._preferences.far(each),
            balance=_first(each.allocator_topology_balancing, self._spec.allocator_topology_balancing),
            spread=_first(each.prefer_spread_on_physical_cores, self._spec.prefer_spread_on_physical_cores),
            priority=each.allocator_priority or usual,
        )

    def _sizes(self, each: BalloonTypeSpec) -> tuple[int, int, Cpus | None]:
        """Return the least and most CPUs of a balloon, and the CPUs that it always has."""
        all_cpus = len(self._cpus.available)
        least, most = each.min_cpus or 0, _most_cpus(each, all_cpus)
        if each.name != RESERVED or each.components:
            return least, most, None
        count, chosen = self._cpus.reserved_count, self._cpus.reserved_set
        if chosen is None:
            if each.min_cpus not in (None, count):
                raise PolicyConfigError(
                    f"balloonTypes: minCPUs of type reserved is {each.min_cpus}, and reservedResources.cpu is {count} "
                    "CPUs; remove minCPUs or set both to the same number"
                )
            return count, _at_least(most, count, "reservedResources.cpu"), None
        if each.max_cpus or each.min_cpus not in (None, count):
            return (min(count, most) if each.min_cpus is None else least), most, None
        if (each.max_balloons or 1) != 1 or (each.min_balloons or 1) != 1:
            raise PolicyConfigError(
                f"balloonTypes: type reserved has exactly the CPUs {chosen}, so it has one balloon, not "
                f"{max(each.min_balloons or 1, each.max_balloons or 1)}; set its maxCPUs to divide them"
            )
        return count, count, chosen


def _at_least(most: int, least: int, source: str) -> int:
    if most < least:
        raise PolicyConfigError(
            f"balloonTypes: maxCPUs of type reserved is {most}, less than the {least} CPUs of {source}; "
            "raise or remove it"
        )
    return most


def _most_cpus(each: BalloonTypeSpec, all_cpus: int) -> int:
    if each.max_cpus == -1:
        return 0
    return min(each.max_cpus, all_cpus) if each.max_cpus else all_cpus


def _most_balloons(each: BalloonTypeSpec) -> int | None:
    if each.name == RESERVED and each.max_balloons is None:
        return max(1, each.min_balloons or 0)
    return each.max_balloons or None


def _first(own: bool | None, common: bool) -> bool:  # noqa: FBT001 - two values of one option
    return common if own is None else own


def _check_room(types: BalloonTypes, available: int) -> None:
    for each in types.by_name.values():
        if each.components and types.least(each) > each.max_cpus:
            raise PolicyConfigError(
                f"balloonTypes: maxCPUs of type {each.name} is {each.max_cpus}, less than the "
                f"{types.least(each)} CPUs that its components have at least; raise it or lower their minCPUs"
            )
    needs = {each.name: each.min_balloons * types.least(each) for each in types.by_name.values()}
    if sum(needs.values()) > available:
        parts = ", ".join(f"{count} for type {name}" for name, count in needs.items() if count)
        raise PolicyConfigError(
            f"balloonTypes: the balloons that always exist need {sum(needs.values())} CPUs ({parts}), and {available} "
            "are available; lower minBalloons or minCPUs"
        )
