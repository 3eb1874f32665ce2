"""DVFS fallback: how far to throttle the CPUs of a node whose power cannot be capped directly.

Guarantees hysteresis (two margins), temporal damping (trip count, cooldown) and a throttle within 0 to 100 percent. A
missing reading never makes a node freer: the throttle is held, and after `blind_after_s` it is raised step by step to
a level that the caller calls careful. It does not know how a throttle is carried out: the caller performs the action
and reports to the machine with `with_throttle` what is really in force.

Source: docs/decisions/0007-dvfs.md. Where it is silent: the first good sample seeds the average,
an action resets both counters, and a counter that trips inside the cooldown keeps its count and acts when it is over.
A package never draws 0 W, so a zero is a missing reading. The size of a step is the document's in mode `stepped`; why
`proportional` is the default, and where its gain comes from, is in docs/decisions/0007-dvfs.md.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

MAX_THROTTLE_PCT = 100.0
_PCT = 100.0


class DvfsMode(StrEnum):
    """Size of the steps of the loop."""

    #: `step_pct`, whatever the distance from the cap.
    STEPPED = "stepped"
    #: The distance from the cap as a share of what a full throttle can take off.
    PROPORTIONAL = "proportional"


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
    #: Percentage points per action in mode stepped, where the range is not known, and without a reading.
    step_pct: float = 10.0
    mode: DvfsMode = DvfsMode.PROPORTIONAL
    #: Most percentage points per action in mode proportional.
    max_step_pct: float = 50.0
    #: Seconds without a reading after which the throttle is raised.
    blind_after_s: float = 180.0


class DvfsDirection(StrEnum):
    """Direction of an action; also the `action` label of `joulie_dvfs_actions_total`."""

    THROTTLE_UP = "throttle_up"
    THROTTLE_DOWN = "throttle_down"


class Holding(StrEnum):
    """State of the loop: whether it keeps the power at the cap."""

    #: The average is not above the upper threshold.
    WITHIN = "within"
    #: The average is above it, and the throttle can still be raised or has yet to show.
    ABOVE = "above"
    #: The average is above it at full throttle: the loop has nothing left.
    SATURATED = "saturated"
    #: There is no reading: unknown.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Plant:
    """Properties of what the loop steers, beside the cap. Watts in the same scope as the observation."""

    #: The most that a full throttle can take off; the maximum draw is a safe choice. None where it is not known.
    range_watts: float | None = None
    #: The throttle to go to when readings stay away for too long.
    careful_pct: float = MAX_THROTTLE_PCT


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
    #: When the first of the readings was missing that have been missing since; None while there are readings.
    blind_since: float | None = None


def step(
    state: DvfsState,
    *,
    cap_watts: float,
    observed_watts: float | None,
    now: float,
    settings: DvfsSettings,
    plant: Plant = Plant(),
) -> tuple[DvfsState, DvfsAction | None]:
    """Take in one sample and answer the next state, with an action where one is due.

    Args:
        state: what the previous call returned.
        cap_watts: desired power, in the same scope as the observation (one package, or all of them).
        observed_watts: measured power; None, not finite, zero or less means that there is no usable reading.
        now: seconds on a monotonic clock.
        settings: the tunables.
        plant: the node's response to throttling.
    """
    if observed_watts is None or not math.isfinite(observed_watts) or observed_watts <= 0:
        return _without_reading(state, now, settings, plant)
    sampled = _take_sample(_seeing(state, now, settings), cap_watts, observed_watts, settings)
    direction = _due(sampled, now, settings)
    if direction is None:
        return sampled, None
    size = _size_pct(sampled, direction, cap_watts, settings, plant)
    sign = 1.0 if direction is DvfsDirection.THROTTLE_UP else -1.0
    target = min(MAX_THROTTLE_PCT, max(0.0, sampled.throttle_pct + sign * size))
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


def judge(state: DvfsState, *, cap_watts: float, now: float, settings: DvfsSettings) -> Holding:
    """Return whether the power is kept at the cap, from what the last call of `step` left."""
    if state.ema_watts is None or state.blind_since is not None:
        return Holding.UNKNOWN
    if state.ema_watts <= cap_watts + settings.high_margin_watts:
        return Holding.WITHIN
    shown = state.above_count >= settings.trip_count and not _cooling(state, now, settings)
    return Holding.SATURATED if shown and state.throttle_pct >= MAX_THROTTLE_PCT else Holding.ABOVE


def blind_for_long(state: DvfsState, now: float, settings: DvfsSettings) -> bool:
    """Whether readings have been missing for so long that the throttle is raised without them."""
    return state.blind_since is not None and now - state.blind_since >= settings.blind_after_s


def careful_throttle_pct(cap_watts: float, range_watts: float | None) -> float:
    """Return the throttle for a cap that is to be kept without a reading: that of its share of the maximum draw."""
    return throttle_for_pct(_PCT * cap_watts / range_watts) if range_watts else MAX_THROTTLE_PCT


def _without_reading(
    state: DvfsState, now: float, settings: DvfsSettings, plant: Plant
) -> tuple[DvfsState, DvfsAction | None]:
    """Hold; after `blind_after_s` go towards the careful throttle, one step per cooldown."""
    blind = state if state.blind_since is not None else replace(state, blind_since=now)
    careful = min(MAX_THROTTLE_PCT, plant.careful_pct)
    if not blind_for_long(blind, now, settings) or _cooling(blind, now, settings) or blind.throttle_pct >= careful:
        return blind, None
    target = min(careful, blind.throttle_pct + settings.step_pct)
    acted = replace(blind, throttle_pct=target, above_count=0, below_count=0, last_action_at=now)
    return acted, DvfsAction(DvfsDirection.THROTTLE_UP, target)


def _seeing(state: DvfsState, now: float, settings: DvfsSettings) -> DvfsState:
    """Return the state at a good sample; an average from before a long gap is dropped."""
    if state.blind_since is None:
        return state
    if blind_for_long(state, now, settings):
        state = replace(state, ema_watts=None, above_count=0, below_count=0)
    return replace(state, blind_since=None)


def _size_pct(
    state: DvfsState, direction: DvfsDirection, cap_watts: float, settings: DvfsSettings, plant: Plant
) -> float:
    """Percentage points of a step.

    Where the power falls linearly with the throttle, a full throttle takes off at most `range_watts`; so a step of
    error / range corrects the error at most once and cannot overshoot the cap. The higher one of average and newest
    sample counts: the average lags behind a load that rises, and a falling one must not be trusted too soon.
    """
    if settings.mode is DvfsMode.STEPPED or not plant.range_watts:
        return settings.step_pct
    assert state.ema_watts is not None
    assert state.observed_watts is not None
    drawn = max(state.ema_watts, state.observed_watts)
    error = drawn - cap_watts if direction is DvfsDirection.THROTTLE_UP else cap_watts - drawn
    return min(settings.max_step_pct, max(0.0, _PCT * error / plant.range_watts))


def _cooling(state: DvfsState, now: float, settings: DvfsSettings) -> bool:
    return state.last_action_at is not None and now - state.last_action_at < settings.cooldown_s


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
    if _cooling(state, now, settings):
        return None
    if state.above_count >= settings.trip_count:
        return DvfsDirection.THROTTLE_UP
    if state.below_count >= settings.trip_count:
        return DvfsDirection.THROTTLE_DOWN
    return None
