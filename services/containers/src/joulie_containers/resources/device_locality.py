"""CPUs and memory nodes that are close to a device, a path in sysfs or a mounted directory.

The kernel shows the locality of a device in its directory in sysfs or in that of the bus that it is on. What it does
not show is unknown, and so is what is equally close to all CPUs.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_core.containers.container import TopologyHint
from joulie_core.containers.idset import EMPTY, Cpus, IdSet, InvalidIdListError, MemoryNodes
from joulie_core.containers.topology import HardwareTopology

_SYS: Final = "/sys/"
_DEV: Final = "/dev/"
_NODE: Final = re.compile(r"devices/system/node/node(\d{1,5})")
_CPU: Final = re.compile(r"devices/system/cpu/cpu(\d{1,5})(?P<cache>/cache/index\d+)?")
_ANY: Final = re.compile(r".+")
#: Devices below a logical volume or a RAID; deeper stacks are not followed.
_DEEPEST_STACK: Final = 4


class DeviceKind(StrEnum):
    """Kind of a device node, as the directories of sysfs are named."""

    BLOCK = "block"
    CHARACTER = "char"


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node of a container."""

    #: In the container.
    path: str
    kind: DeviceKind
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Locality:
    """CPUs and memory nodes that are close; at least one of both is known."""

    cpus: Cpus
    nodes: MemoryNodes

    def hint(self, provider: str) -> TopologyHint:
        """Return it as a hint for placement; see `TopologyHint.provider`."""
        return TopologyHint(provider=provider, cpus=str(self.cpus), nodes=str(self.nodes))


class DeviceLocalities:
    """Finds what is close, on one host."""

    def __init__(self, sys: SysfsTree, topology: HardwareTopology) -> None:
        self._sys = sys
        self._topology = topology

    def of_device(self, kind: DeviceKind, major: int, minor: int) -> Locality | None:
        """Return what is close to a device node."""
        return self._of_directory(f"dev/{kind}/{major}:{minor}")

    def of_path(self, path: str) -> Locality | None:
        """Return what is close to an absolute path of the host: of sysfs, or of a block device such as `/dev/sda`.

        A directory elsewhere is unknown, since the host's mounts are not visible here.
        """
        plain = str(PurePosixPath(path))
        if ".." in PurePosixPath(path).parts:
            return None
        if plain.startswith(_SYS):
            return self._of_directory(plain.removeprefix(_SYS))
        if plain.startswith(_DEV):
            name = plain.removeprefix(_DEV).replace("/", "!")
            return self._of_directory(f"class/block/{name}")
        return None

    def hints(self, mounted: Iterable[str], devices: Iterable[DeviceNode]) -> tuple[TopologyHint, ...]:
        """Return the topology hints of a container, by its mounts and devices; none for what is unknown.

        Args:
            mounted: Paths of the host that are mounted into the container.
            devices: Its devices.
        """
        found = [(f"mount:{path}", self.of_path(path)) for path in mounted]
        found += [(f"device:{each.path}", self.of_device(each.kind, each.major, each.minor)) for each in devices]
        return tuple(locality.hint(provider) for provider, locality in found if locality is not None)

    def _of_directory(self, directory: str, depth: int = 0) -> Locality | None:
        real = self._sys.real(directory)
        if match := _NODE.fullmatch(real):
            return self._of_nodes(IdSet([int(match[1])]))
        if match := _CPU.fullmatch(real):
            shared = self._list(f"{real}/shared_cpu_list") if match["cache"] else IdSet([int(match[1])])
            return self._of_cpus(shared)
        for level in _upwards(real):
            found = self._of_bus_device(level)
            if found is not None:
                return found
        return self._of_stack(real, depth) if depth < _DEEPEST_STACK else None

    def _of_bus_device(self, directory: str) -> Locality | None:
        node = self._sys.read_int(f"{directory}/numa_node")
        if not isinstance(node, HardwareFailure) and node in self._topology.nodes:
            return self._of_nodes(IdSet([node]))
        return self._of_cpus(self._list(f"{directory}/local_cpulist"))

    def _of_stack(self, directory: str, depth: int) -> Locality | None:
        """Return what is close to the devices that a logical volume or a RAID consists of."""
        below = self._sys.names(f"{directory}/slaves", _ANY)
        found = [self._of_directory(f"{directory}/slaves/{name}", depth + 1) for name in below]
        parts = [each for each in found if each is not None]
        if not parts or len(parts) < len(found):
            return None
        cpus, nodes = EMPTY, EMPTY
        for each in parts:
            cpus, nodes = cpus | each.cpus, nodes | each.nodes
        return self._unless_all(cpus, nodes)

    def _of_nodes(self, nodes: MemoryNodes) -> Locality | None:
        known = nodes & IdSet(self._topology.nodes)
        cpus = EMPTY
        for node in known:
            cpus |= self._topology.nodes[node].cpus
        return self._unless_all(cpus, known)

    def _of_cpus(self, cpus: Cpus) -> Locality | None:
        online = cpus & self._topology.online
        return self._unless_all(online, self._topology.nodes_of(online)) if online else None

    def _unless_all(self, cpus: Cpus, nodes: MemoryNodes) -> Locality | None:
        everywhere = cpus == self._topology.online
        return None if everywhere or not (cpus or nodes) else Locality(cpus, nodes)

    def _list(self, path: str) -> IdSet:
        text = self._sys.read_text(path)
        if isinstance(text, HardwareFailure):
            return EMPTY
        try:
            return IdSet.parse(text)
        except InvalidIdListError:
            return EMPTY


def _upwards(path: str) -> Iterator[str]:
    """Return a path and the directories above it."""
    while path and path != "." and not path.startswith(".."):
        yield path
        path = path.rpartition("/")[0]
