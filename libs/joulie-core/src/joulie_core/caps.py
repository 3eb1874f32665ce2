"""Power intent of a node: the caps of its profile.

Percentages are the normal language, because they mean the same on every model; watts are published on request only.
Guarantees that a draining node keeps the caps of the performance level, that a node without GPUs gets no GPU stanza,
and that no watt value is published unless its `*_WRITE_ABSOLUTE_CAPS` is set. Whether a cap lies in the hardware's
range is not judged here: the agent clamps and reports it (`joulie_core.control.caps_resolve`).

Source: docs/decisions/0013-conventions.md (power intent).
"""

from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from joulie_core.gpu_model_caps import GpuModelCaps, caps_of, fold
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds.base import Pct, PositiveWatts, Profile
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget
from joulie_core.power.server import server_power


def _read_caps(value: object) -> object:
    # In its own validation, so that settings read by field name still take these by their JSON names.
    return GpuModelCaps.model_validate(value) if isinstance(value, dict) else value


class CapSettings(BaseModel):
    """Caps of the two profiles."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    performance_cap_watts: PositiveWatts = 5000
    """Watts per CPU package of a performance node in absolute mode; the default is above any package: unlimited."""
    eco_cap_watts: PositiveWatts = 120
    """Watts per CPU package of an eco node in absolute mode."""
    cpu_performance_cap_pct_of_max: Pct = 100
    """CPU cap of a performance node, percent of the package's maximum."""
    cpu_eco_cap_pct_of_max: Pct = 60
    """CPU cap of an eco node, percent of the package's maximum."""
    cpu_eco_cap_pct_of_max_gpu_nodes: Pct = 100
    """CPU cap of an eco node with GPUs, percent; by default only the GPUs are slowed, which the CPUs have to feed.
    Unset, it is at most the cap of a performance node."""
    cpu_write_absolute_caps: bool = False
    """Publish CPU caps in watts instead of percent; the eco cap of a node with GPUs stays a percentage."""
    gpu_performance_cap_pct_of_max: Pct = 100
    """GPU cap of a performance node, percent of each device's maximum."""
    gpu_eco_cap_pct_of_max: Pct = 60
    """GPU cap of an eco node, percent of each device's maximum."""
    eco_caps_at_knee: bool = False
    """Cap eco nodes where their device models do the most work per joule, instead of by the percentages: each GPU at
    the knee of its model, or at 75 percent of its natural power where that was not measured; the CPUs of a node without
    GPUs at the knee of the server at full load (docs/models.md)."""
    gpu_write_absolute_caps: bool = False
    """Publish watts per GPU beside the percentage for the models in GPU_MODEL_CAPS_JSON."""
    gpu_model_caps_json: dict[str, Annotated[GpuModelCaps, BeforeValidator(_read_caps)]] = Field(default_factory=dict)
    """Watts by GPU model: {"MODEL": {"performanceWatts": W, "ecoWatts": W}} or {"MODEL": {"maxCapWatts": W,
    "minCapWatts": W}}; any name of the model will do, as the driver, a product label or the inventory has it, compared
    without case and punctuation."""

    @model_validator(mode="after")
    def _models_distinct(self) -> Self:
        if len({fold(name) for name in self.gpu_model_caps_json}) < len(self.gpu_model_caps_json):
            raise ValueError(
                "GPU_MODEL_CAPS_JSON names a model twice (names are compared without case and punctuation)"
            )
        return self

    @model_validator(mode="after")
    def _eco_not_above_performance(self) -> Self:
        pairs = [(eco, performance) for eco, performance in _LEVELS if self._is_meant(eco)]
        wrong = [
            f"{eco.upper()} {getattr(self, eco):g} is above {performance.upper()} {getattr(self, performance):g}"
            for eco, performance in pairs
            if getattr(self, eco) > getattr(self, performance)
        ]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def _is_meant(self, eco: str) -> bool:
        """Return whether a cap is compared: the default of nodes with GPUs is "as the performance cap"."""
        return eco != _GPU_NODES or eco in self.model_fields_set


