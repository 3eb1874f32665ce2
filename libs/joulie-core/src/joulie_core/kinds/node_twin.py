"""NodeTwin (`nt`): the operator's estimate of a node's power state, read by the extender."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from joulie_core.kinds.base import Column, CustomResource, Kind, Model, NodeNameField, Score, Timestamp, Watts

#: Power domains above a node, see `joulie_core.budget.tree.MOST_LEVELS`.
MOST_DOMAINS_ABOVE: Final = 32


class SchedulableClass(StrEnum):
    """Class of pods that the scheduler may place on the node."""

    PERFORMANCE = "performance"
    ECO = "eco"
    DRAINING = "draining"
    UNKNOWN = "unknown"


class MeasurementSource(StrEnum):
    """Source of the power measurement."""

    KEPLER = "kepler"
    PROMETHEUS = "prometheus"
    HTTP = "http"
    AGENT = "agent"
    UTILIZATION = "utilization"
    STATIC = "static"


class MeasurementQuality(StrEnum):
    """Origin of the power: measured or modelled."""

    MEASURED = "measured"
    MODELLED = "modelled"
    UNKNOWN = "unknown"


class ServerMeasurementSource(StrEnum):
    """Interface of the BMC that the power of the whole server was read by."""

    REDFISH = "redfish"
    DCMI = "dcmi"


class PowerMeasurement(Model):
    """Power of the node's CPUs and GPUs, or whatever the configured source measures, and what their caps allow."""

    source: MeasurementSource
    quality: MeasurementQuality
    measured_node_power_w: Watts | None = None
    """Measured or modelled power of the node; absent if unknown."""
    cpu_capped_power_w: Watts = 0
    """Power that the CPU caps allow."""
    gpu_capped_power_w: Watts = 0
    """Power that the GPU caps allow."""
    node_capped_power_w: Watts = 0
    """Power that the caps allow, CPUs and GPUs together."""
    cpu_tdp_w: Watts = 0
    """Maximum power of the CPUs."""
    gpu_tdp_w: Watts = 0
    """Maximum power of the GPUs."""
    node_tdp_w: Watts = 0
    """Maximum power of the node, CPUs and GPUs together."""
    power_trend_w_per_min: float = 0
    """Change of the measured power over the last five minutes."""


class ServerMeasurement(Model):
    """Power of the whole server as its BMC measures it, memory, disks, fans and losses of power supplies included.

    It does not compare with the caps, which are of CPUs and GPUs.
    """

    source: ServerMeasurementSource
    measured_server_power_w: Watts
    """Power of the whole server."""
    sampled_at: Timestamp
    """Time of the BMC's answer; the reading is up to an interval older."""
    interval_seconds: Annotated[float, Field(ge=0)] | None = None
    """Time after which the BMC has a new value; absent if unknown."""


class EffectiveCapState(Model):
    """Share of the maximum power that the published caps allow."""

    cpu_pct: Score = 100
    """Cap of the CPUs in percent of their maximum power."""
    gpu_pct: Score = 100
    """Cap of the GPUs in percent of their maximum power."""


class DomainSupply(Model):
    """Power that a power domain above the node can still supply to pods on the node."""

    domain: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the PowerDomain."""
    available_watts: Watts | None = None
    """Its limit less its reserve, above what its nodes want and the floors of those of a lower priority; 0 where these
    are more, absent if unknown."""


class NodeTwinSpec(Model):
    """The node that the twin describes."""

    node_name: NodeNameField


class NodeTwinStatus(Model):
    """Estimated power state of the node."""

    schedulable_class: SchedulableClass = SchedulableClass.UNKNOWN
    """Class of pods that the scheduler may place on the node."""
    predicted_power_headroom_score: Annotated[float, Field(le=100)] | None = None
    """Share of the capped power that is free, in percent; negative above the cap, absent if unknown."""
    predicted_cooling_stress_score: Score | None = None
    """Share of the cooling capacity in use, in percent; absent if unknown."""
    predicted_psu_stress_score: Score | None = None
    """Share of the rack's power supply in use, in percent; absent if unknown."""
    hardware_density_score: Annotated[float, Field(ge=0)] | None = None
    """Compute density relative to the reference node."""
    estimated_pue: Annotated[float, Field(ge=1)] | None = Field(default=None, alias="estimatedPUE")
    """Power usage effectiveness: watts of the facility per watt of IT."""
    effective_cap_state: EffectiveCapState | None = None
    power_measurement: PowerMeasurement | None = None
    server_measurement: ServerMeasurement | None = None
    """Power of the whole server; absent if unknown or older than three intervals."""
    power_domains: Annotated[tuple[DomainSupply, ...], Field(max_length=MOST_DOMAINS_ABOVE)] | None = None
    """The power domains above the node, the one that selects it first; absent where no limit of one is enforced."""
    last_updated: Timestamp | None = None
    """Time of the last update; the extender ignores the numbers of an old twin."""


class NodeTwin(CustomResource):
    """Estimate of one node's power state, written by the operator and read by the scheduler extender."""

    info: ClassVar[Kind] = Kind(
        kind="NodeTwin",
        plural="nodetwins",
        short_name="nt",
        spec=NodeTwinSpec,
        status=NodeTwinStatus,
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("Class", ".status.schedulableClass"),
            Column("Headroom", ".status.predictedPowerHeadroomScore", "number"),
            Column("Cooling", ".status.predictedCoolingStressScore", "number"),
            Column("PSU", ".status.predictedPsuStressScore", "number"),
            Column("Power", ".status.powerMeasurement.measuredNodePowerW", "number"),
            Column("Cap", ".status.powerMeasurement.nodeCappedPowerW", "number"),
            Column("Server", ".status.serverMeasurement.measuredServerPowerW", "number"),
            Column("Updated", ".status.lastUpdated", "date"),
        ),
    )

    spec: NodeTwinSpec
    status: NodeTwinStatus = NodeTwinStatus()
