"""GPUs in memory, behind the agent's own driver: lost, forbidden, reloaded, hung or written by others on demand.

Only the vendor's library is imitated; sessions, retries and knobs are those of production.
"""

import threading
from dataclasses import dataclass, field

from joulie_actuator.hardware.gpu.clock_state import ClockBound, ClockState
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, GpuDriver, Vendor
from joulie_actuator.hardware.gpu.library import Extent, Handle, LibraryError
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(slots=True)
class FakeGpu:
    """One GPU. Change its fields to change the hardware."""

    uuid: str
    model: str = "NVIDIA H100 80GB HBM3"
    min_mw: int | None = 200_000
    max_mw: int | None = 700_000
    default_mw: int = 700_000
    limit_mw: int = 700_000
    power_mw: int = 90_000
    #: Energy counter; None for a GPU that has none.
    energy_mj: int | None = 0
    process_ids: tuple[int, ...] = ()
    #: The limit is never set below this, whatever is written and acknowledged.
    sticks_at_mw: int = 0
    #: A limit that the hardware imposes itself.
    imposed_mw: int | None = None
    partitioned: bool | None = None
    lowest_mhz: int | None = 210
    highest_mhz: int = 1980
    #: The highest clock it is held to.
    clock_mhz: int = 1980
    #: Why the clock is no higher, as the driver reports it.
    clock_bound: ClockBound = ClockBound.NONE
    #: For how much of the time it is busy, in percent.
    busy_pct: int | None = 90
    #: An external writer controls the clocks, and the driver reports it.
    clock_taken: bool = False
    #: The driver accepts a clock limit and still reports the highest.
    clock_hidden: bool = False
    lost: bool = False
    #: Clear it to make every call to this GPU hang until it is set again.
    answering: threading.Event = field(default_factory=_set_event)

    @property
    def enforced_mw(self) -> int:
        """The lowest of the limits."""
        return self.limit_mw if self.imposed_mw is None else min(self.limit_mw, self.imposed_mw)


