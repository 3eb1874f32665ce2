"""Presets: settings of operator and extender that belong together, under one name.

The chart's values, the demo, `joulie-sim try` and the arms of the simulator's engine take them from this table. The
services do not know presets: a preset is variables of docs/settings.md, and a variable that a user sets outranks it.
docs/presets.md has what each saves, and who pays for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from joulie_core.policy import static_partition
from joulie_core.scoring import energy_v2

#: The score of the presets `score` and `sleep`.
_SCORE_POLICY: Final = energy_v2.NAME


class PresetName(StrEnum):
    """Names of the presets, in the order in which pages and tables show them."""

    SCORE = "score"
    SLEEP = "sleep"
    DOCUMENTS = "documents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Settings that belong together.

    Attributes:
        summary: half a sentence for tables and for the notes of the chart.
        operator: variables of the operator that differ from its defaults.
        extender: variables of the extender that differ from its defaults.
        sleeps: whether idle nodes are powered off, for which the cluster needs BMCs and a NodeSleepPolicy.
    """

    summary: str
    operator: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    extender: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sleeps: bool = False


_NO_ECO_NODES: Final = MappingProxyType({"POLICY_TYPE": static_partition.NAME, "STATIC_HP_FRAC": "1"})
_SCORE: Final = MappingProxyType({"SCORE_POLICY": _SCORE_POLICY})

PRESETS: Final[Mapping[PresetName, Preset]] = MappingProxyType(
    {
        PresetName.SCORE: Preset(
            summary="pods go where they cost the least energy; no node is eco and none is capped",
            operator=_NO_ECO_NODES,
            extender=_SCORE,
        ),
        PresetName.SLEEP: Preset(
            summary="as score, and idle nodes are powered off as NodeSleepPolicies permit",
            operator=_NO_ECO_NODES,
            extender=_SCORE,
            sleeps=True,
        ),
        PresetName.DOCUMENTS: Preset(
            summary="half of the nodes are eco and capped; pods go where the most power is left",
        ),
    }
)
#: The preset of the chart, and of what is run without naming one.
DEFAULT_PRESET: Final = PresetName.SCORE
