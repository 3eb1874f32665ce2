"""TelemetryProfile (`tp`): sources of readings and backends of controls; its status is the agent's report."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field

from joulie_core.control_result import ControlResult
from joulie_core.kinds.base import CheckedModel, Column, CustomResource, Invariant, Kind, Model, Text, Timestamp, Watts
from joulie_core.kinds.bounds import cut_text
from joulie_core.kinds.energy_report import EnergyReport
from joulie_core.kinds.held_devices import MOST_REPORTED_DEVICES, DeviceReport

Endpoint = Annotated[str, Field(min_length=1, max_length=2048, pattern="^https?://")]
Name = Annotated[str, Field(max_length=253)]
#: Places in one report.
MOST_PLACES: Final = 32


class TargetScope(StrEnum):
    """Scope of the profile: one node, or all nodes that match a selector."""

    NODE = "node"
    CLUSTER = "cluster"


class SourceType(StrEnum):
    """Source of power readings."""

    NONE = "none"
    HOST = "host"
    HTTP = "http"
    PROMETHEUS = "prometheus"


class ControlType(StrEnum):
    """Backend of power controls."""

    NONE = "none"
    HOST = "host"
    HTTP = "http"


class CpuControlMode(StrEnum):
    """Allowed CPU controls: RAPL caps, DVFS throttle, or both (`auto`)."""

    AUTO = "auto"
    RAPL = "rapl"
    DVFS = "dvfs"


class GpuControlMode(StrEnum):
    """Allowed GPU controls."""

    AUTO = "auto"
    POWERCAP = "powercap"


class Held(StrEnum):
    """State of a cap or throttle of Joulie's: in force or not."""

    NO = "none"
    #: A request got no answer, or was about to be made when the agent ended.
    PERHAPS = "unknown"
    YES = "in-force"


class SecretRef(Model):
    """Secret in the agent's namespace whose entries are sent as request headers."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the Secret."""


class HttpEndpoint(Model):
    """HTTP backend."""

    endpoint: Endpoint
    """URL; `{node}` is replaced by the name of the node."""
    timeout_seconds: Annotated[int, Field(ge=1, le=300)] = 5
    """Time limit of one request."""
    headers_secret_ref: SecretRef | None = None


class PrometheusQuery(Model):
    """Prometheus query that returns watts."""

    endpoint: Endpoint
    """Base URL of Prometheus; `{node}` is replaced by the name of the node."""
    query: Annotated[str, Field(min_length=1, max_length=4096)]
    """PromQL that returns watts; `{node}` is replaced by the name of the node."""


_HTTP_GIVEN = Invariant(
    "!has(self.type) || self.type != 'http' || has(self.http)",
    "http is required when type is http",
    lambda part: part.type != "http" or part.http is not None,
)


