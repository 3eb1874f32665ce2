"""DVFS fallback: how far to throttle the CPUs of a node whose power cannot be capped directly.

Promises hysteresis (two margins), temporal damping (trip count, cooldown) and a throttle within 0 to 100 percent. A bad
reading changes nothing, so it can never make a node freer. It does not know how a throttle is carried out: the caller
performs the action and tells the machine with `with_throttle` what is really in force.

Source: agent document, section DVFS fallback control loop. Where it is silent: the first good sample seeds the average,
an action resets both counters, and a counter that trips inside the cooldown keeps its count and acts when it is over.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

MAX_THROTTLE_PCT = 100.0


@dataclass(frozen=True, slots=True)
class DvfsSettings:
    """Tunables of the control loop; the defaults are the document's."""

    #: Weight of the newest sample in the moving average, (0, 1].
    ema_alpha: float = 0.3
    #: Watts above the cap that are tolerated.
    high_margin_watts: float = 10.0
    #: Watts below the cap that must be free before the throttle is eased.
    low_margin_watts: float = 15.0
    #: Consecutive samples on one side that trigger an action.
    trip_count: int = 2
    #: Seconds between two actions.
    cooldown_s: float = 20.0
    #: Percentage points per action.
    step_pct: float = 10.0


class DvfsDirection(StrEnum):
    """What an action does; also the `action` label of `joulie_dvfs_actions_total`."""

    THROTTLE_UP = "throttle_up"
    THROTTLE_DOWN = "throttle_down"


@dataclass(frozen=True, slots=True)
class DvfsAction:
    """A throttle to put in force."""

    direction: DvfsDirection
    throttle_pct: float


@dataclass(frozen=True, slots=True)
class DvfsState:
    """Memory of the control loop of one node."""

    #: What is in force, 0 (free) to 100 (every policy throttled).
    throttle_pct: float = 0.0
    #: None until the first good sample.
    observed_watts: float | None = None
    ema_watts: float | None = None
    #: Consecutive samples above the upper threshold; positive only while `below_count` is zero.
    above_count: int = 0
    below_count: int = 0
    #: When the last action was taken, on the caller's clock.
    last_action_at: float | None = None


def step(
    state: DvfsState, *, cap_watts: float, observed_watts: float | None, now: float, settings: DvfsSettings
) -> tuple[DvfsState, DvfsAction | None]:
    """Take in one sample and answer the next state, with an action where one is due.

    Args:
        state: what the previous call returned.
        cap_watts: desired power, in the same scope as the observation (one package, or all of them).
        observed_watts: measured power; None, negative or not finite means that there is no usable reading.
        now: seconds on a monotonic clock.
        settings: the tunables.
    """
    if observed_watts is None or not math.isfinite(observed_watts) or observed_watts < 0:
        return state, None
    sampled = _take_sample(state, cap_watts, observed_watts, settings)
    direction = _due(sampled, now, settings)
    if direction is None:
        return sampled, None
    sign = 1.0 if direction is DvfsDirection.THROTTLE_UP else -1.0
    target = min(MAX_THROTTLE_PCT, max(0.0, sampled.throttle_pct + sign * settings.step_pct))
    if target == sampled.throttle_pct:  # already at the bound: nothing to do, and nothing to count as an action
        return sampled, None
    acted = replace(sampled, throttle_pct=target, above_count=0, below_count=0, last_action_at=now)
    return acted, DvfsAction(direction=direction, throttle_pct=target)


def with_throttle(state: DvfsState, throttle_pct: float) -> DvfsState:
    """Set the throttle that is really in force, as after a refused action or a restart; the cooldown stands."""
    return replace(state, throttle_pct=min(MAX_THROTTLE_PCT, max(0.0, throttle_pct)))


def throttle_for_pct(pct_of_max: float) -> float:
    """Return the throttle for a percentage intent that no range translates to watts.

    A cap at 60 percent of the maximum throttles the other 40 percent of the CPUs' frequency policies: without watts to
    steer by there is no loop, only this fixed answer.
    """
    return min(MAX_THROTTLE_PCT, max(0.0, MAX_THROTTLE_PCT - pct_of_max))


def _take_sample(state: DvfsState, cap_watts: float, observed_watts: float, settings: DvfsSettings) -> DvfsState:
    ema_watts = (
        observed_watts
        if state.ema_watts is None
        else settings.ema_alpha * observed_watts + (1.0 - settings.ema_alpha) * state.ema_watts
    )
    above = ema_watts > cap_watts + settings.high_margin_watts
    below = ema_watts < cap_watts - settings.low_margin_watts
    return replace(
        state,
        observed_watts=observed_watts,
        ema_watts=ema_watts,
        above_count=state.above_count + 1 if above else 0,
        below_count=state.below_count + 1 if below else 0,
    )


def _due(state: DvfsState, now: float, settings: DvfsSettings) -> DvfsDirection | None:
    if state.last_action_at is not None and now - state.last_action_at < settings.cooldown_s:
        return None
    if state.above_count >= settings.trip_count:
        return DvfsDirection.THROTTLE_UP
    if state.below_count >= settings.trip_count:
        return DvfsDirection.THROTTLE_DOWN
    return None
