"""Limits on the graphics clocks of GPUs: combined, set, kept in force, and restored.

Clock limits have the guarantees of power limits: the original is in the journal before the first write, and a limit
that is no longer requested is restored. A GPU whose clocks are visibly controlled by an external writer is left
unmanaged. Why clocks are limited at all: docs/decisions/0008-gpu-clocks.md. A cap and the class of the holders may
limit one GPU, each under its own lease: the lower limit is in force, and the other one once the lower has ended
(docs/decisions/0054-class-limits-enforced.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from joulie_actuator import results
from joulie_actuator.hardware.gpu.driver import CLOCK_KEY_END, ClockKnob, GpuDriver, JournaledClock, clock_key
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob, WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import LeaseKind
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import GpuClassClocks
from joulie_core.control_result import ControlResult

DriversByUuid: TypeAlias = Mapping[str, GpuDriver]


@dataclass(slots=True)
class ClockClaims:
    """Highest clocks that are wanted, by lease and UUID, in MHz. In memory alone: no lease outlives its process."""

    _wanted: dict[LeaseKind, Mapping[str, int]] = field(default_factory=dict)
    #: GPUs whose last write for a lease has failed.
    _unsettled: dict[LeaseKind, frozenset[str]] = field(default_factory=dict)

    def replace(self, lease: LeaseKind, clocks_mhz: Mapping[str, int]) -> frozenset[str]:
        """Take what a lease wants now; return the GPUs that may have to be written for it.

        Where limits end and all others stay as they are, a pod may wait for it, and the others are not written again.
        """
        before = self.wanted(lease)
        self._wanted[lease] = dict(clocks_mhz)
        if clocks_mhz.items() < before.items():
            return self._unsettled.get(lease, frozenset()) | (before.keys() - clocks_mhz.keys())
        return self._unsettled.get(lease, frozenset()) | before.keys() | clocks_mhz.keys()

    def settle(self, lease: LeaseKind, failed: frozenset[str]) -> None:
        """Take which GPUs could not be written."""
        self._unsettled[lease] = failed

    def end(self, leases: frozenset[LeaseKind]) -> frozenset[str]:
        """Drop what all but these leases want; return the GPUs that may have to be written."""
        ended = self._wanted.keys() - leases
        named = frozenset(uuid for lease in ended for uuid in self.named(lease))
        for lease in ended:
            del self._wanted[lease]
        # What is not settled stays so: the next request of the lease has to tell what became of it.
        return named

    def wanted(self, lease: LeaseKind) -> Mapping[str, int]:
        """Return what a lease wants."""
        return self._wanted.get(lease, {})

    def named(self, lease: LeaseKind) -> frozenset[str]:
        """Return the GPUs that a lease wants limited, or that are not as it wants them yet."""
        return self._unsettled.get(lease, frozenset()) | self.wanted(lease).keys()

    @property
    def lowest(self) -> Mapping[str, int]:
        """Clocks that are to be in force, by UUID, in MHz."""
        lowest: dict[str, int] = {}
        for clocks_mhz in self._wanted.values():
            for uuid, mhz in clocks_mhz.items():
                lowest[uuid] = min(mhz, lowest.get(uuid, mhz))
        return lowest


@dataclass(frozen=True, slots=True)
class LimitedClocks:
    """Result of writing clocks."""

    #: By UUID: of each GPU that was to be limited.
    answers: Mapping[str, WrittenKnob | HardwareFailure]
    #: Of the GPUs that are not to be limited any more.
    restored: tuple[RestoredKnob, ...]
    message: str

    @property
    def failures(self) -> Mapping[str, HardwareFailure]:
        """Reasons why GPUs are not as wanted, by UUID."""
        failed = {uuid: each for uuid, each in self.answers.items() if isinstance(each, HardwareFailure)}
        return failed | {_uuid(knob.key): knob.failure for knob in self.restored if knob.failure is not None}


@dataclass(frozen=True, slots=True)
class _ClockCap:
    uuid: str
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
    """Restore every clock but those of the requested keys. A container may wait for that, which the journal may not."""
    keys = frozenset(key for key in writer.managed if key.endswith(CLOCK_KEY_END)) - requested
    return results.restore(writer, keys, managed_knobs(writer, drivers), record_later=True) if keys else ()


def limit(
    writer: JournaledWriter,
    drivers: DriversByUuid,
    clocks_mhz: Mapping[str, int],
    named: frozenset[str],
    absent: HardwareFailure,
) -> LimitedClocks:
    """Limit clocks, and restore those of all other GPUs.

    Args:
        writer: writes the knobs.
        drivers: of the GPUs.
        clocks_mhz: what is to be in force, by UUID.
        named: the GPUs of them that are written; the others stay as they are.
        absent: why a GPU has no driver.
    """
    restored = release(writer, drivers, frozenset(map(clock_key, clocks_mhz)))
    caps: list[_ClockCap] = []
    answers: dict[str, WrittenKnob | HardwareFailure] = {}
    for uuid in sorted(named & clocks_mhz.keys()):
        cap = _clock_cap(writer, drivers.get(uuid), uuid, clocks_mhz[uuid]) or absent
        if isinstance(cap, HardwareFailure):
            answers[uuid] = cap
        else:
            caps.append(cap)
    written = writer.set_all([(cap.knob, cap.clock_mhz) for cap in caps])
    pairs = [(cap, _reasserted(cap, answer)) for cap, answer in zip(caps, written, strict=True)]
    answers |= {cap.uuid: answer for cap, answer in pairs}
    message = results.join_messages([*_messages(pairs), *results.restore_messages(restored)])
    return LimitedClocks(answers, restored, message)


def outcome_of(done: LimitedClocks, wanted: Mapping[str, int], backend: str) -> ControlOutcome:
    """Return the outcome for the client that holds caps, which wants these clocks."""
    if done.failures:
        applied = any(isinstance(each, WrittenKnob) for each in done.answers.values())
        return results.failed(backend, list(done.failures.values()), some_applied=applied)
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=Reason.CLOCKS_LIMITED if wanted else Reason.RESTORED,
        backend=backend,
        message=done.message,
    )


def class_report_of(
    done: LimitedClocks, wanted: Mapping[str, int], named: frozenset[str], writer: JournaledWriter
) -> GpuClassClocks:
    """Return the report for the client that limits by class.

    Args:
        done: what was written.
        wanted: what it wants.
        named: the GPUs that it wants or has wanted limited.
        writer: has written it.
    """
    limited = {uuid for uuid in named if uuid in wanted or uuid in done.failures}
    return GpuClassClocks(
        limits_mhz={uuid: writer.written[clock_key(uuid)] for uuid in limited if clock_key(uuid) in writer.written},
        failures={uuid: failure for uuid, failure in done.failures.items() if uuid in named},
        message=done.message,
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
    return _ClockCap(uuid, knob, knob.limits.clamp(clock_mhz))


def _reasserted(cap: _ClockCap, answer: WrittenKnob | HardwareFailure) -> WrittenKnob | HardwareFailure:
    """Write again where the driver does not show whether the limit is still set; the journal has this value."""
    if isinstance(answer, HardwareFailure) or answer.changed or answer.external or not cap.knob.is_remembered:
        return answer
    again = cap.knob.write(cap.clock_mhz)
    return again if isinstance(again, HardwareFailure) else answer


def _messages(pairs: Sequence[tuple[_ClockCap, WrittenKnob | HardwareFailure]]) -> list[str]:
    messages = [f"{cap.knob.key} is {each.value} MHz" for cap, each in pairs if isinstance(each, WrittenKnob)]
    return messages + results.overwrite_messages((cap.knob.key, answer) for cap, answer in pairs)


def _uuid(key: str) -> str:
    """Return the GPU of the key of a clock limit."""
    return key.removeprefix("gpu/").removesuffix(CLOCK_KEY_END)
