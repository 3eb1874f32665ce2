"""Needs of a container: exclusive CPUs, a share of shared CPUs, memory; from its resources and annotations."""

from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from joulie_core.containers.affinity import Affinity
from joulie_core.containers.annotations import Annotations
from joulie_core.containers.container import ContainerInfo, QosClass
from joulie_core.containers.idset import IdSet, InvalidIdListError
from joulie_core.containers.memory import MemoryPriority
from joulie_core.containers.topology import CpuPriority, MemoryKind
from joulie_core.kinds.topology_aware_policy import BurstLevel, TopologyAwarePolicySpec

WHOLE_CPU_MILLI: Final = 1_000
#: From this request on, only an annotation gives a container isolated CPUs, or exclusive ones beside shared ones.
_TWO_CPUS_MILLI: Final = 2_000


class CpuUse(StrEnum):
    """Kind of CPUs that a container uses."""

    #: CPUs of its pool: exclusive ones, shared ones, or both.
    POOL = "pool"
    #: The reserved CPUs.
    RESERVED = "reserved"
    #: What the runtime has set.
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuNeed:
    """CPUs that a container needs."""

    use: CpuUse = CpuUse.POOL
    #: Number of exclusive CPUs.
    exclusive: int = 0
    #: Share of the shared or reserved CPUs, in thousandths of a CPU.
    milli: int = 0
    #: Whether CPUs that the kernel isolates are preferred for the exclusive ones, and whether others are refused.
    isolated: bool = False
    isolated_only: bool = False
    priority: CpuPriority = CpuPriority.NONE

    @property
    def users(self) -> int:
        """1 where the container uses shared CPUs of its pool, else 0."""
        return int(self.use is CpuUse.POOL and (self.milli > 0 or not self.exclusive))

    @property
    def total_milli(self) -> int:
        """Thousandths of a CPU that the container requests altogether."""
        return WHOLE_CPU_MILLI * self.exclusive + self.milli

    def shared(self) -> "CpuNeed":
        """Return the same need, on shared CPUs only."""
        return replace(self, exclusive=0, milli=self.total_milli, isolated=False, isolated_only=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Memory that a container needs."""

    size_bytes: int
    #: None: unlimited.
    limit_bytes: int | None
    #: Wanted kinds; empty: any.
    kinds: frozenset[MemoryKind] = frozenset()
    priority: MemoryPriority = MemoryPriority.BURSTABLE
    #: How long only the slower memory is used at first; None: not at all.
    cold_start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Hint:
    """CPUs or else memory nodes that something the container uses is close to, as masks."""

    provider: str
    cpus: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNeed:
    """Everything that decides on the placement of a container."""

    cpu: CpuNeed
    memory: MemoryNeed
    hints: tuple[Hint, ...] = ()
    #: Whether a placement that does not follow the hints is refused, and whether CPUs are picked by them.
    strict_hints: bool = False
    pick_by_hints: bool = False
    #: Containers that this one wants to be near to, or far from.
    affinities: tuple[Affinity, ...] = ()
    #: CPU limit of a Burstable container; None where it has none.
    burst_milli: int | None = None
    #: What a Burstable container without a limit may spread over; None for others.
    burst_level: BurstLevel | None = None
    hide_hyperthreads: bool = False
    cpu_class: str | None = None
    scheduling_class: str | None = None

    @property
    def tied(self) -> bool:
        """Whether the container belongs near something else than its memory."""
        return bool(self.hints or self.affinities)


class ClassNames(NamedTuple):
    """Classes that annotations may name."""

    cpu: frozenset[str]
    scheduling: frozenset[str]


def read_need(
    container: ContainerInfo,
    spec: TopologyAwarePolicySpec,
    classes: ClassNames,
    annotations: Annotations,
    *,
    has_reserved: bool,
) -> ContainerNeed:
    """Return what a container needs; what of its annotations cannot be used is reported to `annotations`."""
    annotations.warn_of_unsupported()
    burstable = container.qos is QosClass.BURSTABLE
    limit = container.resources.cpu_limit_milli
    level = annotations.choice("unlimited-burstable", BurstLevel) or spec.unlimited_burstable
    return ContainerNeed(
        cpu=_cpu(container, spec, annotations, has_reserved=has_reserved),
        memory=_memory(container, annotations),
        hints=_hints(container, annotations),
        strict_hints=annotations.flag("strict.topologyhints") or False,
        pick_by_hints=annotations.flag("pick-resources-by-hints") or False,
        burst_milli=limit if burstable else None,
        burst_level=level if burstable else None,
        affinities=annotations.affinities(),
        hide_hyperthreads=annotations.flag("hide-hyperthreads") or False,
        cpu_class=_known(annotations, "cpu-class", classes.cpu),
        scheduling_class=_known(annotations, "scheduling-class", classes.scheduling)
        or spec.namespace_scheduling_classes.get(container.pod.namespace)
        or spec.pod_qos_scheduling_classes.get(container.qos),
    )


def _cpu(
    container: ContainerInfo, spec: TopologyAwarePolicySpec, annotations: Annotations, *, has_reserved: bool
) -> CpuNeed:
    milli = container.resources.cpu_request_milli
    if annotations.flag("cpu.preserve"):
        return CpuNeed(use=CpuUse.UNCHANGED)
    reserved = annotations.flag("prefer-reserved-cpus")
    if reserved is None:
        reserved = any(
            fnmatchcase(container.pod.namespace, glob) for glob in ("kube-system", *spec.reserved_pool_namespaces)
        )
    if reserved and has_reserved:
        return CpuNeed(use=CpuUse.RESERVED, milli=milli)
    exclusive = _exclusive(container, annotations, spec)
    priority = annotations.choice("prefer-cpu-priority", CpuPriority) or spec.default_cpu_priority
    preferred, required = annotations.flag("prefer-isolated-cpus"), annotations.flag("require-isolated-cpus")
    if preferred is None:
        preferred = spec.prefer_isolated_cpus and milli < _TWO_CPUS_MILLI
    return CpuNeed(
        exclusive=exclusive,
        milli=milli - WHOLE_CPU_MILLI * exclusive,
        isolated=bool(exclusive and (preferred or required)),
        isolated_only=bool(exclusive and required),
        priority=priority,
    )


def _exclusive(container: ContainerInfo, annotations: Annotations, spec: TopologyAwarePolicySpec) -> int:
    """Return how many exclusive CPUs a container gets."""
    whole, part = divmod(container.resources.cpu_request_milli, WHOLE_CPU_MILLI)
    if container.qos is not QosClass.GUARANTEED:
        return 0
    shared = annotations.flag("prefer-shared-cpus")
    if shared is None:
        # A fraction beside two or more CPUs is a sign that the container does not count on whole ones.
        shared = spec.prefer_shared_cpus or bool(part and container.resources.cpu_request_milli >= _TWO_CPUS_MILLI)
    return 0 if shared else whole


def _memory(container: ContainerInfo, annotations: Annotations) -> MemoryNeed:
    resources = container.resources
    priority = {
        QosClass.GUARANTEED: MemoryPriority.GUARANTEED,
        QosClass.BURSTABLE: MemoryPriority.BURSTABLE,
        QosClass.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
    }[container.qos]
    return MemoryNeed(
        size_bytes=resources.memory_request_bytes or resources.memory_limit_bytes or 0,
        limit_bytes=resources.memory_limit_bytes,
        kinds=annotations.memory_kinds("memory-type"),
        priority=MemoryPriority.PRESERVED if annotations.flag("memory.preserve") else priority,
        cold_start_s=annotations.duration("cold-start"),
    )


def _hints(container: ContainerInfo, annotations: Annotations) -> tuple[Hint, ...]:
    hints = []
    for hint in annotations.wanted_hints(container.hints):
        try:
            hints.append(Hint(hint.provider, IdSet.parse(hint.cpus).mask, IdSet.parse(hint.nodes).mask))
        except InvalidIdListError as error:
            annotations.warn("InvalidTopologyHint", f"the topology hint of {hint.provider} is ignored: {error}")
    return tuple(hint for hint in hints if hint.cpus or hint.nodes)


def _known(annotations: Annotations, key: str, defined: frozenset[str]) -> str | None:
    """Return the class that an annotation names, None where it is not defined."""
    name = annotations.text(key)
    if name is None or name in defined:
        return name
    annotations.warn("UnknownName", f"annotation {key} is ignored: the configuration has no class {name!r}")
    return None
