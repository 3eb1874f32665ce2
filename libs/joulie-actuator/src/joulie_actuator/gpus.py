"""The GPUs of this machine, of any vendor: cap, read, describe, restore.

GPUs are identified by UUID, and each has its own range. A driver of one vendor that is absent, lost or hung affects no
GPU of another vendor. Drivers are opened at the first request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from joulie_actuator import gpu_clocks, results
from joulie_actuator.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo, GpuDriver, clock_key, limit_key
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import DescribeGpu, LeaseKind, ReadGpu, SetGpuCaps, SetGpuClocks
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import GpuDescription, GpuPowerReading, GpuReadings, Reply, RestoreReport
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
        """Whether the cap is at or above the maximum of the range, and so limits nothing."""
        return self.requested_mw >= self.knob.limits.high


@dataclass(slots=True)
class GpuHandler:
    """Executes the requests for the GPUs. One caller at a time."""

    drivers: Sequence[GpuDriver]
    #: Or why nothing may be written.
    writer: JournaledWriter | HardwareFailure
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: What each driver has described, and why it does not answer now.
    _devices: dict[str, tuple[GpuDeviceInfo, ...]] = field(init=False, default_factory=dict)
    _failures: dict[str, HardwareFailure] = field(init=False, default_factory=dict)
    _drivers_by_uuid: dict[str, GpuDriver] = field(init=False, default_factory=dict)
    _discovered_at: float | None = field(init=False, default=None)
    _generations: list[int] = field(init=False, default_factory=list)
    _revision: int = field(init=False, default=0)

    def execute(self, request: GpuRequest) -> Reply:
        """Execute a request."""
        if self._is_stale():
            self._discover()
        match request:
            case SetGpuCaps(caps_mw=caps_mw, release_clocks=release):
                done = self._cap(caps_mw)
                return self._release_clocks(done) if release else done
            case SetGpuClocks(clocks_mhz=clocks_mhz):
                return self._limit_clocks(clocks_mhz)
            case ReadGpu(energy_only=energy_only):
                return self._read(self._counter if energy_only else self._reading)
            case DescribeGpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Restore knobs, by key. Opens no driver where there is nothing to restore."""
        if isinstance(self.writer, HardwareFailure) or not keys:
            return RestoreReport(knobs=())
        self._discover()
        silent = self._unanswered()
        knobs: dict[str, Knob | HardwareFailure] = {} if silent is None else dict.fromkeys(keys, silent)
        knobs |= {limit_key(uuid): driver.power_limit(uuid) for uuid, driver in self._drivers_by_uuid.items()}
        knobs |= gpu_clocks.managed_knobs(self.writer, self._drivers_by_uuid)
        return RestoreReport(knobs=results.restore(self.writer, keys, knobs))

    def keep(self, leases: frozenset[LeaseKind]) -> RestoreReport:
        """Restore nothing: one client alone holds GPUs, and what it held is restored by key."""
        assert LeaseKind.POWER in leases, "there is no other lease of GPUs"
        return RestoreReport(knobs=())

    def _is_stale(self) -> bool:
        if self._discovered_at is None or self.clock() - self._discovered_at > DISCOVERY_INTERVAL_S:
            return True
        # A driver that is being opened, or hangs, may answer at any moment.
        waiting = (*self._failures.values(), *(info.failure for info in self._all()))
        if any(failure is not None and failure.reason is Reason.TIMEOUT for failure in waiting):
            return True
        return self._generations != [driver.generation for driver in self.drivers]

    def _discover(self) -> None:
        """Describe the GPUs of every driver; those of a driver that does not answer stay as last described."""
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
        return _outcome(caps, answers, failures)

    @staticmethod
    def _unlimit(
        writer: JournaledWriter, caps: Sequence[_GpuCap]
    ) -> list[tuple[_GpuCap, WrittenKnob | HardwareFailure]]:
        """Restore the GPUs that the cap does not limit: their originals may be lower than the maximum of the range."""
        restored = {knob.key: knob for knob in writer.restore(cap.knob for cap in caps)}
        answers: list[tuple[_GpuCap, WrittenKnob | HardwareFailure]] = []
        for cap in caps:
            knob = restored.get(cap.knob.key)
            if knob is not None and knob.failure is not None:
                answers.append((cap, knob.failure))
                continue
            value = cap.knob.read()
            changed = knob is not None
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
        absent = self._unanswered() or HardwareFailure(Reason.NO_DEVICE, "a GPU whose clock is to be limited is absent")
        return gpu_clocks.limit(self.writer, self._drivers_by_uuid, clocks_mhz, backend, absent)

    def _release_clocks(self, done: ControlOutcome) -> ControlOutcome:
        """Restore clocks that an earlier controller limited; the executor tries again what cannot be restored now."""
        if isinstance(self.writer, HardwareFailure):
            return done
        messages = results.restore_messages(gpu_clocks.release(self.writer, self._drivers_by_uuid))
        return msgspec.structs.replace(done, message=results.join_messages([done.message, *messages]))

    def _knob(self, uuid: str) -> Knob | HardwareFailure:
        driver = self._drivers_by_uuid.get(uuid)
        if driver is not None:
            return driver.power_limit(uuid)
        return self._unanswered() or HardwareFailure(Reason.NO_DEVICE, f"no GPU {uuid}")

    def _unanswered(self) -> HardwareFailure | None:
        """Return why an unknown GPU may be present: a driver, or a device without a UUID, does not answer."""
        broken = [failure for failure in self._failures.values() if failure.reason is not Reason.NO_INTERFACE]
        broken += [info.failure for info in self._all() if not info.uuid and info.failure is not None]
        return broken[0] if broken else None

    def _read(self, read: Callable[[str], GpuPowerReading]) -> GpuReadings:
        return GpuReadings(
            revision=self._revision,
            gpus=tuple(read(info.uuid) for info in self._all() if info.uuid),
            failures=dict(self._failures),
            overwritten=dict(self.writer.overwritten) if isinstance(self.writer, JournaledWriter) else {},
        )

    def _counter(self, uuid: str) -> GpuPowerReading:
        found = self._drivers_by_uuid[uuid].energy_mj(uuid)
        failure = found if isinstance(found, HardwareFailure) else None
        return GpuPowerReading(uuid=uuid, energy_mj=_known(found), failure=failure)

    def _reading(self, uuid: str) -> GpuPowerReading:
        found = self._drivers_by_uuid[uuid].read(uuid, gpu_clocks.journaled_clock(self.writer, uuid))
        if isinstance(found, HardwareFailure):
            return GpuPowerReading(uuid=uuid, failure=found)
        return GpuPowerReading(
            uuid=uuid,
            power_mw=_known(found.power_mw),
            limit_mw=_known(found.limit_mw),
            clock_limit_mhz=_known(found.clock_limit_mhz),
            clock_bound=found.clock_bound,
            clock_mhz=found.clock_mhz,
            busy_pct=found.busy_pct,
            failure=next(
                (each for each in (found.power_mw, found.limit_mw) if isinstance(each, HardwareFailure)), None
            ),
        )

    def _with_own_clock(self, info: GpuDeviceInfo) -> GpuDeviceInfo:
        """Return the description with the GPU's own highest clock, where the driver reports a managed limit as such."""
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


