"""Power limits of AMD EPYC sockets through the kernel's HSMP sensors.

AMD processors count energy in RAPL and have no limit there. Where the kernel's `amd_hsmp` driver registers its hwmon
sensors (Linux 6.16, or AMD's out-of-tree driver 2.0 on 5.10 and later), each socket has a directory with `power1_cap`
(read and write), `power1_cap_max` and `power1_input`, all in microwatts. Offers the sockets of that driver only, each
once. A limit found here takes the place of the one that a RAPL package zone lacks; where the socket has no
zone, the sensor stands alone and its `power1_input` is the power reading.

There is no minimum: the System Management Unit reports a maximum only.
Source: Linux, Documentation/arch/x86/amd_hsmp.rst and Documentation/hwmon/sysfs-interface.rst.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.rapl import NO_ORIGINALS, RaplZone, power_limit
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree

HWMON_ROOT: Final = "class/hwmon"
_SENSOR_NAME: Final = "amd_hsmp_hwmon"
_HWMON: Final = re.compile(r"hwmon\d+")
#: `_UID` of the socket's ACPI device, such as `ID01`; the number is hexadecimal.
_ACPI_UID: Final = re.compile(r"ID([0-9A-Fa-f]+)")


KEYS: Final = "hsmp/"
BACKEND: Final = "hsmp"


@dataclass(frozen=True, slots=True)
class HsmpSocket:
    """The power sensor of one socket."""

    #: Package number, as in `physical_package_id`.
    package: int
    #: Real path of the sensor's directory.
    path: str
    #: Highest limit; None where the firmware does not report it.
    max_power_uw: int | None


def attach(
    tree: SysfsTree, zones: Sequence[RaplZone], originals: Mapping[str, int] = NO_ORIGINALS
) -> tuple[RaplZone, ...]:
    """Return the package zones with the limits of HSMP where RAPL has none, and zones for sockets without one.

    A package that RAPL divides into dies keeps its zones as they are: HSMP limits the socket as a whole.
    """
    sockets = {socket.package: socket for socket in discover(tree)}
    attached = [
        _limited(tree, zone, sockets[zone.package], originals) if zone.package in sockets and zone.dies == 1 else zone
        for zone in zones
    ]
    covered = {zone.package for zone in zones}
    attached += [_alone(tree, socket, originals) for socket in sockets.values() if socket.package not in covered]
    return tuple(sorted(attached, key=lambda zone: (zone.package, zone.die or 0)))


def discover(tree: SysfsTree) -> tuple[HsmpSocket, ...]:
    """Return the sockets in order of their package."""
    paths = dict.fromkeys(tree.real(f"{HWMON_ROOT}/{name}") for name in tree.names(HWMON_ROOT, _HWMON))
    sensors = [path for path in paths if tree.read_text(f"{path}/name") == _SENSOR_NAME]
    # Built-in ACPI tables name the socket. The driver for machines without them registers all sockets below one device,
    # in order, and hwmon numbers grow in that order.
    packages = {path: _acpi_socket(tree, path) for path in sensors}
    unnamed = [path for path in sensors if packages[path] is None]
    taken = {package for package in packages.values() if package is not None}
    free = (number for number in range(len(sensors) + len(taken)) if number not in taken)
    packages |= dict(zip(unnamed, free, strict=False))
    sockets = (
        HsmpSocket(package, path, tree.read_known(f"{path}/power1_cap_max"))
        for path, package in packages.items()
        if package is not None
    )
    return tuple(_once(sorted(sockets, key=lambda socket: (socket.package, socket.path))))


def _limited(tree: SysfsTree, zone: RaplZone, socket: HsmpSocket, originals: Mapping[str, int]) -> RaplZone:
    if not isinstance(zone.power_limit, HardwareFailure):
        return zone
    return replace(
        zone,
        max_power_uw=socket.max_power_uw,
        power_limit=_limit(tree, socket, originals),
        enable=None,
        backend=BACKEND,
        power_sensor=f"{socket.path}/power1_input",
    )


def _alone(tree: SysfsTree, socket: HsmpSocket, originals: Mapping[str, int]) -> RaplZone:
    return RaplZone(
        tree=tree,
        directory=socket.path.rpartition("/")[2],
        path=socket.path,
        name=f"package-{socket.package}",
        package=socket.package,
        die=None,
        dies=1,
        max_power_uw=socket.max_power_uw,
        energy_range_uj=None,
        power_limit=_limit(tree, socket, originals),
        enable=None,
        backend=BACKEND,
        power_sensor=f"{socket.path}/power1_input",
    )


def _limit(tree: SysfsTree, socket: HsmpSocket, originals: Mapping[str, int]) -> SysfsKnob | HardwareFailure:
    key = f"{KEYS}package-{socket.package}/cap"
    return power_limit(tree, f"{socket.path}/power1_cap", key, socket.max_power_uw, originals)


def _acpi_socket(tree: SysfsTree, path: str) -> int | None:
    """Return the socket that the ACPI device behind a sensor is for."""
    uid = tree.read_text(f"{path}/device/firmware_node/uid")
    match = None if isinstance(uid, HardwareFailure) else _ACPI_UID.fullmatch(uid)
    return int(match[1], 16) if match else None


def _once(sockets: Iterable[HsmpSocket]) -> Iterable[HsmpSocket]:
    seen: set[int] = set()
    for socket in sockets:
        if socket.package not in seen:
            seen.add(socket.package)
            yield socket
