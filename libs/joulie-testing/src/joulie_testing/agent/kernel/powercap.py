"""The powercap class: which zones there are, under which numbers, and their files.

Numbers are given in the order of registration, so they differ between boots, and a zone that leaves and returns gets
the lowest free one. A package whose last CPU goes offline loses its zones; the kernel switches their limits off as it
removes them. Source: Linux, Documentation/power/powercap/powercap.rst; drivers/powercap/powercap_sys.c and
intel_rapl_common.c (`rapl_remove_package`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.kernel.behaviour import Behaviour, Maximum
from joulie_testing.agent.kernel.filesystem import READ_ONLY, ROOT_ONLY, Filesystem
from joulie_testing.agent.kernel.zones import Register, ZoneState
from joulie_testing.agent.machine_spec import Limit, MachineSpec, Zone

DEVICES: Final = "sys/devices/virtual/powercap"
_CLASS: Final = "sys/class/powercap"
_CONTROLS: Final = ("intel-rapl", "intel-rapl-mmio")
_UW_PER_WATT: Final = 1_000_000
_SHORT_WINDOW_US: Final = 2_440
_OFF: Final = frozenset({Limit.LOCKED, Limit.SWITCHED_OFF, Limit.UNREADABLE, Limit.ABSENT})


class Powercap:
    """Zones with numbers. Top-level zones only have a number of their own; parts are counted below them."""

    def __init__(self, fs: Filesystem, spec: MachineSpec, behaviour: Behaviour) -> None:
        self._fs = fs
        self._spec = spec
        self._behaviour = behaviour
        self._switched_on = True
        #: Every top-level zone that the hardware has, registered or not.
        self.hardware: tuple[ZoneState, ...] = tuple(self._make())
        self._numbers: dict[str, dict[int, ZoneState]] = {control: {} for control in _CONTROLS}
        if self.hardware:
            self.register_all()

    def zones(self) -> Iterator[tuple[str, ZoneState]]:
        """Return all registered zones with their directories."""
        for control, numbers in self._numbers.items():
            for number, zone in sorted(numbers.items()):
                directory = f"{DEVICES}/{control}/{control}:{number:x}"
                yield directory, zone
                for place, part in enumerate(zone.parts):
                    yield f"{directory}/{control}:{number:x}:{place}", part

    def zone(self, name: str) -> ZoneState:
        """Return the top-level zone of a name, such as `package-0`; not the mmio one."""
        return next(zone for zone in self.hardware if zone.name == name and zone.kind is not Zone.MMIO)

    def register_all(self, order: Sequence[str] = ()) -> None:
        """Renumber all zones, those named first, as another boot may."""
        for numbers in self._numbers.values():
            numbers.clear()
        places = {name: place for place, name in enumerate(order)}
        for zone in sorted(self.hardware, key=lambda zone: places.get(zone.name, len(places))):
            self._number(zone)
        self._lay_out()

    def register(self, zone: ZoneState) -> None:
        """Let a zone appear under the lowest free number."""
        if zone not in self._numbers[_control(zone)].values():
            self._number(zone)
            self._lay_out()

    def unregister(self, zone: ZoneState) -> None:
        """Let a zone vanish; its register keeps its value, switched off."""
        numbers = self._numbers[_control(zone)]
        for number in [number for number, each in numbers.items() if each is zone]:
            del numbers[number]
            if not zone.locked and zone.limit is not Limit.ABSENT:
                zone.enabled = False
        self._lay_out()

    def follow_hotplug(self, before: frozenset[tuple[int, int]], after: frozenset[tuple[int, int]]) -> None:
        """Let zones come and go with the CPUs of their package and die."""
        for zone in self.hardware:
            place = (zone.package or 0, zone.die or 0)
            if zone.package is None or zone.kind is Zone.MMIO:
                continue
            if place in before - after:
                self.unregister(zone)
            elif place in after - before:
                self.register(zone)

    def reset(self) -> None:
        """Take what firmware sets at a boot, with counters at zero; the zones are to be registered anew."""
        for zone, new in zip(self.hardware, self._make(), strict=True):
            zone.registers, zone.parts = new.registers, new.parts
            zone.enabled, zone.energy_uj = new.enabled, 0.0

    # --- hardware ---

    def _make(self) -> Iterator[ZoneState]:
        spec = self._spec
        if Zone.PACKAGE in spec.zones:
            for package in range(spec.sockets):
                for die in range(spec.dies):
                    name = f"package-{package}" + (f"-die-{die}" if spec.dies > 1 else "")
                    zone = self._zone(Zone.PACKAGE, name, package, die, spec.limit)
                    for kind in (Zone.CORE, Zone.UNCORE, Zone.DRAM):
                        if kind in spec.zones:
                            zone.parts.append(self._zone(kind, kind.value, package, die, Limit.WRITABLE))
                    yield zone
        if Zone.PSYS in spec.zones:
            yield self._zone(Zone.PSYS, "psys", None, None, Limit.WRITABLE)
        if Zone.MMIO in spec.zones:
            yield self._zone(Zone.MMIO, "package-0", 0, 0, Limit.WRITABLE)

    def _zone(self, kind: Zone, name: str, package: int | None, die: int | None, limit: Limit) -> ZoneState:
        spec = self._spec
        zone = ZoneState(kind, name, package, die, limit, spec.energy_range_uj, enabled=limit not in _OFF)
        if limit is Limit.ABSENT:
            return zone
        reported = round(spec.max_watts * _UW_PER_WATT) if self._behaviour.maximum is Maximum.REPORTED else None
        # Firmware usually leaves the maximum of the short-term limit at zero; only packages have a field for theirs.
        maximum = reported if kind in {Zone.PACKAGE, Zone.MMIO} else None
        # The platform's limit leaves room for all packages and the board.
        times = 2 * spec.sockets if kind is Zone.PSYS else 1
        long_uw, short_uw = (round(times * watts * _UW_PER_WATT) for watts in (spec.limit_watts, spec.short_term_watts))
        zone.registers = [Register("long_term", long_uw, maximum, wide=spec.tpmi)]
        if kind in {Zone.PACKAGE, Zone.MMIO, Zone.PSYS}:
            zone.registers.append(Register("short_term", short_uw, 0, _SHORT_WINDOW_US, wide=spec.tpmi))
        if spec.tpmi and kind is Zone.PACKAGE:
            zone.registers.append(Register("peak_power", 2 * short_uw, None, wide=True))
        return zone

    # --- files ---

    def _number(self, zone: ZoneState) -> None:
        numbers = self._numbers[_control(zone)]
        numbers[next(n for n in range(len(numbers) + 1) if n not in numbers)] = zone

    def _lay_out(self) -> None:
        self._fs.remove(DEVICES)
        self._fs.remove(_CLASS)
        for control, numbers in self._numbers.items():
            if numbers or control == _CONTROLS[0]:
                self._put_link(f"{DEVICES}/{control}")
                self._fs.put(f"{DEVICES}/{control}/enabled", lambda: int(self._switched_on), self._switch)
        for directory, zone in self.zones():
            self._put_link(directory)
            self._put_zone(directory, zone)

    def _put_link(self, directory: str) -> None:
        self._fs.link(f"{_CLASS}/{directory.rpartition('/')[2]}", directory)

    def _switch(self, text: str) -> None:
        self._switched_on = parse.flag(text)

    def _put_zone(self, directory: str, zone: ZoneState) -> None:
        self._fs.put(f"{directory}/name", zone.name)
        self._fs.put(f"{directory}/energy_uj", lambda: int(zone.energy_uj), mode=ROOT_ONLY)
        self._fs.put(f"{directory}/max_energy_range_uj", zone.energy_range_uj)
        self._fs.put(f"{directory}/enabled", lambda: int(zone.enabled and not zone.locked), zone.write_enabled)
        for index, register in enumerate(zone.registers):
            self._put_constraint(f"{directory}/constraint_{index}", zone, register)

    def _put_constraint(self, prefix: str, zone: ZoneState, register: Register) -> None:
        mode = READ_ONLY if zone.limit is Limit.READ_ONLY else None
        self._fs.put(f"{prefix}_name", register.name)
        self._fs.put(f"{prefix}_power_limit_uw", *_bind(zone.show_limit, zone.write_limit, register), mode)
        if register.name != "peak_power":
            self._fs.put(f"{prefix}_time_window_us", *_bind(_window, zone.write_window, register), mode)
        if self._behaviour.maximum is not Maximum.ABSENT:
            self._fs.put(f"{prefix}_max_power_uw", lambda: zone.show_maximum(register))


def _bind(
    show: Callable[[Register], int], store: Callable[[Register, str], None], register: Register
) -> tuple[Callable[[], int], Callable[[str], None]]:
    return lambda: show(register), lambda text: store(register, text)


def _window(register: Register) -> int:
    return register.window_us


def _control(zone: ZoneState) -> str:
    return _CONTROLS[zone.kind is Zone.MMIO]
