"""NodeHardware (`nhw`): what the agent found in a node. Written by the agent only. Source: contracts, section 1.

Strings and lists come from drivers, firmware and backends, and may be of any length: what is longer than the schema
allows is cut and marked, wherever it enters, so that one odd name does not cost a node its whole report.
"""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, model_validator

from joulie_core.kinds.base import Column, Count, CustomResource, Kind, Model, NodeNameField, Timestamp, Watts
from joulie_core.kinds.bounds import cut_list, cut_text, sum_up

_MOST_WARNINGS: Final = 64
_MOST_DEVICES: Final = 64
_MOST_MODES: Final = 32

Freq = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(max_length=253), BeforeValidator(cut_text(253))]
Text = Annotated[str, Field(max_length=1024), BeforeValidator(cut_text(1024))]
Warnings = Annotated[tuple[Text, ...], Field(max_length=_MOST_WARNINGS), BeforeValidator(sum_up(_MOST_WARNINGS))]


class Exactness(StrEnum):
    """How well the inventory knows the model: its own entry, a close relative, or a guess by kind."""

    EXACT = "exact"
    PROXY = "proxy"
    GENERIC = "generic"


class Quality(StrEnum):
    """How far the discovered facts can be trusted."""

    EXACT = "exact"
    HEURISTIC = "heuristic"
    UNAVAILABLE = "unavailable"


class Origin(StrEnum):
    """Where a fact comes from; a fact that nobody knows has none."""

    SEEN = "seen"
    """The machine itself said so, to its agent or to the backend that serves the node."""
    LABELLED = "labelled"
    """The node's labels or its resources say so."""
    INFERRED = "inferred"
    """Concluded from something else, such as a model from its vendor, or a count from a model."""


class CpuCapRange(Model):
    """Power limits of one CPU package."""

    min_watts_per_socket: Watts
    max_watts_per_socket: Watts


class FrequencyLandmarks(Model):
    """Frequencies in MHz that bound DVFS."""

    min_freq_mhz: Annotated[Freq | None, Field(alias="minFreqMHz")] = None
    base_freq_mhz: Annotated[Freq | None, Field(alias="baseFreqMHz")] = None
    max_boost_mhz: Annotated[Freq | None, Field(alias="maxBoostMHz")] = None


class CpuHardware(Model):
    """The node's CPUs."""

    raw_model: Text = ""
    model: Name = ""
    vendor: Name = ""
    sockets: Count = 0
    total_cores: Count = 0
    """Physical cores of all sockets."""
    threads: Count = 0
    """Hardware threads of all sockets, the unit of pod requests; 0 where nobody has counted them."""
    cores_per_socket: Count = 0
    driver_family: Name = ""
    cap_range: CpuCapRange | None = None
    landmarks: FrequencyLandmarks | None = None
    control_available: bool = False
    telemetry_available: bool = False
    warnings: Warnings = ()


class GpuCapRange(Model):
    """Power limits of one GPU."""

    min_watts: Watts
    max_watts: Watts
    default_watts: Watts | None = None


class GpuSlicing(Model):
    """Partitioning of GPUs, such as MIG."""

    supported: bool = False
    modes: Annotated[tuple[Name, ...], Field(max_length=_MOST_MODES), BeforeValidator(cut_list(_MOST_MODES))] = ()


class GpuDevice(Model):
    """One GPU, identified by UUID; limits in watts."""

    uuid: Name
    index: Count
    model: Name = ""
    min: Watts | None = None
    max: Watts | None = None
    default: Watts | None = None


class GpuHardware(Model):
    """The node's GPUs."""

    present: bool | None = None
    """Whether there are any: false only where something that sees every GPU found none; absent where nobody knows."""
    raw_model: Text = ""
    model: Name = ""
    vendor: Name = ""
    count: Count = 0
    cap_range_per_gpu: GpuCapRange | None = None
    current_cap_watts: Watts | None = None
    slicing: GpuSlicing | None = None
    control_available: bool = False
    telemetry_available: bool = False
    warnings: Warnings = ()
    devices: Annotated[
        tuple[GpuDevice, ...], Field(max_length=_MOST_DEVICES), BeforeValidator(cut_list(_MOST_DEVICES))
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def _count_before_cutting(cls, data: Any) -> Any:
        """Take the number of devices for the count where there are more than fit and no count."""
        devices = data.get("devices") if isinstance(data, dict) else None
        if isinstance(devices, list | tuple) and len(devices) > _MOST_DEVICES and not data.get("count"):
            return {**data, "count": len(devices)}
        return data


class MemoryHardware(Model):
    """The node's main memory."""

    total_bytes: Count = 0


class InventoryMatch(Model):
    """Keys of the inventory entries that stand behind the figures."""

    cpu: Name = ""
    gpu: Name = ""
    exactness: Exactness = Exactness.GENERIC


class Capabilities(Model):
    """Which controls and readings work on this node."""

    cpu_control: bool = False
    gpu_control: bool = False
    cpu_telemetry: bool = False
    gpu_telemetry: bool = False


class FactOrigins(Model):
    """By subsystem, where the least certain of its facts comes from; absent where nothing is known of it."""

    cpu: Origin | None = None
    gpu: Origin | None = None
    memory: Origin | None = None


class HardwareQuality(Model):
    """Trust in the whole report."""

    overall: Quality = Quality.UNAVAILABLE
    facts: FactOrigins | None = None
    warnings: Warnings = ()


class NodeHardwareSpec(Model):
    """Which node this is about."""

    node_name: NodeNameField


class NodeHardwareStatus(Model):
    """What was discovered."""

    cpu: CpuHardware | None = None
    gpu: GpuHardware | None = None
    memory: MemoryHardware | None = None
    inventory: InventoryMatch | None = None
    capabilities: Capabilities | None = None
    quality: HardwareQuality | None = None
    updated_at: Timestamp | None = None


class NodeHardware(CustomResource):
    """Hardware of one node, as discovered by its agent; never authored by users."""

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
