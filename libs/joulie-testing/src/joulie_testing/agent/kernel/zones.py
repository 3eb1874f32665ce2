"""RAPL zones as registers: what a write leaves in them, and when it is refused.

A limit is stored in multiples of the power unit, rounded down, and cut to the width of the register; a time window in
the form 2^y * (1 + z/4) units. A locked limit takes nothing, and powercap hides the reason: ENODATA for limits, ENOSYS
for `enabled`. Source: Linux, drivers/powercap/intel_rapl_common.c and powercap_sys.c; Intel SDM, volume 3B, 16.10.
"""

import errno
from dataclasses import dataclass, field
from typing import Final

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.machine_spec import Limit, Zone

POWER_UNIT_UW: Final = 125_000
TIME_UNIT_US: Final = 976
_NARROW_BITS: Final = 15
_WIDE_BITS: Final = 18
_LARGEST_EXPONENT: Final = 31
_TIME_WINDOW_US: Final = 999_424


@dataclass(slots=True, eq=False)
class Register:
    """One constraint of a zone."""

    name: str
    limit_uw: int
    #: The maximum in the register; None is "no such field".
    max_uw: int | None
    window_us: int = _TIME_WINDOW_US
    wide: bool = False
    #: What firmware lets through, whatever is written.
    clamp_uw: tuple[int, int] | None = None

    def store_limit(self, value_uw: int) -> None:
        """Round down to units, cut to the register, and clamp as firmware does."""
        bits = _WIDE_BITS if self.wide else _NARROW_BITS
        stored = (value_uw // POWER_UNIT_UW & (1 << bits) - 1) * POWER_UNIT_UW
        if self.clamp_uw is not None:
            stored = min(max(stored, self.clamp_uw[0]), self.clamp_uw[1])
        self.limit_uw = stored

    def store_window(self, value_us: int) -> None:
        """Store the longest window that the register can express and that is no longer."""
        units = value_us // TIME_UNIT_US
        if not units:
            raise OSError(errno.EINVAL, "Invalid argument")
        exponent = min(units.bit_length() - 1, _LARGEST_EXPONENT)
        quarters = min(4 * (units - (1 << exponent)) // (1 << exponent), 3)
        self.window_us = ((4 + quarters) << exponent) // 4 * TIME_UNIT_US


@dataclass(slots=True, eq=False)
class ZoneState:
    """One zone. Where it is in sysfs is not its own affair: numbers change."""

    kind: Zone
    name: str
    #: None for the platform's.
    package: int | None
    die: int | None
    limit: Limit
    energy_range_uj: int
    registers: list[Register] = field(default_factory=list)
    parts: "list[ZoneState]" = field(default_factory=list)
    enabled: bool = True
    energy_uj: float = 0.0

    @property
    def locked(self) -> bool:
        """Whether the kernel refuses writes."""
        return self.limit in {Limit.LOCKED, Limit.UNREADABLE}

    @property
    def in_force_uw(self) -> int | None:
        """The lowest limit that the hardware keeps to; None where there is none."""
        if self.limit in {Limit.UNREADABLE, Limit.ABSENT} or not (self.enabled or self.limit is Limit.LOCKED):
            return None
        return min((register.limit_uw for register in self.registers), default=None)

    def long_term(self) -> Register | None:
        """Return the constraint that caps the average."""
        return next((register for register in self.registers if register.name == "long_term"), None)

    def show_limit(self, register: Register) -> int:
        """Read a limit."""
        if self.limit is Limit.UNREADABLE:
            raise OSError(errno.ENODATA, "No data available")
        return register.limit_uw

    def show_maximum(self, register: Register) -> int:
        """Read the most that a limit may be."""
        if register.max_uw is None or self.limit is Limit.UNREADABLE:
            raise OSError(errno.ENODATA, "No data available")
        return register.max_uw

    def write_limit(self, register: Register, text: str) -> None:
        """Write a limit."""
        value = parse.decimal(text)
        self._refuse_locked(errno.ENODATA)
        if self.limit is not Limit.HELD:
            register.store_limit(value)

    def write_window(self, register: Register, text: str) -> None:
        """Write a time window."""
        value = parse.decimal(text)
        self._refuse_locked(errno.ENODATA)
        register.store_window(value)

    def write_enabled(self, text: str) -> None:
        """Switch the limits of the zone on or off."""
        wanted = parse.flag(text)
        self._refuse_locked(errno.ENOSYS)
        if self.limit is not Limit.ABSENT:
            self.enabled = wanted

    def consume(self, joules: float) -> None:
        """Advance the counter, which starts again at zero beyond its range."""
        self.energy_uj = (self.energy_uj + joules * 1e6) % (self.energy_range_uj + 1)

    def _refuse_locked(self, code: int) -> None:
        if self.locked:
            raise OSError(code, "locked")
