"""Common parts of the kinds of container policies: BalloonsPolicy, TopologyAwarePolicy and TemplatePolicy.

Their fields are those of the kinds of the same name in the group config.nri, so that their manifests can be used here.
Fields marked `NO_EFFECT` are accepted for that reason only.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from joulie_core.kinds.base import NO_EFFECT, Column, Count, CustomResource, Kind, Model, Timestamp
from joulie_core.kinds.cpu_class import INT_OR_STRING, CpuClassControlsSpec, CpuClassSpec, cpu_classes

#: Schema of a list whose entries have unique names.
BY_NAME: Final[dict[str, Any]] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

Glob = Annotated[str, Field(min_length=1, max_length=253)]
Globs = Annotated[tuple[Glob, ...], Field(max_length=64)]
_Word = Annotated[str, Field(max_length=253)]
_Words = Annotated[tuple[_Word, ...], Field(max_length=64)]
#: Interrupts by number, or by a glob of the name of their device or chip.
Interrupt = Annotated[str, Field(max_length=253)]
Interrupts = Annotated[tuple[Interrupt, ...], Field(max_length=1024)]
#: An object of any content.
AnyObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=_Named)


def _text(value: object) -> object:
    """Write a number as text; a boolean is neither."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def unique_names(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Check that every entry of a list has a name of its own; a validator of pydantic."""
    names = [entry.name for entry in entries]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"names must be unique; repeated: {', '.join(repeated)}")
    return entries


Amount = Annotated[str, BeforeValidator(_text), Field(max_length=8192), WithJsonSchema(INT_OR_STRING)]


class NodeResources(Model):
    """Resources of a node."""

    cpu: Amount | None = None
    """`cpuset:LIST`, `exclude-cpuset:LIST` or, for reserved CPUs, a quantity such as `750m`."""
    memory: Annotated[Amount | None, NO_EFFECT] = None
    """Accepted for compatibility; has no effect."""


class SchedulingPolicy(StrEnum):
    """Scheduling policy of the kernel."""

    NONE = "none"
    OTHER = "other"
    FIFO = "fifo"
    RR = "rr"
    BATCH = "batch"
    ISO = "iso"
    IDLE = "idle"
    DEADLINE = "deadline"


class IoClass(StrEnum):
    """I/O scheduling class of the kernel."""

    NONE = "none"
    REAL_TIME = "rt"
    BEST_EFFORT = "be"
    IDLE = "idle"


class SchedulingClassSpec(Model):
    """Scheduling of the processes of a container; it is set when a container is created."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name that balloon types, annotations and pools refer to."""
    policy: SchedulingPolicy | None = None
    """Scheduling policy; absent: what the runtime sets."""
    priority: Annotated[int, Field(ge=0, le=99)] | None = None
    """Priority for the policies `fifo` and `rr`."""
    flags: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=16)] = ()
    """Flags of the policy, such as `reset-on-fork`."""
    nice: Annotated[int, Field(ge=-20, le=19)] | None = None
    """Niceness; the lowest has the most CPU time."""
    runtime: Count | None = None
    """Runtime for the policy `deadline`, in microseconds."""
    deadline: Count | None = None
    """Deadline for the policy `deadline`, in microseconds."""
    period: Count | None = None
    """Period for the policy `deadline`, in microseconds."""
    io_class: IoClass | None = None
    """I/O scheduling class; absent: what the runtime sets."""
    io_priority: Annotated[int, Field(ge=0, le=7)] | None = None
    """Priority within the I/O class; 0 is the highest."""


class LegacyCpuControl(Model):
    """The older form of CPU classes."""

    classes: Annotated[dict[str, CpuClassControlsSpec], Field(max_length=64, default_factory=dict)]
    """CPU classes by name; `cpuClasses` takes precedence."""


class RdtControl(Model):
    """Classes of Resource Director Technology."""

    enable: bool = False
    """Set the classes of containers."""
    use_pod_qos_as_default_class: bool = Field(default=False, alias="usePodQoSAsDefaultClass")
    """Use the class that is named like the pod's quality of service where no annotation names one."""
    options: Annotated[AnyObject | None, NO_EFFECT] = None
    """Accepted for compatibility; has no effect."""
    force: Annotated[bool, NO_EFFECT] = False
    """Accepted for compatibility; has no effect."""
    partitions: Annotated[AnyObject | None, NO_EFFECT] = None
    """Accepted for compatibility; has no effect."""


class BlockIoControl(Model):
    """Classes of block I/O."""

    enable: bool = False
    """Set the classes of containers."""
    use_pod_qos_as_default_class: bool = Field(default=False, alias="usePodQoSAsDefaultClass")
    """Use the class that is named like the pod's quality of service where no annotation names one."""
    classes: Annotated[AnyObject | None, NO_EFFECT] = None
    """Accepted for compatibility; has no effect."""


class ControlOptions(Model):
    """Controls beside the placement."""

    cpu: LegacyCpuControl = LegacyCpuControl()
    rdt: RdtControl = RdtControl()
    blockio: BlockIoControl = BlockIoControl()


