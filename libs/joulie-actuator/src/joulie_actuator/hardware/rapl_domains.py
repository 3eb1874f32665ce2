"""RAPL domains that are read and never written: psys, dram, core and uncore, and the constraints of the packages.

Guarantees each domain once, named by the package it belongs to, such as `psys` or `package-0/dram`. A domain is not
part of the packages' total: dram and psys lie outside of it, core and uncore inside. What the hardware does not have is
left out. Source: Linux, Documentation/power/powercap/powercap.rst.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.rapl import PACKAGE, RaplZone, constraint_names, zone_paths
from joulie_actuator.hardware.sysfs import SysfsTree

_SUBZONE: Final = re.compile(r"intel-rapl:[0-9a-f]+:[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class RaplDomain:
    """One energy counter beside those of the packages."""

    tree: SysfsTree
    path: str
    #: Such as `psys` or `package-1/dram`.
    name: str
    #: Where the counter wraps around; None where the hardware does not report it.
    energy_range_uj: int | None

    def read_energy_uj(self) -> int | HardwareFailure:
        """Return the energy counter, in microjoules."""
        return self.tree.read_int(f"{self.path}/energy_uj")


@dataclass(frozen=True, slots=True)
class RaplConstraint:
    """One power limit of a package zone, by name; limits are set elsewhere, see `joulie_actuator.hardware.rapl`."""

    tree: SysfsTree
    #: Such as `package-0`.
    zone: str
    #: `long_term`, `short_term` or `peak_power`.
    name: str
    limit_path: str
    time_window_path: str

    def read(self) -> "ConstraintReading | None":
        """Return the limit as it is set; None where there is no register behind it."""
        limit_uw = self.tree.read_int(self.limit_path)
        if isinstance(limit_uw, HardwareFailure):
            return None
        return ConstraintReading(self.zone, self.name, limit_uw, self.tree.read_known(self.time_window_path))


@dataclass(frozen=True, slots=True)
class ConstraintReading:
    """One power limit of a zone in force, whatever set it."""

    #: Such as `package-0`.
    zone: str
    #: `long_term`, `short_term` or `peak_power`.
    constraint: str
    limit_uw: int | None
    #: Interval over which the limit bounds the average; None where the hardware does not report it.
    time_window_us: int | None


def discover(tree: SysfsTree) -> tuple[RaplDomain, ...]:
    """Return the domains, in order of their names."""
    found: dict[str, RaplDomain] = {}
    for path in zone_paths(tree):
        name = tree.read_text(f"{path}/name")
        if isinstance(name, HardwareFailure):
            continue
        if not PACKAGE.fullmatch(name):
            found.setdefault(name, _domain(tree, path, name))
            continue
        for directory in tree.names(path, _SUBZONE):
            child = f"{path}/{directory}"
            child_name = tree.read_text(f"{child}/name")
            if not isinstance(child_name, HardwareFailure):
                found.setdefault(f"{name}/{child_name}", _domain(tree, child, f"{name}/{child_name}"))
    return tuple(found[name] for name in sorted(found))


def discover_constraints(zones: Iterable[RaplZone]) -> tuple[RaplConstraint, ...]:
    """Return the constraints of package zones, in the order of the hardware; also those without a register."""
    return tuple(constraint for zone in zones for constraint in _constraints(zone))


def _constraints(zone: RaplZone) -> Iterator[RaplConstraint]:
    for number, name in enumerate(constraint_names(zone.tree, zone.path)):
        prefix = f"{zone.path}/constraint_{number}"
        yield RaplConstraint(zone.tree, zone.name, name, f"{prefix}_power_limit_uw", f"{prefix}_time_window_us")


def _domain(tree: SysfsTree, path: str, name: str) -> RaplDomain:
    return RaplDomain(tree, path, name, tree.read_known(f"{path}/max_energy_range_uj"))
