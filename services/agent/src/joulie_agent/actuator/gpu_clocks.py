"""Limits on the graphics clocks of GPUs: put in force, kept in force, and restored.

Promises what power limits have: the original is in the journal before the first write, and what is not wanted any
longer is restored. A GPU whose clocks an external writer is seen to control is left alone. Why clocks are limited at
all: docs/decisions/0008-gpu-clocks.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from joulie_agent.actuator import verdicts
from joulie_agent.hardware.gpu.driver import CLOCK_KEY_END, ClockKnob, GpuDriver, HeldClock, clock_key
from joulie_agent.hardware.journaled_writer import JournaledWriter, RestoredKnob, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

Homes: TypeAlias = Mapping[str, GpuDriver]


@dataclass(frozen=True, slots=True)
class _Order:
    uuid: str
    driver: GpuDriver
    knob: ClockKnob
    clock_mhz: int


def clock_knob(hands: JournaledWriter, driver: GpuDriver, uuid: str) -> ClockKnob | HardwareFailure:
    """Return the knob for a GPU's highest graphics clock."""
    return driver.clock_limit(uuid, held_clock(hands, uuid))


def held_clock(hands: JournaledWriter | HardwareFailure, uuid: str) -> HeldClock | None:
    """Return what the journal says of a limit of ours on a GPU's clock; None where there is none."""
    key = clock_key(uuid)
    original = None if isinstance(hands, HardwareFailure) else hands.originals.get(key)
    if original is None or isinstance(hands, HardwareFailure):
        return None
    return HeldClock(original, hands.written.get(key, original))


def held_knobs(hands: JournaledWriter, homes: Homes) -> dict[str, Knob | HardwareFailure]:
    """Return the knobs of the clocks that hold, or may hold, a limit of ours."""
    return {
        clock_key(uuid): clock_knob(hands, driver, uuid)
        for uuid, driver in homes.items()
        if clock_key(uuid) in hands.held
    }


def release(hands: JournaledWriter, homes: Homes, wanted: frozenset[str] = frozenset()) -> tuple[RestoredKnob, ...]:
    """Restore every clock but those of the keys that are wanted."""
    keys = frozenset(key for key in hands.held if key.endswith(CLOCK_KEY_END)) - wanted
    return verdicts.give_back(hands, keys, held_knobs(hands, homes)) if keys else ()


def limit(
    hands: JournaledWriter, homes: Homes, clocks_mhz: Mapping[str, int], backend: str, absent: HardwareFailure
) -> ControlOutcome:
    """Limit the clocks of the GPUs that are named, and restore those of all others."""
    freed = release(hands, homes, frozenset(map(clock_key, clocks_mhz)))
    orders: list[_Order] = []
    refusals = [HardwareFailure(each.reason, each.message) for each in freed if each.reason is not None]
    for uuid, clock_mhz in clocks_mhz.items():
        order = _order(hands, homes.get(uuid), uuid, clock_mhz) or absent
        if isinstance(order, HardwareFailure):
            refusals.append(order)
        else:
            orders.append(order)
    answers = hands.set_all([(order.knob, order.clock_mhz) for order in orders])
    answers = [_kept(order, answer) for order, answer in zip(orders, answers, strict=True)]
    refusals += [answer for answer in answers if isinstance(answer, HardwareFailure)]
    if refusals:
        return verdicts.refused(backend, refusals, some_landed=any(isinstance(each, WrittenKnob) for each in answers))
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=Reason.CLOCKS_LIMITED if orders else Reason.RESTORED,
        backend=backend,
        message=verdicts.join([*_said(orders, answers), *verdicts.remarks(freed)]),
    )


def _order(
    hands: JournaledWriter, driver: GpuDriver | None, uuid: str, clock_mhz: int
) -> _Order | HardwareFailure | None:
    if driver is None:
        return None
    knob = clock_knob(hands, driver, uuid)
    if isinstance(knob, HardwareFailure):
        return knob
    if knob.key not in hands.held:
        taken = driver.check_clock_is_free(uuid)
        if taken is not None:
            return taken
    return _Order(uuid, driver, knob, knob.limits.clamp(clock_mhz))


def _kept(order: _Order, answer: WrittenKnob | HardwareFailure) -> WrittenKnob | HardwareFailure:
    """Write again where nobody can see whether the limit is still there; the journal knows this value."""
    if isinstance(answer, HardwareFailure) or answer.changed or answer.foreign or not order.knob.is_remembered:
        return answer
    again = order.knob.write(order.clock_mhz)
    return again if isinstance(again, HardwareFailure) else answer


def _said(orders: Sequence[_Order], answers: Sequence[WrittenKnob | HardwareFailure]) -> list[str]:
    pairs = list(zip(orders, answers, strict=True))
    said = [f"{order.knob.key} is {each.value} MHz" for order, each in pairs if isinstance(each, WrittenKnob)]
    return said + verdicts.overwrote((order.knob.key, answer) for order, answer in pairs)
