"""Calls into a vendor's library, each within a deadline, so that devices hang one by one.

Guarantees that the calls to one device run in a thread of that device, so that a GPU that does not answer fails with
TIMEOUT, at once from the second call on, while the others are read, capped and restored. There is one thread per device
and one for the library itself; a call that never returns costs no further thread.

Opening the library and finding the devices may take a minute. It goes on in the background: the caller waits for a
moment, and then fails with TIMEOUT at once until the library is open.

Does not guarantee that a write that failed with TIMEOUT has done nothing: it may land later, and the next read shows
it. While a call has not returned, the library is neither closed nor opened again, since that would free what the call
uses.

For one caller at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from joulie_actuator.hardware.deadline import DeadlineWorker
from joulie_actuator.hardware.gpu.library import GpuLibrary, Handle, LibraryError
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason

T = TypeVar("T")

#: How long a caller waits for the library to open: a driver that another process holds open answers in a tenth of that,
#: and the controller, which stops waiting after ten seconds, gets the reason before.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDeadlines:
    """Deadlines of calls, in seconds."""

    open_wait_s: float = OPEN_WAIT_S
    device_open_s: float = DEVICE_OPEN_S
    call_s: float = CALL_DEADLINE_S
    crowded_call_s: float = CROWDED_DEADLINE_S


@dataclass(frozen=True, slots=True)
class OpenGpu:
    """A device that has answered since the library was opened."""

    #: The driver's own number, good for one boot.
    index: int
    uuid: str
    handle: Handle


class DeviceCalls:
    """An open library and the threads of its devices. Everything but `close` may raise LibraryError."""

    def __init__(self, library: GpuLibrary, deadlines: GpuDeadlines) -> None:
        self._library = library
        self._deadlines = deadlines
        self._driver_worker = DeadlineWorker(library.name)
        self._device_workers: dict[int, DeadlineWorker] = {}
        #: What opening has found, by index; None while the library is not open.
        self._found: dict[int, OpenGpu | LibraryError] | None = None
        self._close_due = False

    @property
    def hanging(self) -> bool:
        """Whether a call has not returned in time and still runs, so that closing is not possible now."""
        return any(worker.hanging() for worker in (self._driver_worker, *self._device_workers.values()))

    def open(self) -> None:
        """Open the library, or go on with that. What is found late is there at the next call."""
        if self._close_due:
            self._close_now()
        if self._found is not None:
            return
        hangs = self._driver_worker.hanging()
        answer = hangs or self._driver_worker.call(self._open_all, self._deadlines.open_wait_s)
        if isinstance(answer, HardwareFailure):
            raise LibraryError(Reason.TIMEOUT, f"the driver is being opened: {answer.message}")

    def close(self) -> None:
        """Close the library, now or as soon as nothing hangs in it any longer."""
        self._found = None
        self._close_due = True
        if not self.hanging:
            self._close_now()
        for worker in (self._driver_worker, *self._device_workers.values()):
            worker.stop()

    def count(self) -> int:
        """Return how many devices there are."""
        return len(self._devices())

    def device(self, index: int) -> OpenGpu:
        """Return a device; one that did not answer in time before is tried again."""
        found = self._devices()[index]
        if isinstance(found, LibraryError) and found.failure.reason is Reason.TIMEOUT:
            found = self._devices()[index] = self._identify(index, self._deadline_s())
        if isinstance(found, LibraryError):
            raise found
        return found

    def call(self, device: OpenGpu, function: Callable[[Handle], T]) -> T:
        """Run a function of the library, or several at once, for one device."""
        answer = self._device_workers[device.index].call(partial(function, device.handle), self._deadline_s())
        if isinstance(answer, HardwareFailure):
            raise LibraryError(answer.reason, answer.message)
        return answer

    def _open_all(self) -> None:
        self._library.open()
        try:
            count = self._library.count()
            self._found = {index: self._identify(index, self._deadlines.device_open_s) for index in range(count)}
        except LibraryError:
            self._library.close()
            raise

    def _identify(self, index: int, deadline_s: float) -> OpenGpu | LibraryError:
        def identify() -> OpenGpu | LibraryError:
            try:
                handle = self._library.handle(index)
                return OpenGpu(index, self._library.uuid(handle), handle)
            except LibraryError as error:
                return error

        worker = self._device_workers.setdefault(index, DeadlineWorker(self._library.name))
        answer = worker.call(identify, deadline_s)
        return LibraryError(answer.reason, answer.message) if isinstance(answer, HardwareFailure) else answer

    def _devices(self) -> dict[int, OpenGpu | LibraryError]:
        if self._found is None:
            raise LibraryError(Reason.NO_INTERFACE, f"{self._library.name} is not open")
        return self._found

    def _close_now(self) -> None:
        if self.hanging:
            message = f"{self._library.name} is opened again as soon as an earlier call has returned"
            raise LibraryError(Reason.TIMEOUT, message)
        self._close_due = False
        self._driver_worker.call(self._library.close, self._deadlines.call_s)

    def _deadline_s(self) -> float:
        limits = self._deadlines
        return min(limits.crowded_call_s, limits.call_s) if self.hanging else limits.call_s
