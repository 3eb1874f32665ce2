"""A vendor's library as a `GpuDriver`: opened when needed, opened again when the driver was reloaded.

A call that finds the driver gone opens it once more and is repeated before it fails, so that a driver reload between
two calls shows in `generation` only. Setting a limit twice is idempotent.

A GPU that is lost stays lost until the library is opened again, and that disconnects the other GPUs for a moment, whose
limits the driver may then forget (persistence mode off). So it is reopened, but not often, and not while a call hangs.
A GPU that did not answer in time while the library was opened is tried again by every call.

One caller at a time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from joulie_actuator.hardware.gpu.clock_state import ClockState, clock_bound
from joulie_actuator.hardware.gpu.device_calls import DeviceCalls, GpuDeadlines, OpenGpu
from joulie_actuator.hardware.gpu.driver import DeviceReading, GpuDeviceInfo, JournaledClock
from joulie_actuator.hardware.gpu.knobs import GpuClockLimit, GpuPowerLimit
from joulie_actuator.hardware.gpu.library import Extent, GpuLibrary, Handle, LibraryError
from joulie_actuator.hardware.knob import HardwareFailure, KnobLimits
from joulie_actuator.reasons import Reason

T = TypeVar("T")

#: How long the library stays open while a GPU is lost, before it is opened again to see whether the GPU is back.
REOPEN_FOR_LOST_S: Final = 60.0


@dataclass(slots=True)
class _Session:
    """The library while it is open."""

    opened_at: float
    #: By UUID.
    devices: dict[str, OpenGpu]
    #: Devices that have no handle, by index.
    unknown: dict[int, HardwareFailure]
    #: Devices that had one and are gone, by UUID.
    lost: dict[str, HardwareFailure]

    @property
    def lacks_a_device(self) -> bool:
        """Whether a device is gone that opening the library again may bring back."""
        return bool(self.lost) or any(why.reason is not Reason.TIMEOUT for why in self.unknown.values())


class LibraryDriver:
    """A `GpuDriver` on top of a vendor's library."""

    def __init__(
        self,
        library: GpuLibrary,
        *,
        deadlines: GpuDeadlines | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library = library
        self._calls = DeviceCalls(library, deadlines or GpuDeadlines())
        self._clock = clock
        self._session: _Session | None = None
        self._generation = 0
        #: The clock limits that were written last, of devices that do not report theirs.
        self._clocks_mhz: dict[str, int] = {}
        #: The highest clock of each device that has ever been seen.
        self._highest_mhz: dict[str, int] = {}
        #: The last description of each device that answered.
        self._known: dict[str, GpuDeviceInfo] = {}

    @property
    def name(self) -> str:
        """Name of the library."""
        return self._library.name

    @property
    def generation(self) -> int:
        """Number of times that the library has been opened."""
        return self._generation

    def open(self) -> HardwareFailure | None:
        """Open the library, if it is not open."""
        try:
            self._current()
        except LibraryError as error:
            return error.failure
        return None

    def close(self) -> None:
        """Close the library, if it is open."""
        if self._session is not None:
            self._session = None
            self._calls.close()

    def devices(self) -> tuple[GpuDeviceInfo, ...] | HardwareFailure:
        """Return every GPU, in the driver's order."""
        return self._retried(self._describe_all)

    def read(self, uuid: str, journaled: JournaledClock | None = None) -> DeviceReading | HardwareFailure:
        """Read a GPU's power and limits, in one hand-over to its thread."""

        def read(handle: Handle) -> tuple[DeviceReading, ClockState | HardwareFailure]:
            reading = DeviceReading(
                power_mw=_or_failure(self._library.power_mw, handle),
                limit_mw=_or_failure(self._library.limit_mw, handle),
                clock_limit_mhz=_or_failure(self._library.clock_limit_mhz, handle) if journaled else None,
            )
            return reading, _or_failure(self._library.clock_state, handle)

        found = self._run(uuid, read)
        if isinstance(found, HardwareFailure):
            return found
        reading, state = found
        if journaled is not None and reading.clock_limit_mhz is None:
            reading = replace(reading, clock_limit_mhz=self.written_clock_mhz(uuid, journaled.written_mhz))
        if isinstance(state, HardwareFailure):
            return reading
        limit_mhz = reading.clock_limit_mhz if isinstance(reading.clock_limit_mhz, int) else None
        bound = clock_bound(state.reported, state.clock_mhz, limit_mhz)
        return replace(reading, clock_bound=bound, clock_mhz=state.clock_mhz, busy_pct=state.busy_pct)

    def energy_mj(self, uuid: str) -> int | HardwareFailure | None:
        """Return a GPU's energy counter."""
        return self._run(uuid, self._library.energy_mj)

    def process_ids(self, uuid: str) -> tuple[int, ...] | HardwareFailure:
        """Return the processes that use a GPU."""
        return self._run(uuid, self._library.process_ids)

    def enforced_mw(self, uuid: str) -> int | HardwareFailure:
        """Return the limit in force."""
        return self._run(uuid, self._library.enforced_mw)

    def power_limit(self, uuid: str) -> GpuPowerLimit | HardwareFailure:
        """Return the knob for a GPU's power limit."""
        info = self._known.get(uuid)
        if info is None:
            found = self.devices()
            if isinstance(found, HardwareFailure):
                return found
            info = self._known.get(uuid)
        if info is None:
            return _no_such_gpu(uuid, self.name)
        if info.limits is None:
            return HardwareFailure(Reason.NO_INTERFACE, f"{self.name} offers no power limit for {info.model} {uuid}")
        return GpuPowerLimit(self, uuid, info.limits)

    def clock_limit(self, uuid: str, journaled: JournaledClock | None = None) -> GpuClockLimit | HardwareFailure:
        """Return the knob for a GPU's highest graphics clock."""
        info = self._known.get(uuid)
        if info is None:
            return _no_such_gpu(uuid, self.name)
        # What the driver reports as the highest may be a managed limit.
        highest_mhz = max(
            self._highest_mhz.get(uuid, 0), info.highest_mhz or 0, journaled.original_mhz if journaled else 0
        )
        self._highest_mhz[uuid] = highest_mhz
        if not info.lowest_mhz or not highest_mhz:
            return HardwareFailure(Reason.NO_INTERFACE, f"{self.name} offers no clock limit for {info.model} {uuid}")
        written_mhz = journaled.written_mhz if journaled else highest_mhz
        return GpuClockLimit(self, uuid, KnobLimits(info.lowest_mhz, highest_mhz), written_mhz)

    def check_clock_is_free(self, uuid: str) -> HardwareFailure | None:
        """Return why the graphics clock is not free, as far as visible; None where it is."""
        return self._run(uuid, self._library.check_clock_is_free)

    def clock_limit_mhz(self, uuid: str) -> int | HardwareFailure | None:
        """Return the highest graphics clock that is allowed, where the driver reports it."""
        return self._run(uuid, self._library.clock_limit_mhz)

    def written_clock_mhz(self, uuid: str, before: int) -> int:
        """Return the clock limit that this process has written last, or the one before it."""
        return self._clocks_mhz.get(uuid, before)

    def set_clock_mhz(self, uuid: str, limits: KnobLimits, limit_mhz: int) -> int | HardwareFailure | None:
        """Limit the graphics clock, or end every limit on it where that is its highest; return `clock_limit_mhz`.

        In one hand-over to the GPU's thread: a container may wait for it.
        """

        def set_clock(handle: Handle) -> int | None:
            if limit_mhz >= limits.high:
                self._library.release_clock(handle, limits.high)
            else:
                self._library.limit_clock(handle, limits.low, limit_mhz)
            return self._library.clock_limit_mhz(handle)

        answer = self._run(uuid, set_clock)
        may_land = isinstance(answer, HardwareFailure) and answer.reason is Reason.TIMEOUT and limit_mhz < limits.high
        if not isinstance(answer, HardwareFailure) or may_land:
            self._clocks_mhz[uuid] = limit_mhz
        return answer

    def limit_mw(self, uuid: str) -> int | HardwareFailure:
        """Return the limit that was set last."""
        return self._run(uuid, self._library.limit_mw)

    def set_limit_mw(self, uuid: str, limit_mw: int) -> HardwareFailure | None:
        """Set a GPU's power limit."""
        return self._run(uuid, lambda handle: self._library.set_limit_mw(handle, limit_mw))

    def _run(self, uuid: str, call: Callable[[Handle], T]) -> T | HardwareFailure:
        """Call the library for one device."""
        return self._retried(lambda: self._call(uuid, call))

    def _call(self, uuid: str, call: Callable[[Handle], T]) -> T | HardwareFailure:
        session = self._current()
        if uuid in session.lost:
            return session.lost[uuid]
        device = session.devices.get(uuid)
        if device is None:
            return self._missing(uuid)
        try:
            return self._calls.call(device, call)
        except LibraryError as error:
            if error.extent is Extent.DRIVER:
                raise
            failure = _with_index(error.failure, device.index)
            if error.extent is Extent.DEVICE:
                session.lost[uuid] = failure
            return failure

    def _missing(self, uuid: str) -> HardwareFailure:
        if uuid in self._known:
            return HardwareFailure(Reason.DEVICE_LOST, f"{self.name} no longer lists the GPU {uuid}")
        return _no_such_gpu(uuid, self.name)

    def _retried(self, attempt: Callable[[], T | HardwareFailure]) -> T | HardwareFailure:
        was_open = self._session is not None
        try:
            return attempt()
        except LibraryError as error:
            self.close()
            if not was_open:
                return error.failure
        try:
            return attempt()
        except LibraryError as error:
            self.close()
            return error.failure

    def _current(self) -> _Session:
        """Return the session, after opening the library where there is none or where that may bring a GPU back."""
        session = self._session
        if session is not None:
            for index in [index for index, why in session.unknown.items() if why.reason is Reason.TIMEOUT]:
                self._enlist(session, index)
            too_early = self._clock() - session.opened_at < REOPEN_FOR_LOST_S
            if not session.lacks_a_device or too_early or self._calls.hanging:
                return session
            self.close()
        self._calls.open()
        try:
            self._session = self._enumerate()
        except LibraryError:
            self._calls.close()
            raise
        self._generation += 1
        return self._session

    def _enumerate(self) -> _Session:
        session = _Session(self._clock(), {}, {}, {})
        for index in range(self._calls.count()):
            self._enlist(session, index)
        return session

    def _enlist(self, session: _Session, index: int) -> None:
        try:
            device = self._calls.device(index)
            # Partitions of one GPU may carry its UUID; the first of them stands for it and has the power limit.
            session.devices.setdefault(device.uuid, device)
            session.unknown.pop(index, None)
        except LibraryError as error:
            if error.extent is Extent.DRIVER:
                raise
            session.unknown[index] = _with_index(error.failure, index)

    def _describe_all(self) -> tuple[GpuDeviceInfo, ...] | HardwareFailure:
        session = self._current()
        found = [self._describe(device.uuid, device.index) for device in session.devices.values()]
        found += [GpuDeviceInfo("", index, self._library.vendor, failure=why) for index, why in session.unknown.items()]
        return tuple(sorted(found, key=lambda info: info.index))

    def _describe(self, uuid: str, index: int) -> GpuDeviceInfo:
        info = self._call(uuid, lambda handle: self._library.describe(handle, uuid, index))
        if isinstance(info, HardwareFailure):
            known = self._known.get(uuid) or GpuDeviceInfo(uuid, index, self._library.vendor)
            return replace(known, index=index, failure=info)
        self._known[uuid] = info
        return info


def _or_failure(call: Callable[[Handle], T], handle: Handle) -> T | HardwareFailure:
    """Make a call; return why it fails where the device and the driver are there."""
    try:
        return call(handle)
    except LibraryError as error:
        if error.extent is not Extent.CALL:
            raise
        return error.failure


def _no_such_gpu(uuid: str, name: str) -> HardwareFailure:
    return HardwareFailure(Reason.NO_DEVICE, f"{name} lists no GPU {uuid}")


def _with_index(failure: HardwareFailure, index: int) -> HardwareFailure:
    return replace(failure, message=f"GPU {index}: {failure.message}")
