"""The time scale of a day, and the settings of its services. No I/O."""

from typing import Final

from joulie_core.durations import format_duration
from joulie_core.policy import static_partition
from joulie_core.scoring.energy_v1 import NAME as ENERGY_V1
from joulie_sim.demo.sleeping.settings import operator_sleep_env, out_of_band_env
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import StackConfig

DAY_S: Final = 86_400.0
#: Of the operator and the agents, in seconds of the clock.
_REPORT_INTERVAL_S: Final = 5.0
#: A score of energy with this weight beside kube-scheduler's own, which fill nodes: `energy_packing_sleep` of the
#: simulator's arms.
_SCORE_MAX: Final = 10


def day_scale(duration_s: float) -> TimeScale:
    """Return the scale of a day that takes so many seconds of the clock."""
    return TimeScale(DAY_S / duration_s)


def stack_config(scale: TimeScale) -> StackConfig:
    """Return the configuration of Joulie's services: all nodes supply performance, so that nothing but sleep saves."""
    interval = format_duration(_REPORT_INTERVAL_S)
    operator = {
        **operator_sleep_env(),
        "POLICY_TYPE": static_partition.NAME,
        "STATIC_HP_FRAC": "1",
        "RECONCILE_INTERVAL": interval,
        "PLAN_DEBOUNCE": "200ms",
    }
    return StackConfig(
        agent_shards=2,
        env={
            Service.OPERATOR: operator,
            Service.AGENT: {"RECONCILE_INTERVAL": interval},
            Service.EXTENDER: {"SCORE_POLICY": ENERGY_V1, "SCORE_MAX": str(_SCORE_MAX)},
            Service.SIM: {"SIM_SPEED": f"{scale.speed:g}"},
            Service.OUTOFBAND: out_of_band_env(),
        },
    )
