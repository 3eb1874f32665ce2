"""Watts that are configured by GPU model, and which entry is meant for the GPUs of a node.

Guarantees that an entry is found by any name of the model: the driver's name, the product label of the node, the
inventory's name, any name that the inventory takes for the same model; in any letter case and with any punctuation. The
very name wins over a name that only means the same model, and that over a relative that the model stands for (`H100`
means the SXM module, as in the inventory). A key that the inventory does not know can still be a driver's own name;
`unknown_models` lists those.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from joulie_core.hardware.inventory import GpuSpec, Inventory, Match
from joulie_core.hardware.view import GpuView
from joulie_core.kinds.base import PositiveWatts
from joulie_core.kinds.node_hardware import Exactness

#: Known names that are listed beside an unknown one.
_SUGGESTIONS: Final = 5


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
        for low, low_watts, high, high_watts in (
            ("minCapWatts", self.min_cap_watts, "maxCapWatts", self.max_cap_watts),
            ("ecoWatts", self.eco_watts, "performanceWatts", self.performance_watts),
        ):
            if low_watts is not None and high_watts is not None and low_watts > high_watts:
                raise ValueError(f"{low} {low_watts:g} is above {high} {high_watts:g}")
        return self

    def watts(self, *, eco: bool, pct: float) -> float:
        """Return the cap of one GPU for the level, `pct` being that level's percentage."""
        if self.performance_watts is not None and self.eco_watts is not None:
            return self.eco_watts if eco else self.performance_watts
        return max((self.max_cap_watts or 0) * pct / 100, self.min_cap_watts or 0)


@dataclass(frozen=True, slots=True)
class UnknownModel:
    """A configured name that the inventory does not recognise."""

    name: str
    #: Names that the inventory knows, the closest first.
    known: tuple[str, ...]


def fold(model: str) -> str:
    """Return a model name as it is compared: `NVIDIA-H100-80GB-HBM3` and `nvidia h100 80gb hbm3` are one."""
    return "".join(character for character in model.casefold() if character.isalnum())


def caps_of(configured: Mapping[str, GpuModelCaps], gpu: GpuView) -> GpuModelCaps | None:
    """Return the watts that are configured for the GPUs of a node, if any."""
    named = _by_name(configured, (*gpu.names, gpu.model))
    return named or _by_spec(configured, gpu.spec)


def unknown_models(names: Iterable[str]) -> tuple[UnknownModel, ...]:
    """Return the configured names that stand for no model of the inventory."""
    return tuple(UnknownModel(name, _closest(name)) for name in names if _spec_of(name) is None)


def _by_name(configured: Mapping[str, GpuModelCaps], names: Collection[str]) -> GpuModelCaps | None:
    folded = {fold(name) for name in names if name}
    return next((caps for name, caps in configured.items() if fold(name) in folded), None)


def _by_spec(configured: Mapping[str, GpuModelCaps], spec: GpuSpec) -> GpuModelCaps | None:
    matches = ((_spec_of(name), caps) for name, caps in configured.items())
    meant = [(match.exactness, caps) for match, caps in matches if match is not None and match.spec.key == spec.key]
    found = sorted(meant, key=lambda each: each[0] is not Exactness.EXACT)
    return found[0][1] if found else None


@lru_cache(maxsize=1024)
def _spec_of(name: str) -> Match[GpuSpec] | None:
    match = Inventory.load().find_gpu(name)
    return None if match is None or match.exactness is Exactness.GENERIC else match


def _closest(name: str) -> tuple[str, ...]:
    known = {fold(spec.model): spec.model for spec in Inventory.load().gpus.values()}
    found = difflib.get_close_matches(fold(name), known, n=_SUGGESTIONS, cutoff=0.0)
    return tuple(known[each] for each in found)
