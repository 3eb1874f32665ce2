"""The GPUs of this machine, of whatever vendor: cap, read, describe, give back.

Promises identity by UUID, each device's own range, and that one vendor's driver that is absent, lost or hung keeps
neither the other's GPUs nor anything else from being served. Drivers are opened when they are first asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from joulie_agent.actuator import gpu_clocks, results
from joulie_agent.actuator.protocol import (
    DescribeGpu,
    GpuDescription,
    GpuPowerReading,
    GpuReadings,
    ReadGpu,
    Reply,
    RestoreReport,
    SetGpuCaps,
    SetGpuClocks,
)
from joulie_agent.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo, GpuDriver, clock_key, limit_key
from joulie_agent.hardware.journaled_writer import JournaledWriter, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

GpuRequest: TypeAlias = SetGpuCaps | SetGpuClocks | ReadGpu | DescribeGpu
NONE: Final = "none"
DISCOVERY_INTERVAL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _GpuCap:
    uuid: str
    driver: GpuDriver
    knob: Knob
    requested_mw: int

    @property
    def limit_mw(self) -> int:
        return self.knob.limits.clamp(self.requested_mw)

    @property
    def unlimited(self) -> bool:
        """Not below the upper end of the range: no cap."""
        return self.requested_mw >= self.knob.limits.high


@dataclass(slots=True)
class GpuHandler:
    """Carries out what is asked of the GPUs. One caller at a time."""

    drivers: Sequence[GpuDriver]
    #: Or why nothing may be written.
    writer: JournaledWriter | HardwareFailure
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: What each driver has told, and why it does not tell now.
    _devices: dict[str, tuple[GpuDeviceInfo, ...]] = field(init=False, default_factory=dict)
    _failures: dict[str, HardwareFailure] = field(init=False, default_factory=dict)
    _drivers_by_uuid: dict[str, GpuDriver] = field(init=False, default_factory=dict)
    _discovered_at: float | None = field(init=False, default=None)
    _generations: list[int] = field(init=False, default_factory=list)
    _revision: int = field(init=False, default=0)

    def execute(self, request: GpuRequest) -> Reply:
        """Do what is asked."""
        if self._is_stale():
            self._discover()
        match request:
            case SetGpuCaps(caps_mw=caps_mw, release_clocks=release):
                done = self._cap(caps_mw)
                return self._release_clocks(done) if release else done
            case SetGpuClocks(clocks_mhz=clocks_mhz):
                return self._limit_clocks(clocks_mhz)
            case ReadGpu():
                return self._read()
            case DescribeGpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Give knobs back, by key. No driver is opened where there is nothing to give back."""
        if isinstance(self.writer, HardwareFailure) or not keys:
            return RestoreReport(knobs=())
        self._discover()
        silent = self._unanswered()
        knobs: dict[str, Knob | HardwareFailure] = {} if silent is None else dict.fromkeys(keys, silent)
        knobs |= {limit_key(uuid): driver.power_limit(uuid) for uuid, driver in self._drivers_by_uuid.items()}
        knobs |= gpu_clocks.managed_knobs(self.writer, self._drivers_by_uuid)
        return RestoreReport(knobs=results.restore(self.writer, keys, knobs))

    def _is_stale(self) -> bool:
        if self._discovered_at is None or self.clock() - self._discovered_at > DISCOVERY_INTERVAL_S:
            return True
        # What is being opened, or hangs, may answer at any moment.
        waiting = (*self._failures.values(), *(info.failure for info in self._all()))
        if any(failure is not None and failure.reason is Reason.TIMEOUT for failure in waiting):
            return True
        return self._generations != [driver.generation for driver in self.drivers]

    def _discover(self) -> None:
        """Ask every driver what it has; one that does not answer has what it had."""
        before = [_constant(info) for info in self._all()]
        for driver in self.drivers:
            found = driver.devices()
            if isinstance(found, HardwareFailure):
                self._failures[driver.name] = found
                found = tuple(replace(info, failure=found) for info in self._devices.get(driver.name, ()))
            else:
                self._failures.pop(driver.name, None)
            self._devices[driver.name] = tuple(map(self._with_own_clock, found))
            self._drivers_by_uuid |= {info.uuid: driver for info in found if info.uuid}
        if self._discovered_at is None or before != [_constant(info) for info in self._all()]:
            self._revision += 1
        self._discovered_at = self.clock()
        self._generations = [driver.generation for driver in self.drivers]

    def _all(self) -> list[GpuDeviceInfo]:
        return [info for infos in self._devices.values() for info in infos]

    def _cap(self, caps_mw: dict[str, int]) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(NONE, [self.writer])
        failures: list[HardwareFailure] = []
        caps: list[_GpuCap] = []
        for uuid, cap_mw in caps_mw.items():
            knob = self._knob(uuid)
            if isinstance(knob, HardwareFailure):
                failures.append(knob)
            else:
                caps.append(_GpuCap(uuid, self._drivers_by_uuid[uuid], knob, cap_mw))
        bounded = [cap for cap in caps if not cap.unlimited]
        answers = list(zip(bounded, self.writer.set_all([(cap.knob, cap.limit_mw) for cap in bounded]), strict=True))
        answers += self._unlimit(self.writer, [cap for cap in caps if cap.unlimited])
        return _judged(caps, answers, failures)

    @staticmethod
    def _unlimit(
        writer: JournaledWriter, caps: Sequence[_GpuCap]
    ) -> list[tuple[_GpuCap, WrittenKnob | HardwareFailure]]:
        """Restore the GPUs that no limit is wanted of: what was found may be lower than the end of the range."""
        freed = {knob.key: knob for knob in writer.restore(cap.knob for cap in caps)}
        answers: list[tuple[_GpuCap, WrittenKnob | HardwareFailure]] = []
        for cap in caps:
            restored = freed.get(cap.knob.key)
            if restored is not None and restored.reason is not None:
                answers.append((cap, HardwareFailure(restored.reason, restored.message)))
                continue
            value = cap.knob.read()
            changed = restored is not None
            answers.append(
                (cap, value if isinstance(value, HardwareFailure) else WrittenKnob(value, changed, external=True))
            )
        return answers

    def _limit_clocks(self, clocks_mhz: dict[str, int]) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(NONE, [self.writer])
        backend = next(
            (
                self._drivers_by_uuid[uuid].name
                for uuid in (*clocks_mhz, *self._drivers_by_uuid)
                if uuid in self._drivers_by_uuid
            ),
            NONE,
        )
        absent = self._unanswered() or HardwareFailure(
            Reason.NO_DEVICE, "a GPU whose clock is to be limited is not there"
        )
        return gpu_clocks.limit(self.writer, self._drivers_by_uuid, clocks_mhz, backend, absent)

    def _release_clocks(self, done: ControlOutcome) -> ControlOutcome:
        """Restore clocks that an earlier controller limited; the executor tries again what cannot be restored now."""
        if isinstance(self.writer, HardwareFailure):
            return done
        said = results.restore_messages(gpu_clocks.release(self.writer, self._drivers_by_uuid))
        return msgspec.structs.replace(done, message=results.join_messages([done.message, *said]))

    def _knob(self, uuid: str) -> Knob | HardwareFailure:
        driver = self._drivers_by_uuid.get(uuid)
        if driver is not None:
            return driver.power_limit(uuid)
        return self._unanswered() or HardwareFailure(Reason.NO_DEVICE, f"no GPU {uuid}")

    def _unanswered(self) -> HardwareFailure | None:
        """Why a GPU that is not known may be there all the same: a driver, or a device without a name, is silent."""
        broken = [failure for failure in self._failures.values() if failure.reason is not Reason.NO_INTERFACE]
        broken += [info.failure for info in self._all() if not info.uuid and info.failure is not None]
        return broken[0] if broken else None

    def _read(self) -> GpuReadings:
        return GpuReadings(
            revision=self._revision,
            gpus=tuple(self._reading(info.uuid) for info in self._all() if info.uuid),
            failures=dict(self._failures),
            overwritten=dict(self.writer.overwritten) if isinstance(self.writer, JournaledWriter) else {},
        )

    def _reading(self, uuid: str) -> GpuPowerReading:
        found = self._drivers_by_uuid[uuid].read(uuid, gpu_clocks.journaled_clock(self.writer, uuid))
        if isinstance(found, HardwareFailure):
            return GpuPowerReading(uuid=uuid, failure=found)
        return GpuPowerReading(
            uuid=uuid,
            power_mw=_known(found.power_mw),
            limit_mw=_known(found.limit_mw),
            clock_limit_mhz=_known(found.clock_limit_mhz),
            failure=next(
                (each for each in (found.power_mw, found.limit_mw) if isinstance(each, HardwareFailure)), None
            ),
        )

    def _with_own_clock(self, info: GpuDeviceInfo) -> GpuDeviceInfo:
        """Tell a GPU's own highest clock where the driver tells a limit of ours."""
        original = {} if isinstance(self.writer, HardwareFailure) else self.writer.originals
        own_mhz = original.get(clock_key(info.uuid))
        if own_mhz is None or info.highest_mhz is None:
            return info
        return replace(info, highest_mhz=max(own_mhz, info.highest_mhz))

    def _describe(self) -> GpuDescription:
        return GpuDescription(
            revision=self._revision,
            devices=tuple(self._all()),
            failures=dict(self._failures),
            journal=self.writer if isinstance(self.writer, HardwareFailure) else self.writer.journal_failure,
        )


