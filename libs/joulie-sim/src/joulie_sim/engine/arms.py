"""Arms of a comparison: how pods are scheduled, and what Joulie does."""

from collections.abc import Mapping
from typing import Final

from joulie_api.presets import PRESETS, Preset, PresetName
from joulie_core.caps import CapSettings
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.waiting import DEFAULT_RULE
from joulie_core.policy import family_partition, queue_aware_v1, queue_lead_v1, static_partition
from joulie_core.policy.registry import POLICIES
from joulie_core.scoring import energy_v1, energy_v2
from joulie_core.scoring.registry import DEFAULT_SCORE
from joulie_sim.engine.arm import ALL_NODES, EVERY_NODE, Arm, SleepingArm
from joulie_sim.engine.budget_arms import BUDGET_ARMS
from joulie_sim.engine.device_limits import ClassCapSettings, ClassLimitSettings, LimitedBy
from joulie_sim.engine.joulie_settings import BoundedJoulieSettings, JoulieSettings
from joulie_sim.engine.kube_scores import FitStrategy
from joulie_sim.engine.node_scores import ScoreSettings
from joulie_sim.engine.packing_sleep_arms import PACKING_SLEEP_ARMS

_ENERGY: Final = ScoreSettings(policy=energy_v1.NAME)
_PACKING: Final = ScoreSettings(policy=energy_v2.NAME)
#: As many points as kube-scheduler's MostAllocated has: neither decides alone.
_ENERGY_AND_PACKING: Final = ScoreSettings(policy=energy_v1.NAME, score_max=10)


def _joulie(name: str, summary: str, settings: JoulieSettings) -> Arm:
    return Arm(name=name, summary=summary, nodes_to_score_pct=ALL_NODES, joulie=settings)


def _class_caps(gpu_pct: float, cpu_pct: float, score: ScoreSettings | None = _ENERGY) -> JoulieSettings:
    """Return settings without eco nodes, which limit the devices of standard pods."""
    return JoulieSettings(
        policy=static_partition.NAME,
        policy_values=EVERY_NODE,
        score=score,
        class_caps=ClassCapSettings(float(gpu_pct), float(cpu_pct)),
    )


def _class_limits(allowed: AllowedSlowdown, limited_by: LimitedBy, *, queue: bool) -> Arm:
    """Return an arm without eco nodes, which limits the GPUs of standard pods by what they allow."""
    lifted = "; limits are lifted while performance pods wait for GPUs, or few are free" if queue else ""
    return _joulie(
        f"class_limits_{allowed.pct}{'_power' * (limited_by is LimitedBy.POWER)}{'_queue' * queue}",
        f"no eco nodes; {limited_by} of GPUs of standard pods limited to run {allowed.pct} % longer{lifted}; energy_v1",
        BoundedJoulieSettings(
            policy=static_partition.NAME,
            policy_values=EVERY_NODE,
            score=_ENERGY,
            class_limits=ClassLimitSettings(allowed, limited_by, DEFAULT_RULE if queue else None),
        ),
    )


