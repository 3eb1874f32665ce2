"""GPU clock fallback: which highest graphics clock holds a GPU's power at a cap that its power limit does not hold.

Guarantees that nothing happens while the power is within the margins, that a bad reading changes nothing and so never
makes a GPU freer, and that a limit lies within the GPU's range. It does not know how a limit is carried out: the caller
does that, and passes to `refused` what was not. Reasons: docs/decisions/0008-gpu-clocks.md.
"""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ClockRange:
    """Graphics clocks of one GPU."""

    lowest_mhz: int
    highest_mhz: int


@dataclass(frozen=True, slots=True)
class GpuClockSettings:
    """Tunables of the loop."""

    #: Weight of the newest sample in the moving average, (0, 1]. A reading is an average over a second already.
    ema_alpha: float = 0.5
    #: Watts above the cap that are tolerated.
    high_margin_watts: float = 10.0
    #: Watts below the cap that must be free before the clock is raised.
    low_margin_watts: float = 15.0
    #: Consecutive samples on one side that trigger an action.
    trip_count: int = 2
    #: Seconds between two actions.
    cooldown_s: float = 5.0
    #: Shares of the clock that one action takes away at least and at most, and returns at most.
    least_step: float = 0.05
    most_down: float = 0.3
    most_up: float = 0.1
    #: Share of the highest clock that a limit never goes below.
    lowest_share: float = 0.3


@dataclass(frozen=True, slots=True)
class GpuClockState:
    """Memory of the loop of one GPU."""

    #: The limit in force; None is none.
    limit_mhz: int | None = None
    ema_watts: float | None = None
    #: Consecutive samples above the upper threshold; positive only while `below_count` is zero.
    above_count: int = 0
    below_count: int = 0
    #: When the last action was taken, on the caller's clock.
    last_action_at: float | None = None


def step(
    state: GpuClockState,
    *,
    cap_watts: float,
    observed_watts: float | None,
    clocks: ClockRange,
    now: float,
    settings: GpuClockSettings,
) -> GpuClockState:
    """Take in one sample and answer the next state, whose limit is the one to put in force.

    Args:
        state: what the previous call returned.
        cap_watts: desired power of this GPU.
        observed_watts: its power; None, negative or not finite means that there is no usable reading.
        clocks: its clocks.
        now: seconds on a monotonic clock.
        settings: the tunables.
    """
    if observed_watts is None or not math.isfinite(observed_watts) or observed_watts < 0:
        return state
    sampled = _take_sample(state, cap_watts, observed_watts, settings)
    assert sampled.ema_watts is not None
    if sampled.last_action_at is not None and now - sampled.last_action_at < settings.cooldown_s:
        return sampled
    if sampled.above_count >= settings.trip_count:
        limit_mhz: int | None = _lower(sampled, cap_watts / sampled.ema_watts, clocks, settings)
    elif sampled.below_count >= settings.trip_count and sampled.limit_mhz is not None:
        limit_mhz = _raise(sampled.limit_mhz, cap_watts, sampled.ema_watts, clocks, settings)
    else:
        return sampled
    if limit_mhz == sampled.limit_mhz:
        return sampled
    return replace(sampled, limit_mhz=limit_mhz, above_count=0, below_count=0, last_action_at=now)


def refused(before: GpuClockState, after: GpuClockState) -> GpuClockState:
    """Return the state after an action that was not carried out: it is due again at the next sample of its kind."""
    return replace(before, ema_watts=after.ema_watts)


def exceeds(state: GpuClockState, cap_watts: float, settings: GpuClockSettings) -> bool:
    """Whether readings show the power above the cap."""
    return state.ema_watts is not None and state.ema_watts > cap_watts + settings.high_margin_watts


def at_floor(state: GpuClockState, clocks: ClockRange, settings: GpuClockSettings) -> bool:
    """Whether the limit is as low as it may be."""
    return state.limit_mhz is not None and state.limit_mhz <= _floor_mhz(clocks, settings)


def _floor_mhz(clocks: ClockRange, settings: GpuClockSettings) -> int:
    return max(clocks.lowest_mhz, math.ceil(settings.lowest_share * clocks.highest_mhz))


def _take_sample(
    state: GpuClockState, cap_watts: float, observed_watts: float, settings: GpuClockSettings
) -> GpuClockState:
    before = observed_watts if state.ema_watts is None else state.ema_watts
    ema_watts = settings.ema_alpha * observed_watts + (1.0 - settings.ema_alpha) * before
    above = ema_watts > cap_watts + settings.high_margin_watts
    below = ema_watts < cap_watts - settings.low_margin_watts
    return replace(
        state,
        ema_watts=ema_watts,
        above_count=state.above_count + 1 if above else 0,
        below_count=state.below_count + 1 if below else 0,
    )


def _lower(state: GpuClockState, share: float, clocks: ClockRange, settings: GpuClockSettings) -> int:
    now_mhz = clocks.highest_mhz if state.limit_mhz is None else state.limit_mhz
    wanted_mhz = now_mhz * min(1.0 - settings.least_step, max(1.0 - settings.most_down, share))
    return min(now_mhz, max(_floor_mhz(clocks, settings), math.floor(wanted_mhz)))


def _raise(
    limit_mhz: int, cap_watts: float, ema_watts: float, clocks: ClockRange, settings: GpuClockSettings
) -> int | None:
    free = (cap_watts - ema_watts) / cap_watts
    wanted_mhz = math.ceil(limit_mhz * (1.0 + min(settings.most_up, 0.5 * free)))
    return None if wanted_mhz >= clocks.highest_mhz else wanted_mhz
