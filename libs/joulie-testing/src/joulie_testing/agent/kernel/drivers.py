"""Drivers below cpufreq: what they add to its files, and what they make of a limit.

Only a driver with a table of frequencies changes the limit that is shown: cpufreq rounds it down to an entry. The
others show what was written, within the range of the hardware, and round only the frequency that the CPUs run at.
Source: Linux, drivers/cpufreq/cpufreq.c (`cpufreq_set_policy`, `__resolve_freq`), intel_pstate.c, amd-pstate.c,
acpi-cpufreq.c, cppc_cpufreq.c; Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from joulie_core.units import KHZ_PER_MHZ
from joulie_testing.agent.machine_spec import MachineSpec

_OWN: Final = ("performance", "powersave")
_COMMON: Final = ("conservative", "ondemand", "userspace", "powersave", "performance", "schedutil")


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One value of `scaling_driver`."""

    governors: tuple[str, ...] = _COMMON
    #: Limits are rounded down to a table, which `scaling_available_frequencies` shows.
    has_table: bool = False
    #: `bios_limit` shows the platform's limit.
    has_bios_limit: bool = False
    #: `energy_performance_preference` is there.
    has_epp: bool = False
    has_base_frequency: bool = False
    #: What the CPUs' frequency is a multiple of.
    step_khz: int = 1
    #: Thermal requests come from one cooling device per policy instead of ACPI's one per CPU.
    cools_by_policy: bool = False

    @property
    def active(self) -> bool:
        """Whether the driver is its own governor."""
        return self.governors == _OWN


DRIVERS: Final[Mapping[str, Driver]] = MappingProxyType(
    {
        "intel_pstate": Driver(governors=_OWN, has_epp=True, has_base_frequency=True, step_khz=100_000),
        "intel_cpufreq": Driver(has_epp=True, has_base_frequency=True, step_khz=100_000),
        "amd-pstate": Driver(),
        "amd-pstate-epp": Driver(governors=_OWN, has_epp=True),
        "acpi-cpufreq": Driver(has_table=True, has_bios_limit=True),
        "cppc_cpufreq": Driver(cools_by_policy=True),
    }
)


def driver_of(spec: MachineSpec) -> Driver:
    """Return how the machine's driver behaves."""
    return DRIVERS[spec.driver]


def table_khz(spec: MachineSpec, highest_khz: int) -> tuple[int, ...]:
    """Return the frequencies that the firmware lists, highest first; empty where the driver has no table."""
    if not driver_of(spec).has_table:
        return ()
    if spec.frequencies_khz:
        return tuple(sorted(spec.frequencies_khz, reverse=True))
    nominal = (spec.nominal_mhz or 0) * KHZ_PER_MHZ or (highest_khz + spec.lowest_khz) // 2
    return tuple(sorted({highest_khz, nominal, (nominal + spec.lowest_khz) // 2, spec.lowest_khz}, reverse=True))
