"""Package power by RAPL: the zones that may be capped, their limits and their energy counters.

Offers package zones only, each once: `intel-rapl:N` named `package-N` or `package-N-die-M`, deduplicated by
real path. Never psys, dram, core or uncore zones, and never `intel-rapl-mmio`, which is a second register for the same
package: the lower of the two limits holds, so an mmio limit is left unmanaged and reported as a warning.

Only the long-term limit is written. It bounds the average over its time window, which is what a power budget bounds;
the short-term limit lets a package exceed it for fractions of a window and stays as the vendor set it. Where the
short-term limit is below the cap, it binds, and the package draws less than the cap allows.

AMD counts energy and has no limit: the kernel shows the files of one all the same, and answers ENODATA.
Source: Linux, Documentation/power/powercap/powercap.rst and drivers/powercap.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from joulie_actuator.hardware.knob import LOWEST_CAP_SHARE, HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree
from joulie_actuator.reasons import Reason

UW_PER_WATT: Final = 1_000_000
#: Prefix of the keys of all knobs here. They name what is limited: directory numbers change on a driver reload.
KEYS: Final = "rapl/"
#: The usual power unit, an eighth of a watt (Intel SDM, volume 3B, MSR_RAPL_POWER_UNIT): a limit may read that much
#: less after a wake-up or a reload of the driver, without anybody having written it.
_UNIT_UW: Final = 125_000

#: The second place is for containers that mount only part of sysfs; the numbers are hexadecimal.
PLACES: Final = ("class/powercap", "devices/virtual/powercap/intel-rapl")
ZONE: Final = re.compile(r"intel-rapl:[0-9a-f]+")
_MMIO: Final = re.compile(r"intel-rapl-mmio:[0-9a-f]+")
PACKAGE: Final = re.compile(r"package-(\d+)(?:-die-(\d+))?")
_LONG_TERM: Final = "long_term"
#: MAX_CONSTRAINTS_PER_ZONE of powercap.
_MOST_CONSTRAINTS: Final = 10
NO_ORIGINALS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RaplKnob(SysfsKnob):
    """A file of a zone, used only while the directory is still that of the zone; a `SwitchedLimit`.

    Zones are numbered anew when the driver is loaded again, or when a package without CPUs returns. Then the path leads
    to another package, whose limit must not be taken for this one's.
    """

    zone_path: str = ""
    zone_name: str = ""
    #: Of a limit: `enabled` of the zone. What a limit reads while that is 0 is not in force.
    switch: SysfsKnob | None = None

    def read(self) -> int | HardwareFailure:
        """Return the value in force."""
        return self._moved() or SysfsKnob.read(self)

    def write(self, value: int) -> int | HardwareFailure:
        """Write, read back, and return what was read."""
        return self._moved() or SysfsKnob.write(self, value)

    @property
    def moved(self) -> bool:
        """Whether the path leads to another zone by now."""
        return self._moved() is not None

    def _moved(self) -> HardwareFailure | None:
        name = self.tree.read_text(f"{self.zone_path}/name")
        if isinstance(name, HardwareFailure) or name == self.zone_name:
            return None  # where the directory is gone, the file itself fails with the reason
        return HardwareFailure(Reason.DEVICE_LOST, f"{self.zone_path} is {name} now, and was {self.zone_name}")


@dataclass(frozen=True, slots=True)
class RaplZone:
    """One package, or one die of it."""

    tree: SysfsTree
    #: Such as `intel-rapl:0`; `path` is where it is.
    directory: str
    path: str
    #: Such as `package-0-die-1`.
    name: str
    package: int
    die: int | None
    #: How many zones the package has.
    dies: int
    #: Thermal design power; None where the hardware does not report it.
    max_power_uw: int | None
    #: Where the energy counter wraps around; None where the hardware does not report it.
    energy_range_uj: int | None
    #: The long-term limit, or why there is none.
    power_limit: SysfsKnob | HardwareFailure
    #: 1 where the limit is in force. A limit that is off or locked reads 0. None where a limit cannot be switched off.
    enable: SysfsKnob | None
    #: What sets the limit, as in `status.control.cpu.backend`.
    backend: str = "rapl"
    #: A file with the power in microwatts, for a package without an energy counter.
    power_sensor: str | None = None

    def read_energy_uj(self) -> int | HardwareFailure:
        """Return the energy counter. Only root may read it (CVE-2020-8694)."""
        return self.tree.read_int(f"{self.path}/energy_uj")

    def read_power_uw(self) -> int | HardwareFailure:
        """Return the power in microwatts as the hardware averages it; firmware shows zero for "not measured"."""
        if self.power_sensor is None:
            return HardwareFailure(Reason.NO_INTERFACE, f"{self.name} has no power sensor")
        power_uw = self.tree.read_int(self.power_sensor)
        if isinstance(power_uw, HardwareFailure) or power_uw > 0:
            return power_uw
        return HardwareFailure(Reason.NO_READING, f"{self.power_sensor} reads {power_uw}")

    @property
    def is_off(self) -> bool:
        """Whether the limit is known not to be in force, whatever it reads."""
        return self.enable is not None and self.enable.read() == 0

    @property
    def moved(self) -> bool:
        """Whether the path leads to another zone by now."""
        return isinstance(self.power_limit, RaplKnob) and self.power_limit.moved

    def failure(self) -> HardwareFailure | None:
        """Return why the zone cannot be capped, as far as that is known without writing."""
        return self.power_limit if isinstance(self.power_limit, HardwareFailure) else self.power_limit.probe_write()


def discover(tree: SysfsTree, originals: Mapping[str, int] = NO_ORIGINALS) -> tuple[RaplZone, ...]:
    """Return the package zones, by package and die.

    Args:
        tree: where they are.
        originals: of the managed limits, by key. Where the hardware reports no maximum, the range ends there, and for
            all other limits at the value in force; never at a value that Joulie has written.
    """
    named: dict[str, str] = {}
    for path in zone_paths(tree):
        name = tree.read_text(f"{path}/name")
        if not isinstance(name, HardwareFailure):
            named.setdefault(name, path)
    found = [(match, path) for name, path in named.items() if (match := PACKAGE.fullmatch(name))]
    dies = Counter(match[1] for match, _ in found)
    zones = (_zone(tree, path, match, dies[match[1]], originals) for match, path in found)
    return tuple(sorted(zones, key=lambda zone: (zone.package, zone.die or 0)))


def zone_paths(tree: SysfsTree) -> tuple[str, ...]:
    """Return the real path of every zone of the MSR interface, whatever its kind, each once."""
    found = (tree.real(f"{place}/{directory}") for place in PLACES for directory in tree.names(place, ZONE))
    return tuple(dict.fromkeys(found))


def constraint_names(tree: SysfsTree, path: str) -> Iterator[str]:
    """Yield the names of a zone's constraints, which are numbered from 0 without a gap."""
    for number in range(_MOST_CONSTRAINTS):
        name = tree.read_text(f"{path}/constraint_{number}_name")
        if isinstance(name, HardwareFailure):
            return
        yield name