class NodeAgentOptions(Model):
    """Options of the node agent."""

    node_resource_topology: bool = False
    """Publish the zones of the policy as a NodeResourceTopology, where the cluster has that kind."""
    pod_resource_api: bool = Field(default=False, alias="podResourceAPI")
    """Ask the kubelet which devices a container has, for topology hints."""


class LogOptions(Model):
    """Options of the log."""

    debug: Annotated[_Words, NO_EFFECT] = ()
    """Accepted for compatibility; has no effect."""
    source: Annotated[bool, NO_EFFECT] = False
    """Accepted for compatibility; has no effect."""
    klog: Annotated[AnyObject | None, NO_EFFECT] = None
    """Accepted for compatibility; has no effect."""


class InstrumentationOptions(Model):
    """Options of metrics and traces, which the settings of the agent decide instead."""

    http_endpoint: Annotated[_Word, NO_EFFECT] = ""
    """Accepted for compatibility; has no effect."""
    prometheus_export: Annotated[bool, NO_EFFECT] = False
    """Accepted for compatibility; has no effect."""
    report_period: Annotated[_Word, NO_EFFECT] = ""
    """Accepted for compatibility; has no effect."""
    log_exporter: Annotated[_Word, NO_EFFECT] = ""
    """Accepted for compatibility; has no effect."""
    log_export_period: Annotated[_Word, NO_EFFECT] = ""
    """Accepted for compatibility; has no effect."""
    metrics_exporter: Annotated[_Word, NO_EFFECT] = ""
    """Accepted for compatibility; has no effect."""
    metrics: Annotated[AnyObject | None, NO_EFFECT] = None
    """Accepted for compatibility; has no effect."""
    sampling_rate_per_million: Annotated[Count, NO_EFFECT] = 0
    """Accepted for compatibility; has no effect."""
    tracing_collector: Annotated[_Word, NO_EFFECT] = ""
    """Accepted for compatibility; has no effect."""


class ContainerPolicySpec(Model):
    """Options that all container policies have."""

    available_resources: NodeResources = NodeResources()
    """CPUs that containers may use; all that are online by default."""
    reserved_resources: NodeResources = NodeResources()
    """CPUs of those for the containers of reserved namespaces."""
    reserved_pool_namespaces: Globs = ()
    """Namespaces, as globs, whose containers run on the reserved CPUs; `kube-system` always does."""
    control: ControlOptions = ControlOptions()
    agent: NodeAgentOptions = NodeAgentOptions()
    log: LogOptions = LogOptions()
    instrumentation: InstrumentationOptions = InstrumentationOptions()


class PlacementPolicySpec(ContainerPolicySpec):
    """Options of policies that set CPU classes and scheduling classes."""

    cpu_classes: Annotated[
        tuple[CpuClassSpec, ...], Field(max_length=64, json_schema_extra=BY_NAME), AfterValidator(unique_names)
    ] = ()
    """CPU classes; one named `performance`, `standard` or `eco` replaces the built-in class of that name."""
    scheduling_classes: Annotated[
        tuple[SchedulingClassSpec, ...], Field(max_length=64, json_schema_extra=BY_NAME), AfterValidator(unique_names)
    ] = ()
    """Scheduling classes."""

    @property
    def classes_by_name(self) -> Mapping[str, CpuClassSpec]:
        """All CPU classes that may be referred to: configured, of the older form, and built-in ones."""
        return cpu_classes(self.cpu_classes, self.control.cpu.classes)


class PolicyOutcome(StrEnum):
    """Success or failure of a node in using a configuration."""

    SUCCESS = "Success"
    FAILURE = "Failure"


class PolicyNodeStatus(Model):
    """Outcome of the configuration on one node."""

    status: PolicyOutcome
    generation: Count
    """`metadata.generation` that the status refers to."""
    errors: Annotated[str, Field(max_length=4096)] | None = None
    """Why the node does not use it; the earlier configuration stays in force."""
    ignored: Annotated[tuple[Annotated[str, Field(max_length=256)], ...], Field(max_length=32)] = ()
    """Fields that are unknown there or have no effect; remove them."""
    cpu_classes: Annotated[str, Field(max_length=1024)] | None = None
    """What of the CPU classes is not in force there, and why, as where the hardware has no such control."""
    interrupts: Annotated[str, Field(max_length=1024)] | None = None
    """Which interrupts do not have the CPUs that they should, and why."""
    timestamp: Timestamp | None = None
    """Time of the last change."""


class ContainerPolicyStatus(Model):
    """Outcome of the configuration, by node."""

    nodes: Annotated[dict[str, PolicyNodeStatus], Field(max_length=5000, default_factory=dict)]
    """By the name of the node; only nodes that the object applies to."""


class ContainerPolicyResource(CustomResource):
    """Base of the kinds that configure a container policy."""

    spec: ContainerPolicySpec
    status: ContainerPolicyStatus = ContainerPolicyStatus()


def policy_kind(kind: str, short_name: str, spec: type[ContainerPolicySpec]) -> Kind:
    """Return the names of a kind whose name ends in `Policy`."""
    return Kind(
        kind=kind,
        plural=f"{kind.lower().removesuffix('y')}ies",
        short_name=short_name,
        spec=spec,
        status=ContainerPolicyStatus,
        columns=(Column("Age", ".metadata.creationTimestamp", "date"),),
        named_after_node=False,
    )
