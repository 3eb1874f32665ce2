"""The twin of one node: its power state as published for the scheduler.

Guarantees that every figure is finite and rounded to a tenth (so that noise writes nothing), and that what is not
known is absent. Source: docs/decisions/0013-conventions.md (NodeTwin).
"""

from dataclasses import dataclass, field
from functools import lru_cache

from joulie_core.caps import CapIntent
from joulie_core.control.caps_resolve import PctCap, WattCap, WattRange, resolve_cpu_cap, resolve_gpu_cap
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds.node_twin import (
    DomainSupply,
    EffectiveCapState,
    MeasurementQuality,
    MeasurementSource,
    NodeTwinStatus,
    PowerMeasurement,
    SchedulableClass,
    ServerMeasurement,
)
from joulie_core.transition import NodeState
from joulie_core.twin.pue import FacilityConditions, LinearPue, PueModel
from joulie_core.twin.stress import DEFAULT_RACK_CAPACITY_WATTS, cooling_stress, headroom_pct, psu_stress

_CLASSES = {
    NodeState.ACTIVE_PERFORMANCE: SchedulableClass.PERFORMANCE,
    NodeState.DRAINING_PERFORMANCE: SchedulableClass.DRAINING,
    NodeState.ACTIVE_ECO: SchedulableClass.ECO,
}


@dataclass(frozen=True, slots=True)
class PowerBudget:
    """Watts of a node: TDP and what the published caps leave of it; 0 for a subsystem that is absent or unknown."""

    cpu_tdp_watts: float = 0
    gpu_tdp_watts: float = 0
    cpu_share: float = 1
    gpu_share: float = 1

    @property
    def cpu_pct(self) -> float:
        """Percent of the CPUs' TDP that their caps leave, with one decimal, as a twin has it."""
        return round(self.cpu_share * 100, 1)

    @property
    def gpu_pct(self) -> float:
        """Percent of the GPUs' TDP that their caps leave, with one decimal, as a twin has it."""
        return round(self.gpu_share * 100, 1)

    @property
    def tdp_watts(self) -> float:
        """TDP of the node."""
        return self.cpu_tdp_watts + self.gpu_tdp_watts

    @property
    def cpu_capped_watts(self) -> float:
        """Watts that the CPUs may draw."""
        return self.cpu_tdp_watts * self.cpu_share

    @property
    def gpu_capped_watts(self) -> float:
        """Watts that the GPUs may draw."""
        return self.gpu_tdp_watts * self.gpu_share

    @property
    def capped_watts(self) -> float:
        """Watts that the node may draw."""
        return self.cpu_capped_watts + self.gpu_capped_watts


@dataclass(frozen=True, slots=True)
class Measurement:
    """Power of the node and its source; `watts` is None where it is unknown."""

    source: MeasurementSource
    quality: MeasurementQuality
    watts: float | None


@dataclass(frozen=True, slots=True)
class TwinInputs:
    """Everything that a twin is made of."""

    schedulable_class: SchedulableClass
    budget: PowerBudget
    measurement: Measurement
    #: Of the whole server, None where unknown. Shown, and used for nothing.
    server: ServerMeasurement | None = None
    density: float | None = None
    trend_w_per_min: float | None = None
    #: Intake air of the node's cooling zone or of the room; None where unknown.
    ambient_c: float | None = None
    #: Draw of the node's whole rack; None where the node has no rack label or the draw is unknown.
    rack_draw_watts: float | None = None
    rack_capacity_watts: float = DEFAULT_RACK_CAPACITY_WATTS
    pue: PueModel = field(default_factory=LinearPue)
    #: None where no limit of a power domain above the node is enforced.
    power_domains: tuple[DomainSupply, ...] | None = None


def schedulable_class(state: NodeState | None) -> SchedulableClass:
    """Return the schedulable class of a node in that state; None is a node that nothing was decided for yet."""
    return SchedulableClass.UNKNOWN if state is None else _CLASSES[state]


def budget_of(hardware: HardwareView | None, caps: CapIntent) -> PowerBudget:
    """Return the node's power budget under the published caps, clamped as the agent clamps them."""
    if hardware is None:
        return PowerBudget()
    cpu, gpu = hardware.cpu, hardware.gpu
    cpu_range = WattRange(cpu.max_watts_per_socket, cpu.min_watts_per_socket) if cpu is not None else WattRange()
    gpu_range = WattRange(gpu.max_watts, gpu.min_watts) if gpu is not None else WattRange()
    gpu_target = caps.gpu_target()
    return PowerBudget(
        cpu_tdp_watts=hardware.cpu_max_watts or 0,
        gpu_tdp_watts=hardware.gpu_max_watts or 0,
        cpu_share=_share(resolve_cpu_cap(caps.cpu_target(), cpu_range), cpu_range),
        gpu_share=_share(resolve_gpu_cap(gpu_target.power_cap if gpu_target else None, gpu_range), gpu_range),
    )


def build_twin(inputs: TwinInputs) -> NodeTwinStatus:
    """Return the twin's status, `lastUpdated` left to the writer."""
    budget, watts = inputs.budget, inputs.measurement.watts
    cooling = cooling_stress(watts, budget.tdp_watts, inputs.ambient_c)
    return NodeTwinStatus(
        schedulable_class=inputs.schedulable_class,
        predicted_power_headroom_score=_tenth(headroom_pct(budget.capped_watts, watts)),
        predicted_cooling_stress_score=_tenth(cooling),
        predicted_psu_stress_score=_tenth(psu_stress(inputs.rack_draw_watts, inputs.rack_capacity_watts)),
        hardware_density_score=_hundredth(inputs.density),
        estimated_pue=_hundredth(inputs.pue.estimate(FacilityConditions(cooling_stress=cooling))),
        effective_cap_state=_cap_state(budget),
        power_measurement=_power_measurement(inputs) if budget.tdp_watts > 0 else None,
        server_measurement=inputs.server,
        power_domains=inputs.power_domains,
    )


def _share(cap: WattCap | PctCap | None, limits: WattRange) -> float:
    """Return the share of the maximum that a resolved cap leaves; no cap leaves all."""
    if cap is None:
        return 1.0
    if isinstance(cap, WattCap):
        return min(1.0, cap.cap_watts / limits.max_watts) if limits.max_watts else 1.0
    return min(1.0, cap.pct_of_max / 100)


def _cap_state(budget: PowerBudget) -> EffectiveCapState:
    return _shared_cap_state(budget.cpu_pct, budget.gpu_pct)


@lru_cache(maxsize=256)
def _shared_cap_state(cpu_pct: float, gpu_pct: float) -> EffectiveCapState:
    """Return one object for equal caps: most nodes have the same, and it is compared with each measurement."""
    return EffectiveCapState(cpu_pct=cpu_pct, gpu_pct=gpu_pct)


def _power_measurement(inputs: TwinInputs) -> PowerMeasurement:
    budget, measurement = inputs.budget, inputs.measurement
    return PowerMeasurement(
        source=measurement.source,
        quality=measurement.quality,
        measured_node_power_w=_tenth(measurement.watts),
        cpu_capped_power_w=round(budget.cpu_capped_watts, 1),
        gpu_capped_power_w=round(budget.gpu_capped_watts, 1),
        node_capped_power_w=round(budget.capped_watts, 1),
        cpu_tdp_w=round(budget.cpu_tdp_watts, 1),
        gpu_tdp_w=round(budget.gpu_tdp_watts, 1),
        node_tdp_w=round(budget.tdp_watts, 1),
        power_trend_w_per_min=round(inputs.trend_w_per_min or 0, 1),
    )


def _tenth(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _hundredth(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
