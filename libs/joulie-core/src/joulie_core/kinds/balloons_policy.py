"""BalloonsPolicy (`blp`): configuration of the balloons policy."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from joulie_core.containers.topology import CpuPriority, MemoryKind
from joulie_core.kinds.base import Kind, Model
from joulie_core.kinds.container_policy import (
    BY_NAME,
    ContainerPolicyResource,
    Globs,
    Interrupt,
    Interrupts,
    PlacementPolicySpec,
    policy_kind,
)
from joulie_core.kinds.match_expression import ExpressionSpec

RESERVED: Final = "reserved"
DEFAULT: Final = "default"

_Name = Annotated[str, Field(min_length=1, max_length=128)]
_Text = Annotated[str, Field(max_length=1024)]
_Count = Annotated[int, Field(ge=0, le=65_536)]


_Expressions = Annotated[tuple[ExpressionSpec, ...], Field(max_length=64)]


class LoadLevel(StrEnum):
    """Part of the CPU that a load strains."""

    CORE = "core"
    L2CACHE = "l2cache"


class IdleSharing(StrEnum):
    """Around which part of the hardware of its own CPUs a balloon uses idle CPUs."""

    NONE = ""
    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L2CACHE = "l2cache"
    CORE = "core"
    THREAD = "thread"


class ComponentCreation(StrEnum):
    """Components that a new composite balloon gets."""

    DEFAULT = ""
    ALL = "all"
    BALANCE_BALLOONS = "balance-balloons"


class LoadClassSpec(Model):
    """A kind of load that should not meet itself on one core or L2 cache."""

    name: _Name
    """Name that balloon types refer to."""
    level: LoadLevel
    """What the load strains."""
    overloads_level_in_balloon: bool = False
    """Also keep the CPUs of one balloon apart."""


class BalloonComponentSpec(Model):
    """A part of a composite balloon."""

    balloon_type: _Name
    """Balloon type that the part is of."""


class PreserveSpec(Model):
    """Containers that the policy leaves alone."""

    match_expressions: _Expressions = ()
    """Conditions; a container that meets one of them keeps the CPUs and memory that the runtime has set."""


class InterruptMode(StrEnum):
    """Role of balloons for interrupts that their type does not claim."""

    NONE = ""
    SINK = "sink"
    ISOLATE = "isolate"


class BalloonTypeSpec(Model):
    """A type of balloons. The names `reserved` and `default` change the built-in types."""

    name: _Name
    """Name that annotations, components and balloons have."""
    namespaces: Globs = ()
    """Namespaces, as globs, whose containers belong to this type."""
    match_expressions: _Expressions = ()
    """Conditions; a container that meets one of them belongs to this type."""
    group_by: _Text = ""
    """Containers for which this has the same value share a balloon, such as `${pod/labels/app}`."""
    min_cpus: Annotated[_Count | None, Field(alias="minCPUs")] = None
    """CPUs that a balloon never has less than; 0 by default."""
    max_cpus: Annotated[int | None, Field(ge=-1, le=65_536, alias="maxCPUs")] = None
    """CPUs that a balloon never has more than; 0, the default, for no limit, -1 for no CPUs at all."""
    min_balloons: _Count | None = None
    """Balloons that always exist."""
    max_balloons: _Count | None = None
    """Balloons at most; 0, the default, for no limit."""
    cpu_class: Annotated[str, Field(max_length=128)] = ""
    """CPU class of the balloons' CPUs; `performance`, `standard` and `eco` need no definition."""
    loads: Annotated[tuple[_Name, ...], Field(max_length=16)] = ()
    """Load classes that the containers cause."""
    memory_types: Annotated[tuple[MemoryKind, ...], Field(max_length=3)] = ()
    """Types of memory that containers use; DRAM by default."""
    pin_memory: bool | None = None
    """Set the memory nodes of containers; by default as `pinMemory` of the policy."""
    scheduling_class: Annotated[str, Field(max_length=128)] = ""
    """Scheduling class of containers without an annotation."""
    allocator_priority: CpuPriority | None = None
    """Which CPUs are used before others, and which balloons are created first; `high` by default."""
    allocator_topology_balancing: bool | None = None
    """Start where most CPUs are idle; by default as in the policy."""
    prefer_spread_on_physical_cores: bool | None = None
    """Take one thread of each core before the second of any; by default as in the policy."""
    hide_hyperthreads: bool = False
    """Use one thread of each core, and leave the others idle."""
    prefer_isol_cpus: bool = False
    """Prefer CPUs that the kernel has isolated."""
    prefer_core_type: Literal["", "efficient", "performance"] = ""
    """Kind of cores that is preferred on a hybrid processor."""
    prefer_close_to_devices: Annotated[tuple[_Text, ...], Field(max_length=16)] = ()
    """Prefer CPUs close to these: paths in `/sys`, or `podresourceapi:NAME` for devices of the container."""
    prefer_spreading_pods: bool = False
    """Containers of one pod may be in different balloons."""
    prefer_per_namespace_balloon: bool = False
    """Containers of one namespace share a balloon, others get another."""
    prefer_new_balloons: bool = False
    """Create a balloon rather than use one that exists."""
    share_idle_cpus_in_same: Annotated[IdleSharing, Field(alias="shareIdleCPUsInSame")] = IdleSharing.NONE
    """Containers also use CPUs of no balloon within this part of the hardware."""
    components: Annotated[tuple[BalloonComponentSpec, ...], Field(max_length=64)] = ()
    """Parts of a composite balloon, which has no CPUs besides theirs."""
    component_creation: ComponentCreation = ComponentCreation.DEFAULT
    """`all`, the default, creates every component; `balance-balloons` one, of the type with the fewest balloons."""
    show_containers_in_nrt: bool | None = None
    """Publish containers in NodeResourceTopology; by default as in the policy."""
    irq_claim: Annotated[tuple[Interrupt, ...], Field(max_length=64)] = ()
    """Interrupts that the balloons' CPUs handle: numbers, or globs of the name of their device or chip."""
    irq_mode: InterruptMode = InterruptMode.NONE
    """`sink`: the balloons' CPUs handle what no type claims. `isolate`: they handle what their type claims only."""


