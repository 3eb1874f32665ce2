"""Settings of services, of a NodeSleepPolicy and of the discrete-event simulator where nodes sleep. No I/O."""

from typing import Any, Final

from joulie_core import labels
from joulie_core.durations import format_duration
from joulie_core.kinds.base import API_VERSION
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec
from joulie_core.sleep import SleepSettings
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.engine.node_sleep_settings import NodeSleepSettings

#: What a server takes to boot and to go off, and what it draws meanwhile: the assumptions of the simulator.
SERVERS: Final = NodeSleepSettings()
#: With 5 s a node that has booted kept the taint of an unreachable one for up to 12 minutes of a day in ten minutes.
NODE_MONITOR_S: Final = 0.5
#: Decisions about sleep, and readings of a BMC whose server changes, in seconds of the clock.
_DECISION_INTERVAL_S: Final = 0.25
_BMC_TRANSITION_INTERVAL_S: Final = 0.3
#: Readings of the other BMCs: forty of them, twice a second each, would be most of the machine's work.
_BMC_POLL_INTERVAL_S: Final = 10.0
#: From one step of a node to the next, in seconds of the clock: two decisions, of which the second sees the writes of
#: the first.
_STEP_S: Final = 2 * _DECISION_INTERVAL_S
#: One replica of each service: on a busy machine a renewal may be late, and there is none to take over.
_LEASE: Final = {"LEASE_DURATION": "1m", "LEASE_RENEW_DEADLINE": "40s"}


def operator_sleep_env() -> dict[str, str]:
    """Return the settings of an operator that lets nodes sleep."""
    return {**_LEASE, "SLEEP_ENABLED": "true", "SLEEP_INTERVAL": format_duration(_DECISION_INTERVAL_S)}


def out_of_band_env() -> dict[str, str]:
    """Return the settings of the out-of-band service."""
    return {
        **_LEASE,
        "BMC_POLL_INTERVAL": format_duration(_BMC_POLL_INTERVAL_S),
        "BMC_TRANSITION_INTERVAL": format_duration(_BMC_TRANSITION_INTERVAL_S),
    }


def sleep_policy(scale: TimeScale, min_awake: MinAwakeSpec) -> dict[str, Any]:
    """Return a NodeSleepPolicy for all managed nodes: the defaults, with its times by the scale, in mode Act."""
    plain = SleepSettings()
    spec = {
        "nodeSelector": {labels.MANAGED: "true"},
        "mode": "Act",
        "minAwake": min_awake.model_dump(mode="json", by_alias=True),
        "idleSeconds": scale.whole_clock_s(plain.idle_seconds),
        "minAwakeSeconds": scale.whole_clock_s(plain.min_awake_seconds),
        "drainTimeoutSeconds": scale.whole_clock_s(plain.drain_timeout_seconds),
        "backOffSeconds": scale.whole_clock_s(plain.back_off_seconds),
    }
    return {"apiVersion": API_VERSION, "kind": "NodeSleepPolicy", "metadata": {"name": "demo"}, "spec": spec}


def simulated_sleep(scale: TimeScale, min_awake: MinAwakeSpec) -> NodeSleepSettings:
    """Return the settings with which the discrete-event simulator decides what the policy does at this scale."""
    return NodeSleepSettings(decision=SleepSettings(min_awake=min_awake), interval_s=scale.simulated_s(_STEP_S))
