"""One writable integer of the hardware, and why it cannot be used.

A knob is what all host interfaces have in common: a frequency limit, a power limit of a package or of a GPU. It only
reads and writes: it has no memory, judges no value and never raises for hardware that is absent, forbidden, locked,
lost or broken. Writes go through `joulie_actuator.hardware.journaled_writer`,
which keeps the journal that originals are restored from.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from joulie_actuator.reasons import Reason

#: Lowest power limit that is written where the hardware reports a maximum and no minimum, as a share of the maximum. No
#: kernel interface shows the minimum of a package; below a quarter of the thermal design power its cores are at their
#: lowest clock and a node risks to stop making progress. To amdgpu a limit of zero means its default.
LOWEST_CAP_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class HardwareFailure:
    """Reason why the hardware was not read or written."""

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class KnobLimits:
    """The values that may be written, in the knob's unit; both ends belong to it."""

    low: int
    high: int
    #: How much less than a written value may be read later, since the hardware rounds down.
    rounding: int = 0

    def clamp(self, value: int) -> int:
        """Return the nearest value that may be written."""
        return min(self.high, max(self.low, value))

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high


class KnobKind(StrEnum):
    """Relation of a knob's value to what was written."""

    #: A register: it reads what was written last, rounded or clamped. A lower value limits more.
    LIMIT = "limit"
    #: One of several requests: a write sets Joulie's, and a read shows the lowest of all (user, thermal, platform).
    REQUEST = "request"
    #: A request for a lower limit: a read shows it, or the upper limit where that is lower. A higher value limits more.
    FLOOR = "floor"
    #: A register whose values have no order.
    SWITCH = "switch"

    @property
    def is_request(self) -> bool:
        """Whether a read shows the lowest of Joulie's request and others, and not what was written last."""
        return self in {KnobKind.REQUEST, KnobKind.FLOOR}


class Knob(Protocol):
    """A writable integer. Calls may block for as long as the kernel or a driver does."""

    @property
    def key(self) -> str:
        """Stable identity over restarts and reboots, with the driver first.

        For example `rapl/package-0/long_term`, `cpufreq/cpu4/scaling_max_freq`, `gpu/<UUID>/power_limit_mw`. It names
        what is limited, not where the file is: directories are numbered anew when a driver is loaded again.
        """

    @property
    def unit(self) -> str:
        """`uW`, `kHz` or `mW`."""

    @property
    def kind(self) -> KnobKind:
        """Meaning of a value that is read."""

    @property
    def limits(self) -> KnobLimits:
        """Range of what may be written. Originals are restored even where they lie outside: they were the machine's."""

    def read(self) -> int | HardwareFailure:
        """Return the value in force."""

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read.

        The two may differ where firmware clamps or rounds, which the caller has to judge. A failure does not prove that
        nothing was written: the read after the write may have failed.
        """


@runtime_checkable
class RequestKnob(Knob, Protocol):
    """A knob of the kind `REQUEST` or `FLOOR`."""

    def platform_limit(self, value: int) -> str:
        """Return what on the machine itself explains that this value is read; empty where nothing visible does."""

    def next_above(self, value: int) -> int | None:
        """Return a little more than a value, which reads as more where nothing else limits; None at the highest."""


@runtime_checkable
class SwitchedLimit(Knob, Protocol):
    """A limit that is in force while a switch beside it reads other than 0."""

    @property
    def switch(self) -> Knob | None:
        """The switch; None where the limit is always in force."""


@runtime_checkable
class SteppedKnob(Knob, Protocol):
    """A knob that takes several calls to write, of which the first may leave what is read as it was."""

    def is_between(self) -> bool:
        """Return whether something shows that a write has begun; its value does not tell whether it has ended."""
