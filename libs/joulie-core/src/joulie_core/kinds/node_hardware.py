"""NodeHardware (`nhw`): the hardware of one node, as discovered by its agent.

Values come from drivers, firmware and backends and may have any length or size. What exceeds the schema is truncated
and marked, or unknown, so that one such value does not make the API server reject the whole report.
"""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, model_validator

from joulie_core.kinds.base import Column, Count, CustomResource, Kind, Model, NodeNameField, Timestamp
from joulie_core.kinds.bounds import (
    MOST_CPUS,
    MOST_GPUS,
    MOST_MEMORY_BYTES,
    MOST_MHZ,
    MOST_PART_WATTS,
    MOST_SOCKETS,
    cut_list,
    cut_text,
    sum_up,
    unknown_beyond,
)

_MOST_WARNINGS: Final = 64
_MOST_DEVICES: Final = 64
_MOST_MODES: Final = 32

#: 0 is unknown.
Watts = Annotated[float, Field(ge=0, le=MOST_PART_WATTS), BeforeValidator(unknown_beyond(MOST_PART_WATTS))]
OptionalWatts = Annotated[
    Annotated[float, Field(ge=0, le=MOST_PART_WATTS)] | None, BeforeValidator(unknown_beyond(MOST_PART_WATTS, None))
]
OptionalFreq = Annotated[
    Annotated[float, Field(ge=0, le=MOST_MHZ)] | None, BeforeValidator(unknown_beyond(MOST_MHZ, None))
]
Cpus = Annotated[int, Field(ge=0, le=MOST_CPUS), BeforeValidator(unknown_beyond(MOST_CPUS))]
Name = Annotated[str, Field(max_length=253), BeforeValidator(cut_text(253))]
Text = Annotated[str, Field(max_length=1024), BeforeValidator(cut_text(1024))]
Warnings = Annotated[tuple[Text, ...], Field(max_length=_MOST_WARNINGS), BeforeValidator(sum_up(_MOST_WARNINGS))]


class Exactness(StrEnum):
    """Match of the model in the inventory: its own entry, a close relative, or a generic entry."""

    EXACT = "exact"
    PROXY = "proxy"
    GENERIC = "generic"


class Quality(StrEnum):
    """Reliability of the discovered facts."""

    EXACT = "exact"
    HEURISTIC = "heuristic"
    UNAVAILABLE = "unavailable"


class Origin(StrEnum):
    """Origin of a fact; absent for unknown facts."""

    SEEN = "seen"
    """Read from the hardware, by the agent or by the backend of the node."""
    LABELLED = "labelled"
    """Taken from the node's labels or resources."""
    INFERRED = "inferred"
    """Concluded from other facts, such as a model from its vendor, or a count from a model."""


class CpuCapRange(Model):
    """Power limits of one CPU package."""

    min_watts_per_socket: Watts
    """Lowest power limit of a package."""
    max_watts_per_socket: Watts
    """Highest power limit of a package."""


class FrequencyLandmarks(Model):
    """Frequencies in MHz that bound DVFS."""

    min_freq_mhz: Annotated[OptionalFreq, Field(alias="minFreqMHz")] = None
    """Lowest frequency."""
    base_freq_mhz: Annotated[OptionalFreq, Field(alias="baseFreqMHz")] = None
    """Base frequency."""
    max_boost_mhz: Annotated[OptionalFreq, Field(alias="maxBoostMHz")] = None
    """Highest boost frequency."""


class CpuHardware(Model):
    """The node's CPUs."""

    raw_model: Text = ""
    """Model name as the hardware reports it."""
    model: Name = ""
    """Model name in the inventory."""
    vendor: Name = ""
    """Vendor."""
    sockets: Annotated[int, Field(ge=0, le=MOST_SOCKETS), BeforeValidator(unknown_beyond(MOST_SOCKETS))] = 0
    """Number of sockets."""
    total_cores: Cpus = 0
    """Physical cores of all sockets."""
    threads: Cpus = 0
    """Hardware threads of all sockets, the unit of pod requests; 0 if unknown."""
    cores_per_socket: Cpus = 0
    """Physical cores per socket."""
    driver_family: Name = ""
    """Frequency driver, such as intel_pstate."""
    cap_range: CpuCapRange | None = None
    """Power limits of one CPU package."""
    landmarks: FrequencyLandmarks | None = None
    """Frequencies that bound DVFS."""
    control_available: bool = False
    """Whether CPU power or frequency can be controlled."""
    telemetry_available: bool = False
    """Whether CPU power can be read."""
    warnings: Warnings = ()
    """Problems found during discovery."""


class GpuCapRange(Model):
    """Power limits of one GPU."""

    min_watts: Watts
    """Lowest power limit of a GPU."""
    max_watts: Watts
    """Highest power limit of a GPU."""
    default_watts: OptionalWatts = None
    """Default power limit of a GPU."""