_ARMS: Final = (
    Arm(name="kube_default", summary="kube-scheduler alone: LeastAllocated and BalancedAllocation"),
    Arm(
        name="most_allocated",
        summary="kube-scheduler alone: MostAllocated and BalancedAllocation",
        strategy=FitStrategy.MOST_ALLOCATED,
    ),
    _joulie(
        "joulie_scoring",
        "the extender's scores by headroom_v1, no node ever capped",
        JoulieSettings(policy=static_partition.NAME, policy_values=EVERY_NODE),
    ),
    _joulie(
        "energy_scoring",
        "the extender's scores by energy_v1, no node ever capped",
        JoulieSettings(policy=static_partition.NAME, policy_values=EVERY_NODE, score=_ENERGY),
    ),
    _joulie(
        static_partition.NAME,
        "Joulie as it ships: half of the nodes eco",
        JoulieSettings(policy=static_partition.NAME),
    ),
    _joulie(
        "static_energy",
        "half of the nodes eco, energy_v1",
        JoulieSettings(policy=static_partition.NAME, score=_ENERGY),
    ),
    _joulie(
        "static_knee",
        "half of the nodes eco with caps at the knee of each device model, energy_v1",
        JoulieSettings(policy=static_partition.NAME, score=_ENERGY, caps=CapSettings(eco_caps_at_knee=True)),
    ),
    _joulie(
        "family_energy",
        "half of the nodes of each hardware family eco, energy_v1",
        JoulieSettings(policy=family_partition.NAME, score=_ENERGY),
    ),
    _joulie(
        queue_aware_v1.NAME,
        "Joulie with the policy that follows the number of performance pods",
        JoulieSettings(policy=queue_aware_v1.NAME),
    ),
    _joulie(
        "queue_aware_energy",
        "the policy that follows the number of performance pods, energy_v1",
        JoulieSettings(policy=queue_aware_v1.NAME, score=_ENERGY),
    ),
    _joulie(
        "queue_lead_energy",
        "the policy that keeps a reserve ahead of demand, energy_v1",
        JoulieSettings(policy=queue_lead_v1.NAME, score=_ENERGY),
    ),
    _joulie(
        "class_caps_90",
        "no eco nodes; GPUs of standard pods at 0.9 of natural power, their cores at 0.94 of the frequency; energy_v1",
        _class_caps(90, 94),
    ),
    _joulie(
        "class_caps_75",
        "no eco nodes; GPUs of standard pods at 0.75 of natural power, their cores at 0.9 of the frequency; energy_v1",
        _class_caps(75, 90),
    ),
    _joulie(
        "class_caps_70",
        "no eco nodes; GPUs of standard pods at 0.7 of natural power, 0.75 where that is not measured, "
        "their cores at 0.83 of the frequency; energy_v1",
        _class_caps(70, 83),
    ),
    _joulie(
        "class_caps_60",
        "no eco nodes; GPUs of standard pods at 0.6 of natural power, 0.75 where that is not measured, "
        "their cores at 0.8 of the frequency; energy_v1",
        _class_caps(60, 80),
    ),
    _joulie(
        "class_caps_gpu_85",
        "no eco nodes; GPUs of standard pods at 0.85 of natural power, no limit of cores; energy_v1",
        _class_caps(85, 100),
    ),
    _joulie(
        "class_caps_gpu_75",
        "no eco nodes; GPUs of standard pods at 0.75 of natural power, no limit of cores; energy_v1",
        _class_caps(75, 100),
    ),
    _joulie(
        "class_caps_gpu_60",
        "no eco nodes; GPUs of standard pods at 0.6 of natural power, 0.75 where that is not measured, "
        "no limit of cores; energy_v1",
        _class_caps(60, 100),
    ),
    _joulie(
        "class_caps_60_kube",
        "the limits of class_caps_60 under kube-scheduler's own scores",
        _class_caps(60, 80, score=None),
    ),
    *(
        _class_limits(allowed, limited_by, queue=queue)
        for limited_by, queue in ((LimitedBy.CLOCK, False), (LimitedBy.POWER, False), (LimitedBy.CLOCK, True))
        for allowed in (AllowedSlowdown.TENTH, AllowedSlowdown.QUARTER, AllowedSlowdown.HALF)
    ),
    SleepingArm(name="kube_sleep", summary="kube-scheduler's default scores; idle nodes sleep"),
    SleepingArm(
        name="packing_sleep",
        summary="kube-scheduler alone: MostAllocated and BalancedAllocation; idle nodes sleep",
        strategy=FitStrategy.MOST_ALLOCATED,
    ),
    SleepingArm(
        name="energy_sleep",
        summary="the extender's scores by energy_v1, no node ever capped; idle nodes sleep",
        nodes_to_score_pct=ALL_NODES,
        joulie=JoulieSettings(policy=static_partition.NAME, policy_values=EVERY_NODE, score=_ENERGY),
    ),
    SleepingArm(
        name="energy_packing_sleep",
        summary="energy_v1 with a SCORE_MAX of 10 beside MostAllocated; idle nodes sleep",
        strategy=FitStrategy.MOST_ALLOCATED,
        nodes_to_score_pct=ALL_NODES,
        joulie=JoulieSettings(policy=static_partition.NAME, policy_values=EVERY_NODE, score=_ENERGY_AND_PACKING),
    ),
    SleepingArm(
        name="energy_packing_sleep_caps",
        summary="energy_packing_sleep with the limits of class_caps_60",
        strategy=FitStrategy.MOST_ALLOCATED,
        nodes_to_score_pct=ALL_NODES,
        joulie=_class_caps(60, 80, score=_ENERGY_AND_PACKING),
    ),
    _joulie(
        "packing_score",
        "the extender's scores by energy_v2, no node ever capped",
        JoulieSettings(policy=static_partition.NAME, policy_values=EVERY_NODE, score=_PACKING),
    ),
    *PACKING_SLEEP_ARMS,
    *BUDGET_ARMS,
)
#: By name, in the order in which tables show them.
ARMS: Final[Mapping[str, Arm]] = {arm.name: arm for arm in _ARMS}


def _settings_of(preset: Preset) -> JoulieSettings:
    """Return the settings that the variables of a preset stand for.

    Raises:
        ValueError: a variable has no setting here, so that no arm can stand for the preset.
    """
    left = {**preset.operator, **preset.extender}
    policy = left.pop("POLICY_TYPE", static_partition.NAME)
    fields = [field for field in POLICIES[policy].settings.model_fields if field.upper() in left]
    values = {field: float(left.pop(field.upper())) for field in fields}
    score = ScoreSettings(
        policy=left.pop("SCORE_POLICY", DEFAULT_SCORE.name), score_max=int(left.pop("SCORE_MAX", "100"))
    )
    if left:
        raise ValueError(f"no setting of an arm for {', '.join(left)}")
    return JoulieSettings(policy=policy, policy_values=values, score=score)


def _arm_of(preset: Preset) -> Arm:
    settings = _settings_of(preset)
    make = SleepingArm if preset.sleeps else Arm
    return next(
        arm
        for arm in _ARMS
        if arm == make(name=arm.name, summary=arm.summary, nodes_to_score_pct=ALL_NODES, joulie=settings)
    )


#: The arm that stands for each preset: the one with its settings, and with the defaults of a NodeSleepPolicy.
PRESET_ARMS: Final[Mapping[PresetName, Arm]] = {name: _arm_of(preset) for name, preset in PRESETS.items()}
