"""Settings of Joulie in an arm of a comparison."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joulie_core.caps import CapSettings
from joulie_sim.engine.device_limits import ClassCapSettings, ClassLimitSettings
from joulie_sim.engine.node_scores import ScoreSettings
from joulie_sim.engine.stated_scores import StatedTimeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class JoulieSettings:
    """Settings of Joulie in an arm."""

    policy: str
    #: Settings of the policy by field name; the others have their defaults.
    policy_values: Mapping[str, Any] = field(default_factory=dict)
    caps: CapSettings = field(default_factory=CapSettings)
    #: The operator's PLAN_DEBOUNCE; 0 plans at every change of the demand.
    plan_debounce_s: float = 0.0
    #: None: the extender filters and does not score.
    score: ScoreSettings | None = field(default_factory=ScoreSettings)
    #: Weight of the extender in kube-scheduler's configuration.
    extender_weight: int = 1
    #: Limits of devices that standard pods hold; None: only nodes are capped.
    class_caps: ClassCapSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedJoulieSettings(JoulieSettings):
    """Settings with GPUs of standard pods limited by what these pods allow, in place of fixed shares.

    A class of its own, so that the text of other arms, by which stored results are recognised, stays the same.
    """

    class_limits: ClassLimitSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StatingJoulieSettings(JoulieSettings):
    """Settings with jobs that state how long they run; the score is `energy_v2`. A class of its own, as above."""

    stated: StatedTimeSettings = field(default_factory=StatedTimeSettings)
