"""Limits on the graphics clocks of GPUs: set, kept in force, and restored.

Clock limits have the guarantees of power limits: the original is in the journal before the first write, and a limit
that is no longer requested is restored. A GPU whose clocks are visibly controlled by an external writer is left
unmanaged. Why clocks are limited at all: docs/decisions/0008-gpu-clocks.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from joulie_actuator import results
from joulie_actuator.hardware.gpu.driver import CLOCK_KEY_END, ClockKnob, GpuDriver, JournaledClock, clock_key
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob, WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
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
    """Return the journal's record of a managed clock limit; None where there is none."""
    key = clock_key(uuid)
    original = None if isinstance(writer, HardwareFailure) else writer.originals.get(key)
    if original is None or isinstance(writer, HardwareFailure):
        return None
    return JournaledClock(original, writer.written.get(key, original))


def managed_knobs(writer: JournaledWriter, drivers: DriversByUuid) -> dict[str, Knob | HardwareFailure]:
    """Return the knobs of managed clock limits."""
    return {
        clock_key(uuid): clock_knob(writer, driver, uuid)
        for uuid, driver in drivers.items()
        if clock_key(uuid) in writer.managed
    }


def release(
    writer: JournaledWriter, drivers: DriversByUuid, requested: frozenset[str] = frozenset()
) -> tuple[RestoredKnob, ...]:
    """Restore every clock but those of the requested keys."""
    keys = frozenset(key for key in writer.managed if key.endswith(CLOCK_KEY_END)) - requested
    return results.restore(writer, keys, managed_knobs(writer, drivers)) if keys else ()


def limit(
    writer: JournaledWriter,
    drivers: DriversByUuid,
    clocks_mhz: Mapping[str, int],
    backend: str,
    absent: HardwareFailure,
) -> ControlOutcome:
    """Limit the clocks of the GPUs that are named, and restore those of all others."""
    restored = release(writer, drivers, frozenset(map(clock_key, clocks_mhz)))
    caps: list[_ClockCap] = []
    failures = [HardwareFailure(each.reason, each.message) for each in restored if each.reason is not None]
    for uuid, clock_mhz in clocks_mhz.items():
        cap = _clock_cap(writer, drivers.get(uuid), uuid, clock_mhz) or absent
        if isinstance(cap, HardwareFailure):
            failures.append(cap)
        else:
            caps.append(cap)
    answers = writer.set_all([(cap.knob, cap.clock_mhz) for cap in caps])
    answers = [_reasserted(cap, answer) for cap, answer in zip(caps, answers, strict=True)]
    failures += [answer for answer in answers if isinstance(answer, HardwareFailure)]
    if failures:
        return results.failed(backend, failures, some_applied=any(isinstance(each, WrittenKnob) for each in answers))
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=Reason.CLOCKS_LIMITED if caps else Reason.RESTORED,
        backend=backend,
        message=results.join_messages([*_messages(caps, answers), *results.restore_messages(restored)]),
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


def _reasserted(cap: _ClockCap, answer: WrittenKnob | HardwareFailure) -> WrittenKnob | HardwareFailure:
    """Write again where the driver does not show whether the limit is still set; the journal has this value."""
    if isinstance(answer, HardwareFailure) or answer.changed or answer.external or not cap.knob.is_remembered:
        return answer
    again = cap.knob.write(cap.clock_mhz)
    return again if isinstance(again, HardwareFailure) else answer


def _messages(caps: Sequence[_ClockCap], answers: Sequence[WrittenKnob | HardwareFailure]) -> list[str]:
    pairs = list(zip(caps, answers, strict=True))
    messages = [f"{cap.knob.key} is {each.value} MHz" for cap, each in pairs if isinstance(each, WrittenKnob)]
    return messages + results.overwrite_messages((cap.knob.key, answer) for cap, answer in pairs)
