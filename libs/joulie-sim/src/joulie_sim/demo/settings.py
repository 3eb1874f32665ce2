"""Settings of Joulie's services in a demo, and the same for the discrete-event simulator."""

from dataclasses import replace
from typing import Final

from joulie_api.presets import PRESETS
from joulie_core.durations import format_duration
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SpareOf
from joulie_core.policy import queue_aware_v1, static_partition
from joulie_sim.demo.options import Options
from joulie_sim.demo.sleeping.settings import operator_sleep_env, simulated_sleep
from joulie_sim.engine.arm import Arm, SleepingArm
from joulie_sim.engine.arms import PRESET_ARMS

AGENT_SHARDS: Final = 2
#: Of the operator and the agents.
INTERVAL_S: Final = 5.0
#: Of the NodeSleepPolicy. The demo's pods choose no model, so that spare nodes may be of any family.
MIN_AWAKE: Final = MinAwakeSpec(spare_of=SpareOf.RESOURCES)
#: Of the operator; the discrete-event simulator gets the same.
_PLAN_DEBOUNCE_S: Final = 0.5
#: A quarter of the nodes without demand and one more for every three performance pods: changing demand then causes
#: transitions within minutes, where the defaults require hundreds of pods.
_QUEUE_SETTINGS: Final = {"queue_hp_base_frac": 0.25, "queue_perf_per_hp_node": 3}


def operator_env(options: Options) -> dict[str, str]:
    """Return the settings of the operator beside those of the preset: a short interval and the policy.

    The policy is always there: a release of the chart keeps the values of earlier demos.
    """
    preset_policy = PRESETS[options.preset].operator.get("POLICY_TYPE", static_partition.NAME)
    return {
        "POLICY_TYPE": options.policy or preset_policy,
        "RECONCILE_INTERVAL": format_duration(INTERVAL_S),
        "PLAN_DEBOUNCE": format_duration(_PLAN_DEBOUNCE_S),
        **{name.upper(): str(value) for name, value in _QUEUE_SETTINGS.items()},
        **(operator_sleep_env() if options.sleeps else {}),
    }


def agent_env() -> dict[str, str]:
    """Return the settings of the agents of simulated nodes: a short interval."""
    return {"RECONCILE_INTERVAL": format_duration(INTERVAL_S)}


def demo_arm(options: Options) -> Arm:
    """Return the arm of the discrete-event simulator that stands for the services and the servers of a demo."""
    arm, scale = PRESET_ARMS[options.preset], options.time_scale
    joulie = arm.joulie
    assert joulie is not None, "an arm of a preset is one with Joulie"
    settings = replace(joulie, plan_debounce_s=scale.simulated_s(_PLAN_DEBOUNCE_S))
    if options.policy is not None:
        values = _QUEUE_SETTINGS if options.policy == queue_aware_v1.NAME else {}
        settings = replace(settings, policy=options.policy, policy_values=values)
    arm = replace(arm, joulie=settings)
    return replace(arm, sleep=simulated_sleep(scale, MIN_AWAKE)) if isinstance(arm, SleepingArm) else arm
