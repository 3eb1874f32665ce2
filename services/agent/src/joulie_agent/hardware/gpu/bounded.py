"""A vendor's library whose every call returns within a deadline, and whose devices hang one by one.

Promises that the calls to one device run in a thread of that device, so that a GPU that does not answer is refused with
TIMEOUT, at once from the second call on, while the others are read, capped and restored. There is one thread per device
and one for the library itself; a call that never returns costs no further thread.

Opening the library and finding the devices may take a minute. It goes on in the background: the caller waits for a
moment, and is then refused with TIMEOUT at once until the library is open.

Does not promise that a write refused with TIMEOUT has done nothing: it may land later, and the next read shows it.
While a call has not returned, the library is neither closed nor opened again, since that would free what the call uses.

For one caller at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from joulie_agent.hardware.deadline import DeadlineWorker
from joulie_agent.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_agent.hardware.gpu.library import GpuLibrary, Handle, LibraryError
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.reasons import Reason

T = TypeVar("T")

#: How long a caller waits for the library to open: a driver that somebody holds open answers in a tenth of that, and
#: the controller, which gives up after ten seconds, shall hear the reason first.
OPEN_WAIT_S: Final = 3.0
#: For a command that has nothing else to do. Initialising one GPU takes one to three seconds where no client holds it
#: (NVIDIA, Driver Persistence), and a machine has up to sixteen.
PATIENT_OPEN_WAIT_S: Final = 60.0
#: How long opening waits for one device before it goes on with the next.
DEVICE_OPEN_S: Final = 10.0
#: A call to an open driver takes milliseconds; tens of them while GPUs are busy.
CALL_DEADLINE_S: Final = 5.0
#: The same while another device of the library hangs. Often they all hang then, on a lock of the driver, and sixteen
#: full deadlines in a row would use up the time that a stopping process has.
CROWDED_DEADLINE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Device:
    """The handle of a device whose calls are bounded."""

    index: int
    handle: Handle
    uuid: str


class BoundedLibrary:
    """A `GpuLibrary` that keeps deadlines."""

    def __init__(
        self,
        library: GpuLibrary,
        *,
        open_wait_s: float = OPEN_WAIT_S,
        device_open_s: float = DEVICE_OPEN_S,
        call_deadline_s: float = CALL_DEADLINE_S,
        crowded_deadline_s: float = CROWDED_DEADLINE_S,
    ) -> None:
        self._library = library
        self._open_wait_s = open_wait_s
        self._device_open_s = device_open_s
        self._call_deadline_s = call_deadline_s
        self._crowded_deadline_s = min(crowded_deadline_s, call_deadline_s)
        self._driver_calls = DeadlineWorker(library.name)
        self._device_calls: dict[int, DeadlineWorker] = {}
        #: What opening has found, by index; None while the library is not open.
        self._found: dict[int, _Device | LibraryError] | None = None
        self._close_due = False

    @property
    def name(self) -> str:
        """Name of the library."""
        return self._library.name

    @property
    def vendor(self) -> Vendor:
        """Whose GPUs these are."""
        return self._library.vendor

    @property
    def hanging(self) -> bool:
        """Whether a call has not returned in time and still runs."""
        return any(worker.hanging() for worker in (self._driver_calls, *self._device_calls.values()))

    def open(self) -> None:
        """Open the library, or go on with that. What is found late is there at the next call."""
        if self._close_due:
            self._close_now()
        if self._found is not None:
            return
        hangs = self._driver_calls.hanging()
        answer = hangs or self._driver_calls.call(self._open_all, self._open_wait_s)
        if isinstance(answer, HardwareFailure):
            raise LibraryError(Reason.TIMEOUT, f"the driver is being opened: {answer.message}")

    def close(self) -> None:
        """Close the library, now or as soon as nothing hangs in it any longer."""
        self._found = None
        self._close_due = True
        if not self.hanging:
            self._close_now()
        for worker in (self._driver_calls, *self._device_calls.values()):
            worker.stop()

    def count(self) -> int:
        """Return how many devices there are."""
        return len(self._devices())

    def handle(self, index: int) -> Handle:
        """Return the handle of a device; one that did not answer in time before is asked again."""
        found = self._devices()[index]
        if isinstance(found, LibraryError) and found.refusal.reason is Reason.TIMEOUT:
            found = self._devices()[index] = self._identify(index, self._deadline_s())
        if isinstance(found, LibraryError):
            raise found
        return found

    def uuid(self, handle: Handle) -> str:
        """Return the UUID, which is known since the library was opened."""
        assert isinstance(handle, _Device)
        return handle.uuid

    def describe(self, handle: Handle, uuid: str, index: int) -> GpuDeviceInfo:
        """Return what is known of the device."""
        return self._ask(handle, lambda raw: self._library.describe(raw, uuid, index))

    def power_mw(self, handle: Handle) -> int:
        """Return what the device draws."""
        return self._ask(handle, self._library.power_mw)

    def limit_mw(self, handle: Handle) -> int:
        """Return the limit that was set last."""
        return self._ask(handle, self._library.limit_mw)

    def enforced_mw(self, handle: Handle) -> int:
        """Return the limit that holds."""
        return self._ask(handle, self._library.enforced_mw)

    def set_limit_mw(self, handle: Handle, limit_mw: int) -> None:
        """Set the power limit."""
        self._ask(handle, lambda raw: self._library.set_limit_mw(raw, limit_mw))

    def check_clock_is_free(self, handle: Handle) -> None:
        """Raise where an external writer is seen to control the graphics clock."""
        self._ask(handle, self._library.check_clock_is_free)

    def clock_limit_mhz(self, handle: Handle) -> int | None:
        """Return the highest graphics clock that is allowed."""
        return self._ask(handle, self._library.clock_limit_mhz)

    def limit_clock(self, handle: Handle, lowest_mhz: int, limit_mhz: int) -> None:
        """Limit the graphics clock."""
        self._ask(handle, lambda raw: self._library.limit_clock(raw, lowest_mhz, limit_mhz))

    def release_clock(self, handle: Handle, highest_mhz: int) -> None:
        """End every limit on the graphics clock."""
        self._ask(handle, lambda raw: self._library.release_clock(raw, highest_mhz))

    def _open_all(self) -> None:
        self._library.open()
        try:
            count = self._library.count()
            self._found = {index: self._identify(index, self._device_open_s) for index in range(count)}
        except LibraryError:
            self._library.close()
            raise

    def _identify(self, index: int, deadline_s: float) -> _Device | LibraryError:
        def identify() -> _Device | LibraryError:
            try:
                handle = self._library.handle(index)
                return _Device(index, handle, self._library.uuid(handle))
            except LibraryError as error:
                return error

        worker = self._device_calls.setdefault(index, DeadlineWorker(self.name))
        answer = worker.call(identify, deadline_s)
        return LibraryError(answer.reason, answer.message) if isinstance(answer, HardwareFailure) else answer

    def _devices(self) -> dict[int, _Device | LibraryError]:
        if self._found is None:
            raise LibraryError(Reason.NO_INTERFACE, f"{self.name} is not open")
        return self._found

    def _close_now(self) -> None:
        if self.hanging:
            message = f"{self.name} is opened again as soon as an earlier call has returned"
            raise LibraryError(Reason.TIMEOUT, message)
        self._close_due = False
        self._driver_calls.call(self._library.close, self._call_deadline_s)

    def _ask(self, handle: Handle, call: Callable[[Handle], T]) -> T:
        assert isinstance(handle, _Device)
        answer = self._device_calls[handle.index].call(partial(call, handle.handle), self._deadline_s())
        if isinstance(answer, HardwareFailure):
            raise LibraryError(answer.reason, answer.message)
        return answer

    def _deadline_s(self) -> float:
        return self._crowded_deadline_s if self.hanging else self._call_deadline_s
