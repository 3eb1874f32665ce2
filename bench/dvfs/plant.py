"""The plant of the DVFS loop: the simulator's power law, a load with steps, and readings with noise.

Power follows the throttle without delay, as a frequency limit does within milliseconds; only the loop is slow. A
reading is the mean since the last one, as from an energy counter, with noise of the load.
"""

import random
from dataclasses import dataclass

from joulie_core.control.dvfs import DvfsSettings, DvfsState, Plant, careful_throttle_pct, step
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.power_curve import PowerCurve
from joulie_core.power.draw import draw_under

PACKAGES = 2
#: Power is constant over this time; energy is the sum.
TICK_S = 0.1
#: Standard deviation of the load, in shares of full load, drawn anew each second.
LOAD_NOISE = 0.02


@dataclass(frozen=True)
class Stage:
    """From `at_s` on, this load and this cap per package."""

    at_s: float
    load: float
    cap_watts: float


@dataclass(frozen=True)
class Case:
    """A run: its stages and end."""

    name: str
    stages: tuple[Stage, ...]
    end_s: float


@dataclass(frozen=True)
class Controller:
    """Configuration of the loop."""

    name: str
    period_s: float
    settings: DvfsSettings


@dataclass
class Trace:
    """Course of a run, one entry per `TICK_S`."""

    seconds: list[float]
    watts: list[float]
    caps: list[float]
    throttles: list[float]
    actions: int = 0


def cpu() -> tuple[PowerCurve, float]:
    """Power curve and maximum of a package that RAPL cannot cap: an AMD EPYC 7763."""
    match = Inventory.load().find_cpu("AMD EPYC 7763 64-Core Processor")
    assert match is not None
    return match.spec.curve, float(match.spec.max_watts)


def simulate(case: Case, controller: Controller, seed: int) -> Trace:
    """Run the loop on the node; the phase of its samples against the steps is random."""
    curve, max_watts = cpu()
    dice = random.Random(seed)
    trace = Trace([], [], [], [])
    state = DvfsState()
    sample_at, last_at, joules = dice.uniform(0, controller.period_s), 0.0, 0.0
    noise, noise_until = 0.0, 0.0
    for index in range(round(case.end_s / TICK_S)):
        now = index * TICK_S
        stage = next(each for each in reversed(case.stages) if each.at_s <= now)
        if now >= noise_until:
            noise, noise_until = dice.gauss(0, LOAD_NOISE), now + 1.0
        if now >= sample_at and now > last_at:
            plant = Plant(PACKAGES * max_watts, careful_throttle_pct(stage.cap_watts, max_watts))
            state, action = step(
                state,
                cap_watts=PACKAGES * stage.cap_watts,
                observed_watts=joules / (now - last_at),
                now=now,
                settings=controller.settings,
                plant=plant,
            )
            trace.actions += action is not None
            sample_at, last_at, joules = sample_at + controller.period_s, now, 0.0
        load = min(1.0, max(0.0, stage.load + noise))
        share = state.throttle_pct / 100
        natural_watts, idle_watts = curve.watts(load, max_watts), curve.watts(0, max_watts)
        draw = draw_under(curve.response, natural_watts, idle_watts, cap_watts=None, throttled_share=share)
        watts = PACKAGES * draw.watts
        joules += watts * TICK_S
        trace.seconds.append(now)
        trace.watts.append(watts)
        trace.caps.append(PACKAGES * stage.cap_watts)
        trace.throttles.append(state.throttle_pct)
    return trace
