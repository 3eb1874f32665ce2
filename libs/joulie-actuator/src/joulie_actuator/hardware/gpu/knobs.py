"""The knobs of a GPU: its power limit, and its highest graphics clock."""

from dataclasses import dataclass
from typing import Final, Protocol

from joulie_actuator.hardware.gpu.driver import clock_key, limit_key
from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.reasons import Reason

#: By how much a clock limit may be rounded up; clocks come in steps of 1 to 15 MHz.
CLOCK_TOLERANCE_MHZ: Final = 25


class PowerDriver(Protocol):
    """Driver calls that a power limit needs."""

    def limit_mw(self, uuid: str) -> int | HardwareFailure:
        """Return the limit that was set last."""

    def set_limit_mw(self, uuid: str, limit_mw: int) -> HardwareFailure | None:
        """Set the limit."""


class ClockDriver(Protocol):
    """Driver calls that a clock limit needs."""

    def clock_limit_mhz(self, uuid: str) -> int | HardwareFailure | None:
        """Return the limit, None where the driver does not report one."""

    def written_clock_mhz(self, uuid: str, before: int) -> int:
        """Return the limit that this process has written last, or the one before it."""

    def check_clock_is_free(self, uuid: str) -> HardwareFailure | None:
        """Return why the graphics clock is not free, as far as visible; None where it is."""

    def set_clock_mhz(self, uuid: str, limits: KnobLimits, limit_mhz: int) -> int | HardwareFailure | None:
        """Set the limit, or end every limit where that is the highest clock; return what `clock_limit_mhz` does."""


@dataclass(frozen=True, slots=True)
class GpuPowerLimit:
    """The power limit of one GPU; a `Knob`.

    Its value is the limit that was set, not the one in force: the hardware lowers that one by itself, which is not a
    write.
    """

    driver: PowerDriver
    uuid: str
    limits: KnobLimits
    unit: str = "mW"
    kind: KnobKind = KnobKind.LIMIT

    @property
    def key(self) -> str:
        """Identity by UUID."""
        return limit_key(self.uuid)

    def read(self) -> int | HardwareFailure:
        """Return the limit that was set last."""
        return self.driver.limit_mw(self.uuid)

    def write(self, value: int) -> int | HardwareFailure:
        """Set the limit, read it back, and return what was read."""
        return self.driver.set_limit_mw(self.uuid, value) or self.driver.limit_mw(self.uuid)


@dataclass(frozen=True, slots=True)
class GpuClockLimit:
    """The highest graphics clock of one GPU; a `SteppedKnob`. Its upper end means that there is no limit.

    NVIDIA's library cannot read a limit: the value is then what was written last, by this process or, as the journal
    has it, by the one before. Source: NVIDIA, NVML API Reference Guide, nvmlDeviceSetGpuLockedClocks.
    """

    driver: ClockDriver
    uuid: str
    limits: KnobLimits
    #: What was written last before this process.
    remembered_mhz: int
    unit: str = "MHz"
    kind: KnobKind = KnobKind.LIMIT

    @property
    def key(self) -> str:
        """Identity by UUID."""
        return clock_key(self.uuid)

    @property
    def is_remembered(self) -> bool:
        """Whether reading returns what was written last."""
        return self.driver.clock_limit_mhz(self.uuid) is None

    def is_between(self) -> bool:
        """Return whether the clock is controlled by hand, since it was free before the first write.

        AMD SMI sets the performance level and the clock by one call each, in either order.
        """
        failure = self.driver.check_clock_is_free(self.uuid)
        return failure is not None and failure.reason is Reason.REFUSED

    def read(self) -> int | HardwareFailure:
        """Return the limit, or the upper end where there is none."""
        reported = self.driver.clock_limit_mhz(self.uuid)
        return self.driver.written_clock_mhz(self.uuid, self.remembered_mhz) if reported is None else reported

    def write(self, value: int) -> int | HardwareFailure:
        """Set the limit and return what is read, which may be a little less.

        Where a driver accepts it and still reports a higher one, it is reset at once: that limit could neither be read
        nor restored later.
        """
        reported = self.driver.set_clock_mhz(self.uuid, self.limits, value)
        if reported is None:
            return value
        if isinstance(reported, int) and reported > value + CLOCK_TOLERANCE_MHZ:
            self.driver.set_clock_mhz(self.uuid, self.limits, self.limits.high)
            message = f"{self.key}: reads {reported} MHz where {value} MHz was written, and cannot be recognised"
            return HardwareFailure(Reason.NO_INTERFACE, message)
        return reported
