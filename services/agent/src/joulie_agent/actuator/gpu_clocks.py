"""Limits on the graphics clocks of GPUs: put in force, kept in force, and restored.

Promises what power limits have: the original is in the journal before the first write, and what is not wanted any
longer is restored. A GPU whose clocks an external writer is seen to control is left alone. Why clocks are limited at
all: docs/decisions/0008-gpu-clocks.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from joulie_agent.actuator import results
from joulie_agent.hardware.gpu.driver import CLOCK_KEY_END, ClockKnob, GpuDriver, JournaledClock, clock_key
from joulie_agent.hardware.journaled_writer import JournaledWriter, RestoredKnob, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

DriversByUuid: TypeAlias = Mapping[str, GpuDriver]


@dataclass(frozen=True, slots=True)
class _ClockCap:
    uuid: str
    driver: GpuDriver
    knob: ClockKnob
    clock_mhz: int


def clock_knob(writer: JournaledWriter, driver: GpuDriver, uuid: str) -> ClockKnob | HardwareFailure:
    """Return the knob for a GPU's highest graphics clock."""
    return driver.clock_limit(uuid, journaled_clock(writer, uuid))


def journaled_clock(writer: JournaledWriter | HardwareFailure, uuid: str) -> JournaledClock | None:
    """Return what the journal says of a limit of ours on a GPU's clock; None where there is none."""
    key = clock_key(uuid)
    original = None if isinstance(writer, HardwareFailure) else writer.originals.get(key)
    if original is None or isinstance(writer, HardwareFailure):
        return None
    return JournaledClock(original, writer.written.get(key, original))


def managed_knobs(writer: JournaledWriter, drivers: DriversByUuid) -> dict[str, Knob | HardwareFailure]:
    """Return the knobs of the clocks that hold, or may hold, a limit of ours."""
    return {
        clock_key(uuid): clock_knob(writer, driver, uuid)
        for uuid, driver in drivers.items()
        if clock_key(uuid) in writer.managed
    }


def release(
    writer: JournaledWriter, drivers: DriversByUuid, wanted: frozenset[str] = frozenset()
) -> tuple[RestoredKnob, ...]:
    """Restore every clock but those of the keys that are wanted."""
    keys = frozenset(key for key in writer.managed if key.endswith(CLOCK_KEY_END)) - wanted
    return results.restore(writer, keys, managed_knobs(writer, drivers)) if keys else ()


def limit(
    writer: JournaledWriter,
    drivers: DriversByUuid,
    clocks_mhz: Mapping[str, int],
    backend: str,
    absent: HardwareFailure,
) -> ControlOutcome:
    """Limit the clocks of the GPUs that are named, and restore those of all others."""
    freed = release(writer, drivers, frozenset(map(clock_key, clocks_mhz)))
    caps: list[_ClockCap] = []
    failures = [HardwareFailure(each.reason, each.message) for each in freed if each.reason is not None]
    for uuid, clock_mhz in clocks_mhz.items():
        cap = _clock_cap(writer, drivers.get(uuid), uuid, clock_mhz) or absent
        if isinstance(cap, HardwareFailure):
            failures.append(cap)
        else:
            caps.append(cap)
    answers = writer.set_all([(cap.knob, cap.clock_mhz) for cap in caps])
    answers = [_kept(cap, answer) for cap, answer in zip(caps, answers, strict=True)]
    failures += [answer for answer in answers if isinstance(answer, HardwareFailure)]
    if failures:
        return results.failed(backend, failures, some_landed=any(isinstance(each, WrittenKnob) for each in answers))
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=Reason.CLOCKS_LIMITED if caps else Reason.RESTORED,
        backend=backend,
        message=results.join_messages([*_said(caps, answers), *results.restore_messages(freed)]),
    )


def _clock_cap(
    writer: JournaledWriter, driver: GpuDriver | None, uuid: str, clock_mhz: int
) -> _ClockCap | HardwareFailure | None:
    if driver is None:
        return None
    knob = clock_knob(writer, driver, uuid)
    if isinstance(knob, HardwareFailure):
        return knob
    if knob.key not in writer.managed:
        taken = driver.check_clock_is_free(uuid)
        if taken is not None:
            return taken
    return _ClockCap(uuid, driver, knob, knob.limits.clamp(clock_mhz))


def _kept(cap: _ClockCap, answer: WrittenKnob | HardwareFailure) -> WrittenKnob | HardwareFailure:
    """Write again where nobody can see whether the limit is still there; the journal knows this value."""
    if isinstance(answer, HardwareFailure) or answer.changed or answer.external or not cap.knob.is_remembered:
        return answer
    again = cap.knob.write(cap.clock_mhz)
    return again if isinstance(again, HardwareFailure) else answer


def _said(caps: Sequence[_ClockCap], answers: Sequence[WrittenKnob | HardwareFailure]) -> list[str]:
    pairs = list(zip(caps, answers, strict=True))
    said = [f"{cap.knob.key} is {each.value} MHz" for cap, each in pairs if isinstance(each, WrittenKnob)]
    return said + results.overwrite_messages((cap.knob.key, answer) for cap, answer in pairs)
