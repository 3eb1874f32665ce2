"""Topology hints of a container: what is close to its devices and to the block devices and sysfs paths it mounts."""

from typing import Final

from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_containers.nri.proto.nri_pb2 import Container
from joulie_containers.resources.device_locality import DeviceKind, DeviceLocalities, DeviceNode
from joulie_core.containers.container import TopologyHint
from joulie_core.containers.idset import Cpus
from joulie_core.containers.topology import HardwareTopology

#: A container with more devices has those of the whole machine, as a privileged one does: that is no hint.
_MOST_DEVICES: Final = 64
_KINDS: Final = {"b": DeviceKind.BLOCK, "c": DeviceKind.CHARACTER, "u": DeviceKind.CHARACTER}


class HintSource:
    """Finds hints on one host.

    Args:
        sys: the host's /sys.
        topology: the node.
    """

    def __init__(self, sys: SysfsTree, topology: HardwareTopology) -> None:
        self._localities = DeviceLocalities(sys, topology)

    def hints(self, container: Container) -> tuple[TopologyHint, ...]:
        """Return the hints of a container."""
        listed = container.linux.devices
        devices = [
            DeviceNode(each.path, _KINDS[each.type], each.major, each.minor)
            for each in (listed if len(listed) <= _MOST_DEVICES else ())
            if each.type in _KINDS
        ]
        return self._localities.hints([mount.source for mount in container.mounts], devices)

    def close_cpus(self, path: str) -> Cpus | None:
        """Return the CPUs close to a path of the host; None where that is not known."""
        locality = self._localities.of_path(path)
        return None if locality is None else locality.cpus