def warnings(tree: SysfsTree, zones: Sequence[RaplZone]) -> tuple[str, ...]:
    """Return what affects the power of this machine and may not be expected."""
    messages = [
        f"{zone.name}: {zone.power_limit.message}" for zone in zones if isinstance(zone.power_limit, HardwareFailure)
    ]
    mmio = tree.names(PLACES[0], _MMIO)
    if mmio and zones:
        messages.append(
            f"{', '.join(mmio)} may hold the power below the cap: it is a second limit, which is left unmanaged"
        )
    elif mmio:
        messages.append(
            f"{', '.join(mmio)} is present and the package zones of intel-rapl are not: power cannot be capped"
        )
    return tuple(messages)


def package_range_uw(zones: Iterable[RaplZone]) -> KnobLimits | None:
    """Return what every package can be capped to, all its dies together; None where the range of a zone is unknown."""
    lows: Counter[int] = Counter()
    highs: Counter[int] = Counter()
    for zone in zones:
        if zone.max_power_uw is None:
            return None
        limits = _limits(zone.max_power_uw)
        lows[zone.package] += limits.low
        highs[zone.package] += limits.high
    return KnobLimits(max(lows.values()), min(highs.values())) if highs else None


def _zone(tree: SysfsTree, path: str, named: re.Match[str], dies: int, originals: Mapping[str, int]) -> RaplZone:
    directory, name = path.rpartition("/")[2], named[0]
    constraint = next((number for number, each in enumerate(constraint_names(tree, path)) if each == _LONG_TERM), None)
    prefix = f"constraint_{constraint}"
    max_uw = None if constraint is None else tree.read_known(f"{path}/{prefix}_max_power_uw")
    switch_key = f"{KEYS}{name}/enabled"
    switch = RaplKnob(
        tree, f"{path}/enabled", switch_key, "flag", KnobLimits(0, 1), KnobKind.SWITCH, zone_path=path, zone_name=name
    )
    return RaplZone(
        tree=tree,
        directory=directory,
        path=path,
        name=name,
        package=int(named[1]),
        die=int(named[2]) if named[2] else None,
        dies=dies,
        max_power_uw=max_uw,
        energy_range_uj=tree.read_known(f"{path}/max_energy_range_uj"),
        power_limit=_long_term_limit(tree, f"{path}/{prefix}_power_limit_uw", switch, max_uw, originals)
        if constraint is not None
        else HardwareFailure(
            Reason.NO_INTERFACE, "energy is counted and cannot be capped: there is no long-term limit"
        ),
        enable=switch,
    )


def _long_term_limit(
    tree: SysfsTree, path: str, switch: RaplKnob, max_uw: int | None, originals: Mapping[str, int]
) -> RaplKnob | HardwareFailure:
    zone_path, zone_name = switch.zone_path, switch.zone_name
    limit = power_limit(tree, path, f"{KEYS}{zone_name}/{_LONG_TERM}", max_uw, originals)
    if isinstance(limit, HardwareFailure):
        return limit
    limits = replace(limit.limits, rounding=_UNIT_UW)
    return RaplKnob(tree, path, limit.key, limit.unit, limits, zone_path=zone_path, zone_name=zone_name, switch=switch)


def power_limit(
    tree: SysfsTree, path: str, key: str, max_uw: int | None, originals: Mapping[str, int]
) -> SysfsKnob | HardwareFailure:
    """Return the control of a power limit in microwatts, with its range, or why there is none."""
    current_uw = tree.read_int(path)
    if isinstance(current_uw, HardwareFailure):
        return HardwareFailure(current_uw.reason, f"energy is counted and cannot be capped: {current_uw.message}")
    high_uw = max_uw or originals.get(key, current_uw)
    if high_uw <= 0:
        return HardwareFailure(Reason.NO_CAP_RANGE, f"{key}: neither a maximum nor the limit itself gives a range")
    return SysfsKnob(tree, path, key, "uW", _limits(high_uw))


def _limits(high_uw: int) -> KnobLimits:
    return KnobLimits(round(high_uw * LOWEST_CAP_SHARE), high_uw)
