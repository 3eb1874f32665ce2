"""The GPUs of this machine, of any vendor: cap, read, describe, restore.

GPUs are identified by UUID, and each has its own range. A driver of one vendor that is absent, lost or hung affects no
GPU of another vendor. Drivers are opened at the first request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from joulie_actuator import gpu_caps, gpu_clocks, results
from joulie_actuator.gpu_users import read_users
from joulie_actuator.hardware.gpu.driver import (
    CLOCK_KEY_END,
    GpuDeviceInfo,
    GpuDriver,
    clock_key,
    limit_key,
)
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import RestoredKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import (
    DescribeGpu,
    LeaseKind,
    ReadGpu,
    ReadGpuProcesses,
    SetGpuCaps,
    SetGpuClassClocks,
    SetGpuClocks,
)
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import (
    GpuClassClocks,
    GpuDescription,
    GpuPowerReading,
    GpuReadings,
    Reply,
    RestoreReport,
)

GpuRequest: TypeAlias = SetGpuCaps | SetGpuClocks | SetGpuClassClocks | ReadGpu | ReadGpuProcesses | DescribeGpu
DISCOVERY_INTERVAL_S: Final = 60.0


@dataclass(slots=True)
class GpuHandler:
    """Executes the requests for the GPUs. One caller at a time."""

    drivers: Sequence[GpuDriver]
    #: Or why nothing may be written.
    writer: JournaledWriter | HardwareFailure
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: A mount of proc.
    proc_root: Path = Path("/proc")
    _claims: gpu_clocks.ClockClaims = field(init=False, default_factory=gpu_clocks.ClockClaims)
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
            case SetGpuClassClocks(clocks_mhz=clocks_mhz):
                return self._limit_class_clocks(clocks_mhz)
            case ReadGpu(energy_only=energy_only):
                return self._read(self._counter if energy_only else self._reading)
            case ReadGpuProcesses():
                return read_users(self._drivers_by_uuid, self.proc_root)
            case DescribeGpu():
                return self._describe()

    def restore(self, keys: frozenset[str]) -> RestoreReport:
        """Restore knobs, by key; with all that are managed, what the clients want ends.

        Opens no driver where there is nothing to restore.
        """
        if isinstance(self.writer, HardwareFailure):
            return RestoreReport(knobs=())
        if keys >= self.writer.managed:
            self._claims.end(frozenset())
        if not keys:
            return RestoreReport(knobs=())
        self._discover()
        return RestoreReport(knobs=self._restore(self.writer, keys))

    def keep(self, leases: frozenset[LeaseKind]) -> RestoreReport:
        """End what other leases hold: restore it, except clocks that one of `leases` limits less."""
        if isinstance(self.writer, HardwareFailure):
            return RestoreReport(knobs=())
        self._discover()
        restored = self._write_clocks(self.writer, self._claims.end(leases)).restored
        if LeaseKind.POWER not in leases:
            caps = frozenset(key for key in self.writer.managed if not key.endswith(CLOCK_KEY_END))
            restored += self._restore(self.writer, caps)
        return RestoreReport(knobs=restored)

    def _restore(self, writer: JournaledWriter, keys: frozenset[str]) -> tuple[RestoredKnob, ...]:
        silent = self._unanswered()
        knobs: dict[str, Knob | HardwareFailure] = {} if silent is None else dict.fromkeys(keys, silent)
        knobs |= {limit_key(uuid): driver.power_limit(uuid) for uuid, driver in self._drivers_by_uuid.items()}
        knobs |= gpu_clocks.managed_knobs(writer, self._drivers_by_uuid)
        return results.restore(writer, keys, knobs)

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
            return results.failed(gpu_caps.NONE, [self.writer])
        knobs = {uuid: self._knob(uuid) for uuid in caps_mw}
        return gpu_caps.set_caps(self.writer, self._drivers_by_uuid, knobs, caps_mw)

    def _limit_clocks(self, clocks_mhz: dict[str, int]) -> ControlOutcome:
        if isinstance(self.writer, HardwareFailure):
            return results.failed(gpu_caps.NONE, [self.writer])
        named = (uuid for uuid in (*clocks_mhz, *self._drivers_by_uuid) if uuid in self._drivers_by_uuid)
        backend = next((self._drivers_by_uuid[uuid].name for uuid in named), gpu_caps.NONE)
        return gpu_clocks.outcome_of(self._claim_clocks(self.writer, LeaseKind.POWER, clocks_mhz), clocks_mhz, backend)

    def _limit_class_clocks(self, clocks_mhz: dict[str, int]) -> GpuClassClocks:
        if isinstance(self.writer, HardwareFailure):
            return GpuClassClocks(limits_mhz={}, failures={}, failure=self.writer)
        named = self._claims.named(LeaseKind.CLASSES) | clocks_mhz.keys()
        done = self._claim_clocks(self.writer, LeaseKind.CLASSES, clocks_mhz)
        return gpu_clocks.class_report_of(done, clocks_mhz, named, self.writer)

    def _claim_clocks(
        self, writer: JournaledWriter, lease: LeaseKind, clocks_mhz: dict[str, int]
    ) -> gpu_clocks.LimitedClocks:
        named = self._claims.replace(lease, clocks_mhz)
        done = self._write_clocks(writer, named)
        self._claims.settle(lease, named & done.failures.keys())
        return done

    def _write_clocks(self, writer: JournaledWriter, named: frozenset[str]) -> gpu_clocks.LimitedClocks:
        absent = self._unanswered() or HardwareFailure(Reason.NO_DEVICE, "a GPU whose clock is to be limited is absent")
        return gpu_clocks.limit(writer, self._drivers_by_uuid, self._claims.lowest, named, absent)

    def _release_clocks(self, done: ControlOutcome) -> ControlOutcome:
        """Restore clocks that an earlier controller limited; the executor tries again what cannot be restored now."""
        if isinstance(self.writer, HardwareFailure):
            return done
        messages = results.restore_messages(self._claim_clocks(self.writer, LeaseKind.POWER, {}).restored)
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
            cap_clock_mhz=self._claims.wanted(LeaseKind.POWER).get(uuid),
            class_clock_mhz=self._class_clock_mhz(uuid, _known(found.clock_limit_mhz)),
            clock_bound=found.clock_bound,
            clock_mhz=found.clock_mhz,
            busy_pct=found.busy_pct,
            failure=next(
                (each for each in (found.power_mw, found.limit_mw) if isinstance(each, HardwareFailure)), None
            ),
        )

    def _class_clock_mhz(self, uuid: str, limit_mhz: int | None) -> int | None:
        """Return the limit by class: the one that is wanted, or the one in force that is not lifted yet."""
        if uuid not in self._claims.named(LeaseKind.CLASSES):
            return None
        return self._claims.wanted(LeaseKind.CLASSES).get(uuid, limit_mhz)

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


def _known(value: int | HardwareFailure | None) -> int | None:
    return None if isinstance(value, HardwareFailure) else value


def _constant(info: GpuDeviceInfo) -> object:
    """Return the part of a description that changes only when the hardware does."""
    return replace(info, current_mw=None, enforced_mw=None, failure=None), info.failure and info.failure.reason
