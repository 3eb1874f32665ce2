"""Interface of every GPU driver: the GPUs, their power, and one knob per GPU for its power limit and its clock.

Every answer of a driver becomes a value or a failure with its reason, never an exception. A GPU is identified by its
UUID; an index may belong to another GPU after the next boot. Power is in milliwatts, as integers.

Values are not judged here: see `joulie_actuator.hardware.journaled_writer`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.hardware.knob import LOWEST_CAP_SHARE, HardwareFailure, Knob, KnobLimits

MW_PER_WATT: Final = 1000


class Vendor(StrEnum):
    """The vendor of a GPU, as the inventory spells it."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"


@dataclass(frozen=True, slots=True)
class GpuDeviceInfo:
    """One GPU at one instant; None where the driver does not report a value."""

    #: Empty for a GPU that has not answered since the driver was opened.
    uuid: str
    #: The driver's own number, good for one boot.
    index: int
    vendor: Vendor
    #: As the driver spells it.
    model: str = ""
    #: What a power limit may be set to.
    min_mw: int | None = None
    max_mw: int | None = None
    #: The limit it comes up with.
    default_mw: int | None = None
    #: The limit that was set last, by anyone.
    current_mw: int | None = None
    #: The limit in force: the lowest of the one set and those the hardware imposes itself.
    enforced_mw: int | None = None
    #: The graphics clocks it may run at, a limit that is in force included; absent where clocks cannot be limited.
    lowest_mhz: int | None = None
    highest_mhz: int | None = None
    #: Whether it is partitioned now (MIG, or an AMD compute partition other than SPX); None where it cannot be.
    partitioned: bool | None = None
    #: Names of the partitions it offers, such as `1g.10gb`, or of the mode it is in.
    partition_modes: tuple[str, ...] = ()
    #: UUIDs of the MIG devices that it is cut into now.
    partition_uuids: tuple[str, ...] = ()
    #: Names that AMD's device plugin has for its partitions, but for the first, which has the name of the GPU.
    partition_names: tuple[str, ...] = ()
    #: PCI address, such as `0000:c1:00.0`, and minor number of the device file; by them other programs name it.
    pci_address: str = ""
    minor: int | None = None
    #: Why it does not answer; the other values are then those of an earlier description.
    failure: HardwareFailure | None = None

    @property
    def limits(self) -> KnobLimits | None:
        """Range of its power limit; None where it has none."""
        if not self.max_mw:
            return None
        return KnobLimits(self.min_mw or round(self.max_mw * LOWEST_CAP_SHARE), self.max_mw)


@dataclass(frozen=True, slots=True)
class JournaledClock:
    """A managed clock limit, as the journal has it."""

    original_mhz: int
    #: The last limit that was, or was about to be, written.
    written_mhz: int


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """Power and limits of one GPU, each as it answers."""

    power_mw: int | HardwareFailure
    #: The limit that was set last.
    limit_mw: int | HardwareFailure
    #: The managed limit on the graphics clock; None where there is none.
    clock_limit_mhz: int | HardwareFailure | None = None
    clock_bound: ClockBound = ClockBound.UNKNOWN
    #: The graphics clock and the share of the time in which the GPU is busy, in percent; None where not reported.
    clock_mhz: int | None = None
    busy_pct: int | None = None


class ClockKnob(Knob, Protocol):
    """A knob whose value may be the one written last, where the vendor's library cannot read it."""

    @property
    def is_remembered(self) -> bool:
        """Whether reading returns what was written last: write again to be certain."""


class GpuDriver(Protocol):
    """The GPUs of one vendor. Opens itself at the first call, and again when the driver has been reloaded."""

    @property
    def name(self) -> str:
        """`nvml` or `amdsmi`, as in `status.control.gpu.backend`."""

    @property
    def generation(self) -> int:
        """Number of times that it has been opened. One more means that limits may be back at the driver's defaults."""

    def open(self) -> HardwareFailure | None:
        """Load the vendor's library and find the GPUs; None where that went well or was done before."""

    def close(self) -> None:
        """Close the driver. The next call opens it again."""

    def devices(self) -> tuple[GpuDeviceInfo, ...] | HardwareFailure:
        """Return every GPU, those that do not answer included."""

    def read(self, uuid: str, journaled: JournaledClock | None = None) -> DeviceReading | HardwareFailure:
        """Read a GPU's power and limits in one call; the clock limit where `journaled`, its record, is given."""

    def energy_mj(self, uuid: str) -> int | HardwareFailure | None:
        """Return a GPU's energy counter in millijoules; None where the GPU has none.

        It starts anywhere, and again at zero when the driver is loaded.
        """

    def process_ids(self, uuid: str) -> tuple[int, ...] | HardwareFailure:
        """Return the processes that use a GPU, or a partition of it, in the caller's PID namespace."""

    def enforced_mw(self, uuid: str) -> int | HardwareFailure:
        """Return the limit in force, which may be below the one that was set."""

    def power_limit(self, uuid: str) -> Knob | HardwareFailure:
        """Return the knob for a GPU's power limit; it stays good over reloads of the driver."""

    def clock_limit(self, uuid: str, journaled: JournaledClock | None) -> ClockKnob | HardwareFailure:
        """Return the knob for a GPU's highest graphics clock; `journaled`: the journal's record of a managed limit."""

    def check_clock_is_free(self, uuid: str) -> HardwareFailure | None:
        """Return why the graphics clock is not free, as far as visible; None where it is."""


CLOCK_KEY_END: Final = "/graphics_clock_mhz"


def clock_key(uuid: str) -> str:
    """Return the key of the knob for the highest graphics clock of a GPU."""
    return f"gpu/{uuid}{CLOCK_KEY_END}"


def limit_key(uuid: str) -> str:
    """Return the key of the knob for a GPU's power limit."""
    return f"gpu/{uuid}/power_limit_mw"