class BalloonsPolicySpec(PlacementPolicySpec):
    """Options of the balloons policy."""

    pin_cpu: Annotated[bool, Field(alias="pinCPU")] = True
    """Set the CPUs of containers."""
    pin_memory: bool = True
    """Set the memory nodes of containers."""
    idle_cpu_class: Annotated[str, Field(max_length=128, alias="idleCPUClass")] = ""
    """CPU class of available CPUs that are in no balloon."""
    allocator_topology_balancing: bool = False
    """Start balloons where most CPUs are idle, instead of where fewest are."""
    prefer_spread_on_physical_cores: bool = False
    """Take one thread of each core before the second of any."""
    balloon_types: Annotated[tuple[BalloonTypeSpec, ...], Field(max_length=128, json_schema_extra=BY_NAME)] = ()
    """Types of balloons; the first one that a container belongs to counts."""
    preserve: PreserveSpec = PreserveSpec()
    """Containers that the policy leaves alone."""
    show_containers_in_nrt: bool = False
    """Publish containers in NodeResourceTopology."""
    load_classes: Annotated[tuple[LoadClassSpec, ...], Field(max_length=64, json_schema_extra=BY_NAME)] = ()
    """Load classes."""
    turbo_domain: Literal["package", "system"] = "package"
    """Where classes compete for frequencies above the base frequency; `system` is refused."""
    controllable_interrupts: Interrupts = ("*",)
    """Interrupts that may be moved, as in `irqClaim`; with `*`, also those that devices get later."""

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        problems = [*_option_problems(self), *_type_problems(self), *_component_problems(self.balloon_types)]
        if problems:
            raise ValidationError.from_exception_data(type(self).__name__, [each.details() for each in problems])
        return self


class BalloonsPolicy(ContainerPolicyResource):
    """Configuration of the balloons policy: which containers share which CPUs, and how fast these run.

    A balloon is a set of CPUs that is as large as the requests of its containers. Two types exist always: `reserved`
    for the namespaces of the system, and `default` for containers that belong to no other; an entry of that name
    changes them. A number in `reservedResources` is the least size of the reserved balloon, which grows with its
    containers. A set of CPUs is the reserved balloon: it has exactly these CPUs, whatever its containers request, and
    no other balloon gets them. With `maxCPUs` on the type `reserved`, the set is where its balloons start, and they may
    grow beyond it.
    """

    info: ClassVar[Kind] = policy_kind("BalloonsPolicy", "blp", BalloonsPolicySpec)

    spec: BalloonsPolicySpec