class GpuSlicing(Model):
    """Partitioning of GPUs, such as MIG."""

    supported: bool = False
    """Whether the GPUs can be partitioned."""
    modes: Annotated[tuple[Name, ...], Field(max_length=_MOST_MODES), BeforeValidator(cut_list(_MOST_MODES))] = ()
    """Partition profiles or modes."""


class GpuDevice(Model):
    """One GPU, identified by its UUID."""

    uuid: Name
    """UUID of the GPU."""
    index: Count
    """Index of the GPU; it may change between boots."""
    model: Name = ""
    """Model name."""
    min: OptionalWatts = None
    """Lowest power limit in watts."""
    max: OptionalWatts = None
    """Highest power limit in watts."""
    default: OptionalWatts = None
    """Default power limit in watts."""


class GpuHardware(Model):
    """The node's GPUs."""

    present: bool | None = None
    """Whether the node has GPUs: false only if the PCI bus shows none; absent if unknown."""
    raw_model: Text = ""
    """Model name as the hardware reports it."""
    model: Name = ""
    """Model name in the inventory."""
    vendor: Name = ""
    """Vendor."""
    count: Annotated[int, Field(ge=0, le=MOST_GPUS), BeforeValidator(unknown_beyond(MOST_GPUS))] = 0
    """Number of GPUs; 0 if unknown or none."""
    cap_range_per_gpu: GpuCapRange | None = None
    current_cap_watts: Annotated[
        Annotated[float, Field(ge=0, le=MOST_PART_WATTS)] | None,
        BeforeValidator(unknown_beyond(MOST_PART_WATTS, None, tells=False)),
    ] = None
    """Power limit in force, per GPU."""
    slicing: GpuSlicing | None = None
    control_available: bool = False
    """Whether GPU power can be controlled."""
    telemetry_available: bool = False
    """Whether GPU power can be read."""
    warnings: Warnings = ()
    """Problems found during discovery."""
    devices: Annotated[
        tuple[GpuDevice, ...], Field(max_length=_MOST_DEVICES), BeforeValidator(cut_list(_MOST_DEVICES))
    ] = ()
    """The GPUs; those beyond 64 are counted and not listed."""

    @model_validator(mode="before")
    @classmethod
    def _count_before_cutting(cls, data: Any) -> Any:
        """Set the count to the number of devices if it is missing and some devices will be cut."""
        devices = data.get("devices") if isinstance(data, dict) else None
        if isinstance(devices, list | tuple) and len(devices) > _MOST_DEVICES and not data.get("count"):
            return {**data, "count": min(len(devices), MOST_GPUS)}
        return data


class MemoryHardware(Model):
    """The node's main memory."""

    total_bytes: Annotated[
        int, Field(ge=0, le=MOST_MEMORY_BYTES), BeforeValidator(unknown_beyond(MOST_MEMORY_BYTES))
    ] = 0
    """Size of the memory."""


class InventoryMatch(Model):
    """Inventory entries that the figures were taken from."""

    cpu: Name = ""
    """Inventory entry of the CPU model."""
    gpu: Name = ""
    """Inventory entry of the GPU model."""
    exactness: Exactness = Exactness.GENERIC


class Capabilities(Model):
    """Controls and readings that work on this node."""

    cpu_control: bool = False
    """Whether CPU power or frequency can be controlled."""
    gpu_control: bool = False
    """Whether GPU power can be controlled."""
    cpu_telemetry: bool = False
    """Whether CPU power can be read."""
    gpu_telemetry: bool = False
    """Whether GPU power can be read."""


class FactOrigins(Model):
    """Origin of the least certain fact, by subsystem; absent where nothing is known."""

    cpu: Origin | None = None
    gpu: Origin | None = None
    memory: Origin | None = None


class HardwareQuality(Model):
    """Reliability of the report."""

    overall: Quality = Quality.UNAVAILABLE
    """Reliability of the least reliable fact."""
    facts: FactOrigins | None = None
    warnings: Warnings = ()
    """Contradictions between the sources of facts, and figures that no hardware has."""


class NodeHardwareSpec(Model):
    """The node that the report describes."""

    node_name: NodeNameField


class NodeHardwareStatus(Model):
    """Discovered hardware."""

    cpu: CpuHardware | None = None
    gpu: GpuHardware | None = None
    memory: MemoryHardware | None = None
    inventory: InventoryMatch | None = None
    capabilities: Capabilities | None = None
    quality: HardwareQuality | None = None
    updated_at: Timestamp | None = None
    """Time of the last change."""


class NodeHardware(CustomResource):
    """Hardware of one node, as discovered by its agent. Not written by users."""

    info: ClassVar[Kind] = Kind(
        kind="NodeHardware",
        plural="nodehardwares",
        short_name="nhw",
        spec=NodeHardwareSpec,
        status=NodeHardwareStatus,
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("CPU", ".status.cpu.model"),
            Column("GPU", ".status.gpu.model"),
            Column("GPUs", ".status.gpu.count", "integer"),
            Column("Quality", ".status.quality.overall"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    spec: NodeHardwareSpec
    status: NodeHardwareStatus = NodeHardwareStatus()
