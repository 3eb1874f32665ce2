"""TelemetryProfile (`tp`): where readings come from and where controls go; its status is the agent's report.

Source: contracts, section 1.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from joulie_core.control_result import ControlResult
from joulie_core.kinds.base import CheckedModel, Column, CustomResource, Invariant, Kind, Model, Text, Timestamp, Watts

Endpoint = Annotated[str, Field(min_length=1, max_length=2048, pattern="^https?://")]
Name = Annotated[str, Field(max_length=253)]


class TargetScope(StrEnum):
    """Whether the profile speaks of one node or of all that a selector matches."""

    NODE = "node"
    CLUSTER = "cluster"


class SourceType(StrEnum):
    """Where power readings come from."""

    NONE = "none"
    HOST = "host"
    HTTP = "http"
    PROMETHEUS = "prometheus"


class ControlType(StrEnum):
    """Where power controls go."""

    NONE = "none"
    HOST = "host"
    HTTP = "http"


class CpuControlMode(StrEnum):
    """Which CPU controls may be used."""

    AUTO = "auto"
    RAPL = "rapl"
    DVFS = "dvfs"


class GpuControlMode(StrEnum):
    """Which GPU controls may be used."""

    AUTO = "auto"
    POWERCAP = "powercap"


class SecretRef(Model):
    """A Secret in the agent's namespace whose entries are sent as request headers."""

    name: Annotated[str, Field(min_length=1, max_length=253)]


class HttpEndpoint(Model):
    """An HTTP backend; `{node}` in the endpoint is replaced by the node's name."""

    endpoint: Endpoint
    timeout_seconds: Annotated[int, Field(ge=1, le=300)] = 5
    headers_secret_ref: SecretRef | None = None


class PrometheusQuery(Model):
    """A Prometheus query that answers watts; `{node}` in both fields is replaced by the node's name."""

    endpoint: Endpoint
    query: Annotated[str, Field(min_length=1, max_length=4096)]


_HTTP_GIVEN = Invariant(
    "!has(self.type) || self.type != 'http' || has(self.http)",
    "http is required when type is http",
    lambda part: part.type != "http" or part.http is not None,
)


class TelemetryTarget(CheckedModel):
    """Which nodes the profile applies to."""

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
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)] | None = None
    """Labels that a node must carry; without any, every node matches."""


class TelemetrySource(CheckedModel):
    """Where one kind of reading comes from."""

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
    """Where CPU controls go."""

    invariants = (_HTTP_GIVEN,)

    type: ControlType = ControlType.HOST
    mode: CpuControlMode = CpuControlMode.AUTO
    http: HttpEndpoint | None = None


class GpuControl(CheckedModel):
    """Where GPU controls go."""

    invariants = (_HTTP_GIVEN,)

    type: ControlType = ControlType.HOST
    mode: GpuControlMode = GpuControlMode.AUTO
    http: HttpEndpoint | None = None


class TelemetryControls(Model):
    """Controls by subsystem."""

    cpu: CpuControl | None = None
    gpu: GpuControl | None = None


class TelemetryProfileSpec(Model):
    """Routing of readings and controls."""

    target: TelemetryTarget
    sources: TelemetrySources | None = None
    controls: TelemetryControls | None = None


class ControlReport(Model):
    """What became of the last control action of one subsystem."""

    backend: Name = ""
    """The backend that acted: rapl, dvfs, nvml, amdsmi or none; an HTTP backend is prefixed `http-`."""
    result: ControlResult = ControlResult.NONE
    reason: Name = ""
    message: Text = ""
    requested_watts: Watts | None = None
    """Watts per CPU package, or per GPU."""
    enforced_watts: Watts | None = None
    """Watts that were read back, per CPU package or per GPU."""
    throttle_pct: Annotated[float, Field(ge=0, le=100)] | None = None
    """Throttle in force, CPU only; absent where it is not known. A restarted agent continues from it."""
    updated_at: Timestamp | None = None


class ControlReports(Model):
    """Reports by subsystem."""

    cpu: ControlReport | None = None
    gpu: ControlReport | None = None


class PowerReading(Model):
    """The agent's own reading of the node's power; an absent field was not measured and is never zero by default."""

    cpu_watts: Watts | None = None
    """All CPU packages together."""
    gpu_watts: Watts | None = None
    """All GPUs together."""
    updated_at: Timestamp | None = None


class TelemetryProfileStatus(Model):
    """The agent's report about the node of the same name."""

    control: ControlReports | None = None
    power: PowerReading | None = None


class TelemetryProfile(CustomResource):
    """Routing of telemetry and controls for one node or for all that a selector matches."""

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