def _outcome(
    caps: Sequence[_GpuCap],
    answers: Sequence[tuple[_GpuCap, WrittenKnob | HardwareFailure]],
    failures: Sequence[HardwareFailure],
) -> ControlOutcome:
    """Return the outcome of caps that were set one by one."""
    backend = next((cap.driver.name for cap in caps), NONE)
    written = [(cap, answer) for cap, answer in answers if isinstance(answer, WrittenKnob)]
    failures = [*failures, *(answer for _, answer in answers if isinstance(answer, HardwareFailure))]
    if failures:
        return results.failed(backend, failures, some_applied=bool(written))
    in_force_mw = [_in_force_mw(cap, answer) for cap, answer in written]
    highest, total = max(in_force_mw) / MW_PER_WATT, sum(in_force_mw) / MW_PER_WATT
    held = [(cap, answer) for cap, answer in written if _is_kept_higher(cap, answer)]
    if held:
        kept = [HardwareFailure(Reason.HELD_BY_FIRMWARE, _kept_higher_message(cap, answer)) for cap, answer in held]
        reason = Reason.HELD_BY_FIRMWARE
        return results.partly_applied(backend, reason, kept, enforced_watts=highest, total_watts=total)
    messages = results.overwrite_messages((cap.knob.key, answer) for cap, answer in answers if not cap.unlimited)
    bounded = [cap for cap in caps if not cap.unlimited]
    clamped = [cap for cap in bounded if cap.limit_mw != cap.requested_mw]
    messages += [f"{cap.knob.key} is limited to {cap.limit_mw / MW_PER_WATT:g} W by its range" for cap in clamped]
    messages += [f"no limit is set on {cap.knob.key}: {_cap_of(cap)}" for cap in caps if cap.unlimited]
    reason = Reason.CLAMPED if clamped else Reason.CAPPED
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=reason if bounded else Reason.RESTORED,
        backend=backend,
        message=results.join_messages(messages),
        enforced_watts=highest,
        total_watts=total,
    )


def _is_kept_higher(cap: _GpuCap, answer: WrittenKnob) -> bool:
    """Return whether the driver accepted the limit and keeps a higher one; AMD's keeps whole watts."""
    return not answer.external and _in_force_mw(cap, answer) >= cap.limit_mw + MW_PER_WATT


def _kept_higher_message(cap: _GpuCap, answer: WrittenKnob) -> str:
    kept, written = answer.value / MW_PER_WATT, cap.limit_mw / MW_PER_WATT
    return f"{cap.knob.key} reads {kept:g} W where {written:g} W was written"


def _cap_of(cap: _GpuCap) -> str:
    requested, maximum = cap.requested_mw / MW_PER_WATT, cap.knob.limits.high / MW_PER_WATT
    return f"{requested:g} W is not below the maximum of its range, {maximum:g} W"


def _in_force_mw(cap: _GpuCap, written: WrittenKnob) -> int:
    """Return the limit in force, which the hardware itself may have lowered below the one that was set."""
    enforced_mw = cap.driver.enforced_mw(cap.uuid)
    return written.value if isinstance(enforced_mw, HardwareFailure) else enforced_mw


def _known(value: int | HardwareFailure | None) -> int | None:
    return None if isinstance(value, HardwareFailure) else value


def _constant(info: GpuDeviceInfo) -> object:
    """Return the part of a description that changes only when the hardware does."""
    return replace(info, current_mw=None, enforced_mw=None, failure=None), info.failure and info.failure.reason
