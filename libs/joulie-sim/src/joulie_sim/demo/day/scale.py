"""The time scale of a day, and what of Joulie is set by it. No I/O.

Scaled: the work of pods and the energy (the simulator's speed), arrivals, the times of servers (boot, power-off), and
the times of the sleep policy. Not scaled: what programs take, such as scheduling, back-off of kube-scheduler, watches
and the passes of the services, and the deadlines after which a boot or a power-off has failed.
"""

from dataclasses import dataclass
from typing import Any, Final

from joulie_core import labels
from joulie_core.durations import format_duration
from joulie_core.kinds import NodeSleepPolicySpec
from joulie_core.kinds.base import API_VERSION
from joulie_core.policy import static_partition
from joulie_core.scoring.energy_v1 import NAME as ENERGY_V1
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import StackConfig

DAY_S: Final = 86_400.0
#: Of the operator and the agents, in seconds of the clock.
_REPORT_INTERVAL_S: Final = 5.0
#: Decisions about sleep, and readings of a BMC whose server changes, in seconds of the clock.
_DECISION_INTERVAL_S: Final = 0.25
_BMC_TRANSITION_INTERVAL_S: Final = 0.3
#: Readings of the other BMCs: forty of them, twice a second each, would be most of the machine's work.
_BMC_POLL_INTERVAL_S: Final = 10.0
#: A score of energy with this weight beside kube-scheduler's own, which fill nodes: `energy_packing_sleep` of the
#: simulator's arms.
_SCORE_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class DayScale:
    """A day that takes `duration_s` seconds of the clock."""

    duration_s: float

    @property
    def speed(self) -> float:
        """Seconds of the day per second of the clock."""
        return DAY_S / self.duration_s

    def clock_s(self, day_s: float) -> float:
        """Return seconds of the clock for seconds of the day."""
        return day_s / self.speed

    def day_s(self, clock_s: float) -> float:
        """Return seconds of the day for seconds of the clock."""
        return clock_s * self.speed

    def whole_clock_s(self, day_s: int) -> int:
        """Return whole seconds of the clock, at least one: fields of a policy have no smaller step."""
        return max(1, round(self.clock_s(day_s)))


def sleep_policy(scale: DayScale, *, spare: int) -> dict[str, Any]:
    """Return the NodeSleepPolicy of the day: the defaults, with its times by the scale, in mode Act."""
    plain = NodeSleepPolicySpec(node_selector={labels.MANAGED: "true"})
    spec = {
        "nodeSelector": dict(plain.node_selector),
        "mode": "Act",
        "minAwake": {"count": plain.min_awake.count, "spare": spare},
        "idleSeconds": scale.whole_clock_s(plain.idle_seconds),
        "minAwakeSeconds": scale.whole_clock_s(plain.min_awake_seconds),
        "drainTimeoutSeconds": scale.whole_clock_s(plain.drain_timeout_seconds),
        "backOffSeconds": scale.whole_clock_s(plain.back_off_seconds),
    }
    return {"apiVersion": API_VERSION, "kind": "NodeSleepPolicy", "metadata": {"name": "day"}, "spec": spec}


def stack_config(scale: DayScale) -> StackConfig:
    """Return the configuration of Joulie's services: all nodes supply performance, so that nothing but sleep saves."""
    interval = format_duration(_REPORT_INTERVAL_S)
    # One replica of each: on a busy machine a renewal may be late, and there is none to take over.
    lease = {"LEASE_DURATION": "1m", "LEASE_RENEW_DEADLINE": "40s"}
    operator = {
        **lease,
        "POLICY_TYPE": static_partition.NAME,
        "STATIC_HP_FRAC": "1",
        "RECONCILE_INTERVAL": interval,
        "PLAN_DEBOUNCE": "200ms",
        "SLEEP_ENABLED": "true",
        "SLEEP_INTERVAL": format_duration(_DECISION_INTERVAL_S),
    }
    out_of_band = {
        **lease,
        "BMC_POLL_INTERVAL": format_duration(_BMC_POLL_INTERVAL_S),
        "BMC_TRANSITION_INTERVAL": format_duration(_BMC_TRANSITION_INTERVAL_S),
    }
    return StackConfig(
        agent_shards=2,
        env={
            Service.OPERATOR: operator,
            Service.AGENT: {"RECONCILE_INTERVAL": interval},
            Service.EXTENDER: {"SCORE_POLICY": ENERGY_V1, "SCORE_MAX": str(_SCORE_MAX)},
            Service.SIM: {"SIM_SPEED": f"{scale.speed:g}"},
            Service.OUTOFBAND: out_of_band,
        },
    )