class _Problem(NamedTuple):
    location: tuple[str | int, ...]
    value: object
    message: str

    def details(self) -> InitErrorDetails:
        # Braces would be placeholders of the template.
        template = self.message.replace("{", "{{").replace("}", "}}")
        return InitErrorDetails(
            type=PydanticCustomError("balloons_policy", template), loc=self.location, input=self.value
        )


def _option_problems(spec: BalloonsPolicySpec) -> Iterator[_Problem]:
    if spec.reserved_resources.cpu is None:
        yield _Problem(("reservedResources", "cpu"), None, "is required; write a quantity such as 1 or cpuset:0-1")
    if spec.turbo_domain != "package":
        yield _Problem(("turboDomain",), spec.turbo_domain, _PACKAGES_ONLY)
    if (claims := sum(len(each.irq_claim) for each in spec.balloon_types)) > _MOST_CLAIMS:
        yield _Problem(
            ("balloonTypes",), claims, f"entries of irqClaim in all types, more than {_MOST_CLAIMS}; use globs"
        )
    yield from _undefined(("idleCPUClass",), spec.idle_cpu_class, list(spec.classes_by_name), "cpuClasses")
    for field, names in (
        ("balloonTypes", [each.name for each in spec.balloon_types]),
        ("loadClasses", [each.name for each in spec.load_classes]),
    ):
        for index, name in enumerate(names):
            if name in names[:index]:
                yield _Problem((field, index, "name"), name, "is the name of an earlier entry; choose another")


#: Entries of `irqClaim` in all types: so many fit into one request to the actuator.
_MOST_CLAIMS: Final = 1024
_PACKAGES_ONLY: Final = "classes compete for frequencies within each package; write package, or remove the field"


def _type_problems(spec: BalloonsPolicySpec) -> Iterator[_Problem]:
    classes = list(spec.classes_by_name)
    loads = list(dict.fromkeys(each.name for each in spec.load_classes))
    scheduling = [each.name for each in spec.scheduling_classes]
    for index, each in enumerate(spec.balloon_types):
        place = ("balloonTypes", index)
        yield from _range_problems(place, each)
        yield from _undefined((*place, "cpuClass"), each.cpu_class, classes, "cpuClasses")
        yield from _undefined((*place, "schedulingClass"), each.scheduling_class, scheduling, "schedulingClasses")
        for number, load in enumerate(each.loads):
            yield from _undefined((*place, "loads", number), load, loads, "loadClasses")


def _range_problems(place: tuple[str | int, ...], each: BalloonTypeSpec) -> Iterator[_Problem]:
    least, most = each.min_cpus or 0, each.max_cpus or 0
    if most and least > max(most, 0):
        yield _Problem((*place, "minCPUs"), least, f"is more than maxCPUs, which is {most}; raise that or lower this")
    least, most = each.min_balloons or 0, each.max_balloons or 0
    if most and least > most:
        yield _Problem(
            (*place, "minBalloons"), least, f"is more than maxBalloons, which is {most}; raise that or lower this"
        )


def _undefined(place: tuple[str | int, ...], name: str, defined: Sequence[str], where: str) -> Iterator[_Problem]:
    if name and name not in defined:
        known = f"; defined are {', '.join(defined)}" if defined else ""
        yield _Problem(place, name, f"is not defined in {where}{known}")


#: Options about where CPUs come from; those of a composite balloon come from its components.
_OF_COMPONENTS: Final = (
    "cpu_class",
    "loads",
    "allocator_topology_balancing",
    "prefer_spread_on_physical_cores",
    "prefer_isol_cpus",
    "prefer_core_type",
    "prefer_close_to_devices",
)


def _component_problems(types: Sequence[BalloonTypeSpec]) -> Iterator[_Problem]:
    components = {each.name: [part.balloon_type for part in each.components] for each in types}
    known = [*components, *(name for name in (RESERVED, DEFAULT) if name not in components)]
    for index, each in enumerate(types):
        if not each.components:
            continue
        place = ("balloonTypes", index)
        for option in _OF_COMPONENTS:
            if getattr(each, option):
                alias = type(each).model_fields[option].alias or option
                yield _Problem(
                    (*place, alias), getattr(each, option), "the type has components; set this on their types instead"
                )
        for number, name in enumerate(components[each.name]):
            yield from _undefined((*place, "components", number, "balloonType"), name, known, "balloonTypes")
        if each.name in _reachable(components, each.name):
            yield _Problem((*place, "components"), components[each.name], f"{each.name} would be a part of itself")


def _reachable(components: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(components[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += components.get(name, [])
    return found