def _judged(
    caps: Sequence[_GpuCap],
    answers: Sequence[tuple[_GpuCap, WrittenKnob | HardwareFailure]],
    failures: Sequence[HardwareFailure],
) -> ControlOutcome:
    """Return the verdict on caps that were set one by one."""
    backend = next((cap.driver.name for cap in caps), NONE)
    written = [(cap, answer) for cap, answer in answers if isinstance(answer, WrittenKnob)]
    failures = [*failures, *(answer for _, answer in answers if isinstance(answer, HardwareFailure))]
    if failures:
        return results.failed(backend, failures, some_landed=bool(written))
    enforced_watts = max(_in_force_mw(cap, answer) for cap, answer in written) / MW_PER_WATT
    held = [(cap, answer) for cap, answer in written if _is_held_higher(cap, answer)]
    if held:
        kept = [HardwareFailure(Reason.HELD_BY_FIRMWARE, _held_at(cap, answer)) for cap, answer in held]
        return results.partly_applied(backend, Reason.HELD_BY_FIRMWARE, kept, enforced_watts=enforced_watts)
    said = results.overwrite_messages((cap.knob.key, answer) for cap, answer in answers if not cap.unlimited)
    bounded = [cap for cap in caps if not cap.unlimited]
    clamped = [cap for cap in bounded if cap.limit_mw != cap.requested_mw]
    said += [f"{cap.knob.key} is held at {cap.limit_mw / MW_PER_WATT:g} W by its range" for cap in clamped]
    said += [f"no limit is set on {cap.knob.key}: {_cap_of(cap)}" for cap in caps if cap.unlimited]
    reason = Reason.CLAMPED if clamped else Reason.CAPPED
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=reason if bounded else Reason.RESTORED,
        backend=backend,
        message=results.join_messages(said),
        enforced_watts=enforced_watts,
    )


