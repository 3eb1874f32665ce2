"""A GPU driver whose every call returns within a deadline; a hung driver is a refusal and not a hung agent.

Promises what `joulie_agent.hardware.deadline` promises: after a hang, refusals at once until the driver returns. A
write refused with TIMEOUT may still land later; the next read shows it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from joulie_agent.hardware.deadline import DeadlineWorker
from joulie_agent.hardware.gpu.driver import GpuDeviceInfo, GpuDriver
from joulie_agent.hardware.knob import Knob, KnobLimits, Refusal

T = TypeVar("T")

#: Initialising one GPU takes one to three seconds where no client holds it (NVIDIA, Driver Persistence), and a machine
#: has up to sixteen.
OPEN_DEADLINE_S: Final = 60.0
#: A call to an open driver takes milliseconds; tens of them while GPUs are busy.
CALL_DEADLINE_S: Final = 5.0


class BoundedGpuDriver:
    """A `GpuDriver` that keeps deadlines."""

    def __init__(
        self,
        driver: GpuDriver,
        *,
        open_deadline_s: float = OPEN_DEADLINE_S,
        call_deadline_s: float = CALL_DEADLINE_S,
    ) -> None:
        self._driver = driver
        self._open_deadline_s = open_deadline_s
        self._call_deadline_s = call_deadline_s
        self.worker = DeadlineWorker(driver.name)

    @property
    def name(self) -> str:
        """Name of the driver."""
        return self._driver.name

    @property
    def generation(self) -> int:
        """How often the driver has been opened."""
        return self._driver.generation

    def open(self) -> Refusal | None:
        """Open the driver. Waits longer than any other call; do it before the first of them."""
        return self.worker.call(self._driver.open, self._open_deadline_s)

    def close(self) -> None:
        """Close the driver, unless it hangs, and let its thread end."""
        self.worker.call(self._driver.close, self._call_deadline_s)
        self.worker.stop()

    def devices(self) -> tuple[GpuDeviceInfo, ...] | Refusal:
        """Return every GPU."""
        return self.call(self._driver.devices)

    def power_mw(self, uuid: str) -> int | Refusal:
        """Return what a GPU draws."""
        return self.call(lambda: self._driver.power_mw(uuid))

    def enforced_mw(self, uuid: str) -> int | Refusal:
        """Return the limit that holds."""
        return self.call(lambda: self._driver.enforced_mw(uuid))

    def power_limit(self, uuid: str) -> Knob | Refusal:
        """Return the knob for a GPU's power limit, which keeps deadlines too."""
        knob = self.call(lambda: self._driver.power_limit(uuid))
        return knob if isinstance(knob, Refusal) else _BoundedKnob(self, knob)

    def call(self, function: Callable[[], T]) -> T | Refusal:
        """Make any call to the driver; opening it is granted its own time first."""
        refusal = self.open()
        return refusal if refusal is not None else self.worker.call(function, self._call_deadline_s)


@dataclass(frozen=True, slots=True)
class _BoundedKnob:
    """A `Knob` that keeps deadlines."""

    driver: BoundedGpuDriver
    knob: Knob

    @property
    def key(self) -> str:
        return self.knob.key

    @property
    def unit(self) -> str:
        return self.knob.unit

    @property
    def limits(self) -> KnobLimits:
        return self.knob.limits

    def read(self) -> int | Refusal:
        return self.driver.call(self.knob.read)

    def write(self, value: int) -> int | Refusal:
        return self.driver.call(lambda: self.knob.write(value))