@dataclass(slots=True)
class FakeGpuLibrary:
    """A vendor's library and the driver below it."""

    gpus: list[FakeGpu]
    name: str = "nvml"
    vendor: Vendor = Vendor.NVIDIA
    loaded: bool = True
    permitted: bool = True
    clock_permitted: bool = True
    #: As AMD's, and not as NVIDIA's.
    reports_clock: bool = False
    clock_writes: int = 0
    #: Clear it to make every call hang until it is set again.
    answering: threading.Event = field(default_factory=_set_event)
    opened: int = 0
    writes: int = 0
    connected: bool = False

    def reload(self) -> None:
        """Unload the driver and load it again: limits are the defaults, and clients must connect anew."""
        self.connected = False
        for gpu in self.gpus:
            gpu.limit_mw = gpu.default_mw
            gpu.clock_mhz = gpu.highest_mhz
            gpu.lost = False

    def open(self) -> None:
        """Connect."""
        self.answering.wait()
        if not self.loaded:
            raise LibraryError(Reason.NO_INTERFACE, "driver not loaded", Extent.DRIVER)
        self.connected = True
        self.opened += 1

    def close(self) -> None:
        """Disconnect."""
        self.connected = False

    def count(self) -> int:
        """Return how many GPUs there are."""
        self._check()
        return len(self.gpus)

    def handle(self, index: int) -> Handle:
        """Return a GPU."""
        return self._gpu(self.gpus[index])

    def uuid(self, handle: Handle) -> str:
        """Return the UUID."""
        return self._gpu(handle).uuid

    def describe(self, handle: Handle, uuid: str, index: int) -> GpuDeviceInfo:
        """Return everything."""
        gpu = self._gpu(handle)
        return GpuDeviceInfo(
            uuid=uuid,
            index=index,
            vendor=self.vendor,
            model=gpu.model,
            min_mw=gpu.min_mw,
            max_mw=gpu.max_mw,
            default_mw=gpu.default_mw,
            current_mw=gpu.limit_mw,
            enforced_mw=gpu.enforced_mw,
            lowest_mhz=gpu.lowest_mhz,
            highest_mhz=None if gpu.lowest_mhz is None else self._reported_mhz(gpu) or gpu.highest_mhz,
            partitioned=gpu.partitioned,
        )

    def power_mw(self, handle: Handle) -> int:
        """Return the draw."""
        return self._gpu(handle).power_mw

    def energy_mj(self, handle: Handle) -> int | None:
        """Return the energy counter."""
        return self._gpu(handle).energy_mj

    def process_ids(self, handle: Handle) -> tuple[int, ...]:
        """Return the processes."""
        return self._gpu(handle).process_ids

    def limit_mw(self, handle: Handle) -> int:
        """Return the limit set."""
        return self._gpu(handle).limit_mw

    def enforced_mw(self, handle: Handle) -> int:
        """Return the limit in force."""
        return self._gpu(handle).enforced_mw

    def clock_state(self, handle: Handle) -> ClockState:
        """Return the clock, which is the highest that it is held to, and why it is no higher."""
        gpu = self._gpu(handle)
        return ClockState(gpu.clock_mhz, gpu.clock_bound, gpu.busy_pct)

    def set_limit_mw(self, handle: Handle, limit_mw: int) -> None:
        """Set the limit."""
        gpu = self._gpu(handle)
        if not self.permitted:
            raise LibraryError(Reason.NOT_PERMITTED, "insufficient permissions")
        if gpu.max_mw is None or not (gpu.min_mw or 0) <= limit_mw <= gpu.max_mw:
            raise LibraryError(Reason.OUT_OF_RANGE, "invalid argument")
        gpu.limit_mw = max(limit_mw, gpu.sticks_at_mw)
        self.writes += 1

    def check_clock_is_free(self, handle: Handle) -> None:
        """Refuse where another writer has the clocks."""
        if self._gpu(handle).clock_taken:
            raise LibraryError(Reason.REFUSED, "an external writer has set the clocks")

    def clock_limit_mhz(self, handle: Handle) -> int | None:
        """Return the highest clock."""
        return self._reported_mhz(self._gpu(handle))

    def limit_clock(self, handle: Handle, lowest_mhz: int, limit_mhz: int) -> None:
        """Limit the clock."""
        gpu = self._writable_clock(handle)
        if gpu.lowest_mhz is None or not gpu.lowest_mhz <= lowest_mhz <= limit_mhz:
            raise LibraryError(Reason.OUT_OF_RANGE, "invalid argument")
        gpu.clock_mhz = limit_mhz
        self.clock_writes += 1

    def release_clock(self, handle: Handle, highest_mhz: int) -> None:
        """End the limit."""
        gpu = self._writable_clock(handle)
        assert highest_mhz == gpu.highest_mhz
        gpu.clock_mhz = gpu.highest_mhz

    def _writable_clock(self, handle: Handle) -> FakeGpu:
        gpu = self._gpu(handle)
        if not self.clock_permitted:
            raise LibraryError(Reason.NOT_PERMITTED, "insufficient permissions")
        return gpu

    def _reported_mhz(self, gpu: FakeGpu) -> int | None:
        if not self.reports_clock:
            return None
        return gpu.highest_mhz if gpu.clock_hidden else gpu.clock_mhz

    def _check(self) -> None:
        self.answering.wait()
        if not (self.loaded and self.connected):
            raise LibraryError(Reason.NO_INTERFACE, "uninitialized", Extent.DRIVER)

    def _gpu(self, handle: Handle) -> FakeGpu:
        self._check()
        assert isinstance(handle, FakeGpu)
        handle.answering.wait()
        if handle.lost:
            raise _lost()
        return handle


def fake_gpu_driver(*gpus: FakeGpu) -> tuple[LibraryDriver, FakeGpuLibrary]:
    """Return a driver over GPUs in memory, and the library to change them by."""
    library = FakeGpuLibrary(list(gpus))
    return LibraryDriver(library), library


def power_mw(driver: GpuDriver, uuid: str) -> int | HardwareFailure:
    """Return what a GPU draws, or why that is not known."""
    found = driver.read(uuid)
    return found if isinstance(found, HardwareFailure) else found.power_mw


def _lost() -> LibraryError:
    return LibraryError(Reason.DEVICE_LOST, "GPU is lost", Extent.DEVICE)
