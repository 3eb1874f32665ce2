"""Power intent of a node: which caps its profile asks for.

Percentages are the normal language, because they mean the same on every model; watts are published on request only.
Promises that a draining node keeps the caps of the performance level, that a node without GPUs gets no GPU stanza, and
that no watt value is published unless its `*_WRITE_ABSOLUTE_CAPS` is set. Whether a cap lies in the hardware's range
is not judged here: the agent clamps and says so (`joulie_core.caps_resolve`).

Source: operator document, "Power intent configuration knobs"; contracts, decisions 2, 3, 4 and 6.
"""

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from joulie_core.hardware.view import HardwareView
from joulie_core.kinds.base import Pct, PositiveWatts, Profile
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget


class GpuModelCaps(BaseModel):
    """Watts of one GPU model, per GPU, in one of two forms.

    `{"performanceWatts": 700, "ecoWatts": 400}` gives the watts of each profile; `{"maxCapWatts": 700, "minCapWatts":
    200}` gives the range that the GPU percentages are taken of: percent of the maximum, never below the minimum.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    performance_watts: PositiveWatts | None = None
    eco_watts: PositiveWatts | None = None
    max_cap_watts: PositiveWatts | None = None
    min_cap_watts: PositiveWatts | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        levels = (self.performance_watts, self.eco_watts)
        bounds = (self.max_cap_watts, self.min_cap_watts)
        by_level = None not in levels and bounds == (None, None)
        by_range = self.max_cap_watts is not None and levels == (None, None)
        if not by_level and not by_range:
            raise ValueError("give either performanceWatts and ecoWatts, or maxCapWatts and optionally minCapWatts")
        if self.max_cap_watts is not None and (self.min_cap_watts or 0) > self.max_cap_watts:
            raise ValueError("minCapWatts is above maxCapWatts")
        return self

    def watts(self, *, eco: bool, pct: float) -> float:
        """Return the cap of one GPU for the level, `pct` being that level's percentage."""
        if self.performance_watts is not None and self.eco_watts is not None:
            return self.eco_watts if eco else self.performance_watts
        return max((self.max_cap_watts or 0) * pct / 100, self.min_cap_watts or 0)


def _read_caps(value: object) -> object:
    # In its own validation, so that whoever reads the settings by field name still reads these by their JSON names.
    return GpuModelCaps.model_validate(value) if isinstance(value, dict) else value


def _fold(model: str) -> str:
    """Return a model name as it is compared: `NVIDIA-H100-80GB-HBM3` and `nvidia h100 80gb hbm3` are one."""
    return "".join(character for character in model.casefold() if character.isalnum())


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
    """CPU cap of an eco node with GPUs, percent; by default only the GPUs are slowed, which the CPUs have to feed."""
    cpu_write_absolute_caps: bool = False
    """Publish CPU caps in watts instead of percent; the eco cap of a node with GPUs stays a percentage."""
    gpu_performance_cap_pct_of_max: Pct = 100
    """GPU cap of a performance node, percent of each device's maximum."""
    gpu_eco_cap_pct_of_max: Pct = 60
    """GPU cap of an eco node, percent of each device's maximum."""
    gpu_write_absolute_caps: bool = False
    """Publish watts per GPU beside the percentage for the models in GPU_MODEL_CAPS_JSON."""
    gpu_model_caps_json: dict[str, Annotated[GpuModelCaps, BeforeValidator(_read_caps)]] = Field(default_factory=dict)
    """Watts by GPU model: {"MODEL": {"performanceWatts": W, "ecoWatts": W}} or {"MODEL": {"maxCapWatts": W,
    "minCapWatts": W}}; names are compared without case and punctuation."""

    @model_validator(mode="after")
    def _models_distinct(self) -> Self:
        if len({_fold(name) for name in self.gpu_model_caps_json}) < len(self.gpu_model_caps_json):
            raise ValueError(
                "GPU_MODEL_CAPS_JSON names a model twice (names are compared without case and punctuation)"
            )
        return self

    def gpu_caps_of(self, model: str) -> GpuModelCaps | None:
        """Return the watts configured for a GPU model, if any."""
        folded = _fold(model)
        return next((caps for name, caps in self.gpu_model_caps_json.items() if _fold(name) == folded), None)


@dataclass(frozen=True, slots=True)
class CapIntent:
    """Caps of one node; None means "leave alone"."""

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
    gpu = hardware.gpu if hardware is not None else None
    cpu_watts, cpu_pct = _cpu_caps(eco=eco, with_gpu=gpu is not None, settings=settings)
    if gpu is None:
        return CapIntent(cpu_watts=cpu_watts, cpu_pct=cpu_pct)
    gpu_pct = settings.gpu_eco_cap_pct_of_max if eco else settings.gpu_performance_cap_pct_of_max
    caps = settings.gpu_caps_of(gpu.model) if settings.gpu_write_absolute_caps else None
    gpu_watts = caps.watts(eco=eco, pct=gpu_pct) if caps is not None else None
    return CapIntent(cpu_watts=cpu_watts, cpu_pct=cpu_pct, gpu_watts=gpu_watts, gpu_pct=gpu_pct)


def _cpu_caps(*, eco: bool, with_gpu: bool, settings: CapSettings) -> tuple[float | None, float | None]:
    """Return watts and percentage, one of them None."""
    if eco and with_gpu:
        return None, settings.cpu_eco_cap_pct_of_max_gpu_nodes
    if settings.cpu_write_absolute_caps:
        return (settings.eco_cap_watts if eco else settings.performance_cap_watts), None
    return None, (settings.cpu_eco_cap_pct_of_max if eco else settings.cpu_performance_cap_pct_of_max)