class TelemetryTarget(CheckedModel):
    """Nodes that the profile applies to."""

    invariants = (
        Invariant(
            "self.scope != 'node' || has(self.nodeName)",
            "nodeName is required when scope is node",
            lambda target: target.scope is not TargetScope.NODE or target.node_name is not None,
        ),
        Invariant(
            "self.scope == 'node' || !has(self.nodeName)",
            "nodeName needs scope node",
            lambda target: target.scope is TargetScope.NODE or target.node_name is None,
        ),
        Invariant(
            "self.scope == 'cluster' || !has(self.nodeSelector)",
            "nodeSelector needs scope cluster",
            lambda target: target.scope is TargetScope.CLUSTER or target.node_selector is None,
        ),
    )

    scope: TargetScope
    node_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of the node, for scope `node`."""
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)] | None = None
    """Labels that a node must have, for scope `cluster`; absent: all nodes match."""


class TelemetrySource(CheckedModel):
    """Source of the power readings of one subsystem."""

    invariants = (
        _HTTP_GIVEN,
        Invariant(
            "!has(self.type) || self.type != 'prometheus' || has(self.prometheus)",
            "prometheus is required when type is prometheus",
            lambda source: source.type != "prometheus" or source.prometheus is not None,
        ),
    )

    type: SourceType = SourceType.HOST
    http: HttpEndpoint | None = None
    prometheus: PrometheusQuery | None = None


class TelemetrySources(Model):
    """Sources of readings by subsystem."""

    cpu: TelemetrySource | None = None
    gpu: TelemetrySource | None = None


class CpuControl(CheckedModel):
    """Backend of CPU controls."""

    invariants = (_HTTP_GIVEN,)

    type: ControlType = ControlType.HOST
    mode: CpuControlMode = CpuControlMode.AUTO
    http: HttpEndpoint | None = None


class GpuControl(CheckedModel):
    """Backend of GPU controls."""

    invariants = (_HTTP_GIVEN,)

    type: ControlType = ControlType.HOST
    mode: GpuControlMode = GpuControlMode.AUTO
    http: HttpEndpoint | None = None


class TelemetryControls(Model):
    """Controls by subsystem."""

    cpu: CpuControl | None = None
    gpu: GpuControl | None = None


class TelemetryProfileSpec(Model):
    """Sources of readings and backends of controls."""

    target: TelemetryTarget
    sources: TelemetrySources | None = None
    controls: TelemetryControls | None = None


class ControlPlace(Model):
    """Backend that controls of one subsystem go to or went to, and what may be in force there."""

    type: ControlType
    """Kind of the backend."""
    http: HttpEndpoint | None = None
    """Endpoint; only for type `http`."""
    cap: Held = Held.NO
    """Whether a cap is in force."""
    throttle: Held = Held.NO
    """Whether a throttle is in force; CPUs only."""


class ControlReport(Model):
    """Result of the last control action of one subsystem."""

    backend: Name = ""
    """Backend that acted: `rapl`, `hsmp`, `dvfs`, `nvml` or `amdsmi`; prefixed `http-` behind an HTTP backend."""
    result: ControlResult = ControlResult.NONE
    reason: Name = ""
    """Reason of the result, in CamelCase; docs/hardware.md lists them."""
    message: Annotated[Text, BeforeValidator(cut_text(1024))] = ""
    """Details for people."""
    requested_watts: Watts | None = None
    """Requested cap, per CPU package or per GPU."""
    cap_source: Name = ""
    """Origin of the requested cap where a power budget caps the subsystem too: `profile` or `budget`, the lower of the
    two; empty where no budget does."""
    enforced_watts: Watts | None = None
    """Limit that was read back, per CPU package or per GPU."""
    throttle_pct: Annotated[float, Field(ge=0, le=100)] | None = None
    """Throttle in force, CPUs only; absent if unknown. A restarted agent continues from it."""
    places: Annotated[tuple[ControlPlace, ...], Field(max_length=MOST_PLACES)] = ()
    """Backends where a cap or throttle may be in force: the current one first, then earlier ones that have not
    restored their limits. A restarted agent restores those."""
    updated_at: Timestamp | None = None
    """Time of the last change."""


class ControlReports(Model):
    """Reports by subsystem."""

    cpu: ControlReport | None = None
    gpu: ControlReport | None = None


class PowerReading(Model):
    """The agent's reading of the node's power; absent fields were not measured."""

    cpu_watts: Watts | None = None
    """Power of all CPU packages."""
    gpu_watts: Watts | None = None
    """Power of all GPUs."""
    updated_at: Timestamp | None = None
    """Time of the reading."""


class TelemetryProfileStatus(Model):
    """Report of the agent about the node of the same name."""

    control: ControlReports | None = None
    power: PowerReading | None = None
    devices: Annotated[tuple[DeviceReport, ...], Field(max_length=MOST_REPORTED_DEVICES)] | None = None
    """Which pods hold which GPU, where the agent follows that (`agent.holders.enabled` of the chart)."""
    energy: EnergyReport | None = None
    """Energy by workload, where the agent adds it up (`agent.energyByPod.enabled` of the chart)."""


class TelemetryProfile(CustomResource):
    """Sources of readings and backends of controls, for one node or for all nodes that match a selector."""

    info: ClassVar[Kind] = Kind(
        kind="TelemetryProfile",
        plural="telemetryprofiles",
        short_name="tp",
        named_after_node=False,
        spec=TelemetryProfileSpec,
        status=TelemetryProfileStatus,
        columns=(
            Column("Scope", ".spec.target.scope"),
            Column("Node", ".spec.target.nodeName"),
            Column("CPU-Backend", ".status.control.cpu.backend"),
            Column("CPU-Result", ".status.control.cpu.result"),
            Column("GPU-Backend", ".status.control.gpu.backend"),
            Column("GPU-Result", ".status.control.gpu.result"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    spec: TelemetryProfileSpec
    status: TelemetryProfileStatus = TelemetryProfileStatus()