_PERCENT: Final = 100.0
_GIB: Final = 1024**3
_GPU_NODES: Final = "cpu_eco_cap_pct_of_max_gpu_nodes"
#: Cap of an eco node, and the cap of a performance node that it must not exceed.
_LEVELS: Final = (
    ("eco_cap_watts", "performance_cap_watts"),
    ("cpu_eco_cap_pct_of_max", "cpu_performance_cap_pct_of_max"),
    (_GPU_NODES, "cpu_performance_cap_pct_of_max"),
    ("gpu_eco_cap_pct_of_max", "gpu_performance_cap_pct_of_max"),
)


@dataclass(frozen=True, slots=True)
class CapIntent:
    """Caps of one node; None leaves it unmanaged."""

    #: Per package.
    cpu_watts: float | None = None
    cpu_pct: float | None = None
    #: Per GPU; wins over the percentage where both are given.
    gpu_watts: float | None = None
    gpu_pct: float | None = None

    def cpu_target(self) -> CpuTarget | None:
        """Return the CPU stanza of the NodePowerProfile."""
        if self.cpu_watts is None and self.cpu_pct is None:
            return None
        return CpuTarget(package_power_cap_watts=self.cpu_watts, package_power_cap_pct_of_max=self.cpu_pct)

    def gpu_target(self) -> GpuTarget | None:
        """Return the GPU stanza of the NodePowerProfile."""
        if self.gpu_watts is None and self.gpu_pct is None:
            return None
        return GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=self.gpu_watts, cap_pct_of_max=self.gpu_pct))


def intent_for(profile: Profile, *, draining: bool, hardware: HardwareView | None, settings: CapSettings) -> CapIntent:
    """Return the caps to publish.

    Args:
        profile: the published profile.
        draining: True while performance pods are still there: the caps stay at the performance level.
        hardware: what is known of the node; None counts as a node without GPUs.
        settings: the caps of both levels.

    """
    eco = profile is Profile.ECO and not draining
    if eco and settings.eco_caps_at_knee and hardware is not None:
        return _knee_caps(hardware, settings)
    gpu = hardware.gpu if hardware is not None else None
    cpu_watts, cpu_pct = _cpu_caps(eco=eco, with_gpu=gpu is not None, settings=settings)
    if gpu is None:
        return CapIntent(cpu_watts=cpu_watts, cpu_pct=cpu_pct)
    gpu_pct = settings.gpu_eco_cap_pct_of_max if eco else settings.gpu_performance_cap_pct_of_max
    caps = caps_of(settings.gpu_model_caps_json, gpu) if settings.gpu_write_absolute_caps else None
    gpu_watts = caps.watts(eco=eco, pct=gpu_pct) if caps is not None else None
    return CapIntent(cpu_watts=cpu_watts, cpu_pct=cpu_pct, gpu_watts=gpu_watts, gpu_pct=gpu_pct)


def _knee_caps(hardware: HardwareView, settings: CapSettings) -> CapIntent:
    """Return the caps of an eco node at the lowest useful caps, never above those of a performance node."""
    cpu, gpu = hardware.cpu, hardware.gpu
    most_pct = settings.cpu_performance_cap_pct_of_max
    if gpu is not None:
        gpu_pct = gpu.lowest_cap_watts / gpu.max_watts * _PERCENT
        return CapIntent(
            cpu_pct=min(settings.cpu_eco_cap_pct_of_max_gpu_nodes, most_pct),
            gpu_pct=min(gpu_pct, settings.gpu_performance_cap_pct_of_max),
        )
    if cpu is None:
        return CapIntent(cpu_pct=min(settings.cpu_eco_cap_pct_of_max, most_pct))
    server = server_power(cpu.spec, cpu.sockets, hardware.memory_bytes / _GIB or None)
    knee_watts = server.knee_at(1.0, cpu.spec.curve.response)
    return CapIntent(cpu_pct=min(knee_watts / hardware.cpu_max_watts * _PERCENT, most_pct))


def _cpu_caps(*, eco: bool, with_gpu: bool, settings: CapSettings) -> tuple[float | None, float | None]:
    """Return watts and percentage, one of them None."""
    if eco and with_gpu:
        return None, min(settings.cpu_eco_cap_pct_of_max_gpu_nodes, settings.cpu_performance_cap_pct_of_max)
    if settings.cpu_write_absolute_caps:
        return (settings.eco_cap_watts if eco else settings.performance_cap_watts), None
    return None, (settings.cpu_eco_cap_pct_of_max if eco else settings.cpu_performance_cap_pct_of_max)