def _is_held_higher(cap: _GpuCap, answer: WrittenKnob) -> bool:
    """Whether the driver took the limit and keeps a higher one; AMD's keeps whole watts."""
    return not answer.external and _in_force_mw(cap, answer) >= cap.limit_mw + MW_PER_WATT


def _held_at(cap: _GpuCap, answer: WrittenKnob) -> str:
    held, asked = answer.value / MW_PER_WATT, cap.limit_mw / MW_PER_WATT
    return f"{cap.knob.key} reads {held:g} W where {asked:g} W was written"


def _cap_of(cap: _GpuCap) -> str:
    asked, end = cap.requested_mw / MW_PER_WATT, cap.knob.limits.high / MW_PER_WATT
    return f"{asked:g} W is not below the end of its range, {end:g} W"


def _in_force_mw(cap: _GpuCap, written: WrittenKnob) -> int:
    """The limit that holds, which the hardware itself may have lowered below the one that was set."""
    enforced_mw = cap.driver.enforced_mw(cap.uuid)
    return written.value if isinstance(enforced_mw, HardwareFailure) else enforced_mw


def _known(value: int | HardwareFailure | None) -> int | None:
    return None if isinstance(value, HardwareFailure) else value


def _constant(info: GpuDeviceInfo) -> object:
    """What of a GPU changes only when the hardware does."""
    return replace(info, current_mw=None, enforced_mw=None, failure=None), info.failure and info.failure.reason
