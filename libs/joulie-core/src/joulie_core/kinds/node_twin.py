"""NodeTwin (`nt`): the operator's estimate of a node's power state, read by the extender.

Source: contracts, section 1.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from joulie_core.kinds.base import Column, CustomResource, Kind, Model, NodeNameField, Score, Timestamp, Watts


class SchedulableClass(StrEnum):
    """Supply that the node offers to the scheduler."""

    PERFORMANCE = "performance"
    ECO = "eco"
    DRAINING = "draining"
    UNKNOWN = "unknown"


class MeasurementSource(StrEnum):
    """Where the power measurement came from."""

    KEPLER = "kepler"
    PROMETHEUS = "prometheus"
    HTTP = "http"
    AGENT = "agent"
    UTILIZATION = "utilization"
    STATIC = "static"


class MeasurementQuality(StrEnum):
    """Whether the power was measured or modelled."""

    MEASURED = "measured"
    MODELLED = "modelled"
    UNKNOWN = "unknown"


class PowerMeasurement(Model):
    """Power of one node, in watts; `measured_node_power_w` is absent where nothing is known, never zero by default."""

    source: MeasurementSource
    quality: MeasurementQuality
    measured_node_power_w: Watts | None = None
    cpu_capped_power_w: Watts = 0
    gpu_capped_power_w: Watts = 0
    node_capped_power_w: Watts = 0
    cpu_tdp_w: Watts = 0
    gpu_tdp_w: Watts = 0
    node_tdp_w: Watts = 0
    power_trend_w_per_min: float = 0


class EffectiveCapState(Model):
    """Share of the maximum that the published caps allow, in percent."""

    cpu_pct: Score = 100
    gpu_pct: Score = 100


class NodeTwinSpec(Model):
    """Which node this is about."""

    node_name: NodeNameField


class NodeTwinStatus(Model):
    """The estimate."""

    schedulable_class: SchedulableClass = SchedulableClass.UNKNOWN
    predicted_power_headroom_score: Annotated[float, Field(le=100)] | None = None
    """Percent of the capped power that is free; negative above the cap."""
    predicted_cooling_stress_score: Score | None = None
    predicted_psu_stress_score: Score | None = None
    hardware_density_score: Annotated[float, Field(ge=0)] | None = None
    estimated_pue: Annotated[float, Field(ge=1)] | None = Field(default=None, alias="estimatedPUE")
    effective_cap_state: EffectiveCapState | None = None
    power_measurement: PowerMeasurement | None = None
    last_updated: Timestamp | None = None


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
            Column("Updated", ".status.lastUpdated", "date"),
        ),
    )

    spec: NodeTwinSpec
    status: NodeTwinStatus = NodeTwinStatus()
