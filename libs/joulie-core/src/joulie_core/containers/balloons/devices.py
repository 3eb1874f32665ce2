"""CPUs that balloon types prefer and avoid because of devices.

A device is what CPUs can be close to: a path in sysfs, the CPUs that the kernel has isolated, the performance or
efficient cores of a hybrid processor, the reserved CPUs. A type that is close to a device prefers its CPUs; all other
types avoid them, so that they are free when they are needed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from joulie_core.containers.idset import EMPTY, Cpus, IdSet
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.balloons_policy import RESERVED, BalloonTypeSpec

_RESOURCE: Final = "podresourceapi:"
_NODE: Final = re.compile(r"/sys/devices/system/node/node(\d{1,5})/?")
_CACHE: Final = re.compile(r"/sys/devices/system/cpu/cpu(\d{1,5})(?:/cache/index(\d))?/?")
#: Devices that are not paths; no path is equal to one.
_ISOLATED, _PERFORMANCE, _EFFICIENT, _RESERVED = "isolated", "performance", "efficient", "reserved"
#: Number of the second- and last-level cache among the caches of a CPU.
_L2_NUMBER, _L3_NUMBER = 2, 3


class Preferences:
    """Preferred and avoided CPUs of every type of a configuration."""

    def __init__(
        self,
        types: Sequence[BalloonTypeSpec],
        topology: HardwareTopology,
        reserved: Cpus | None,
        devices: Mapping[str, Cpus],
    ) -> None:
        """Collect the devices that any type is close to.

        Args:
            types: All types, in their order.
            topology: The node.
            reserved: The reserved CPUs where a set of them is configured.
            devices: CPUs close to devices, by path in sysfs. A device that is not there is no preference.
        """
        self._cpus: dict[str, Cpus] = {_ISOLATED: topology.isolated} if topology.isolated else {}
        special = {
            _ISOLATED: topology.isolated,
            _PERFORMANCE: topology.online - topology.efficient if topology.hybrid else EMPTY,
            _EFFICIENT: topology.efficient,
            _RESERVED: reserved or EMPTY,
        }
        for each in types:
            for name in _devices(each):
                cpus = special[name] if name in special else _path_cpus(topology, name, devices)
                if cpus:
                    self._cpus.setdefault(name, cpus)

    def close(self, each: BalloonTypeSpec) -> tuple[Cpus, ...]:
        """Return the CPUs of the devices that a type is close to, the most important first."""
        return tuple(self._cpus[name] for name in _devices(each) if name in self._cpus)

    def far(self, each: BalloonTypeSpec) -> tuple[Cpus, ...]:
        """Return the CPUs of the devices that only other types are close to."""
        own = _devices(each)
        return tuple(cpus for name, cpus in self._cpus.items() if name not in own)

    def resources(self, each: BalloonTypeSpec) -> tuple[str, ...]:
        """Return the resources whose devices, where a container has some, its balloon should be close to."""
        return tuple(
            path.removeprefix(_RESOURCE) for path in each.prefer_close_to_devices if path.startswith(_RESOURCE)
        )


def _devices(each: BalloonTypeSpec) -> list[str]:
    found = [path for path in each.prefer_close_to_devices if not path.startswith(_RESOURCE)]
    if each.prefer_isol_cpus:
        found.append(_ISOLATED)
    if each.prefer_core_type:
        found.append(each.prefer_core_type)
    if each.name == RESERVED:
        found.append(_RESERVED)
    return found


def _path_cpus(topology: HardwareTopology, path: str, devices: Mapping[str, Cpus]) -> Cpus:
    if match := _NODE.fullmatch(path):
        return _node_cpus(topology, int(match[1]))
    if match := _CACHE.fullmatch(path):
        return _cache_cpus(topology, int(match[1]), match[2])
    return devices.get(path, EMPTY)


def _node_cpus(topology: HardwareTopology, number: int) -> Cpus:
    """Return the CPUs of a NUMA node, or those nearest to it where it has none."""
    node = topology.nodes.get(number)
    if node is None or node.cpus:
        return node.cpus if node else EMPTY
    others = [other for other in topology.nodes.values() if other.cpus and other.id in node.distances]
    return min(others, key=lambda other: (node.distances[other.id], other.id)).cpus if others else EMPTY


def _cache_cpus(topology: HardwareTopology, number: int, index: str | None) -> Cpus:
    cpu = topology.cpus.get(number)
    if cpu is None:
        return EMPTY
    if index is None:
        return IdSet([number])
    if int(index) < _L2_NUMBER:
        return topology.cores[cpu.core]
    return topology.l2_groups[cpu.l2] if int(index) == _L2_NUMBER else topology.l3_groups[cpu.l3]
