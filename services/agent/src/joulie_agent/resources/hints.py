"""Topology hints of a container: what is close to its devices and to the block devices and sysfs paths it mounts."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from joulie_agent.hardware.sysfs import SysfsTree
from joulie_agent.nri.proto.nri_pb2 import Container
from joulie_agent.resources.device_locality import DeviceKind, DeviceLocalities, Locality
from joulie_core.containers.container import TopologyHint
from joulie_core.containers.topology import HardwareTopology

#: A container with more devices has those of the whole machine, as a privileged one does: that is no hint.
_MOST_DEVICES: Final = 64
_KINDS: Final = {"b": DeviceKind.BLOCK, "c": DeviceKind.CHARACTER, "u": DeviceKind.CHARACTER}
#: Localities do not change while the machine runs.
_CACHED: Final = 4096


class HintSource:
    """Finds hints on one host.

    Args:
        sys: the host's /sys.
        topology: the node.
    """

    def __init__(self, sys: SysfsTree, topology: HardwareTopology) -> None:
        localities = DeviceLocalities(sys, topology)
        self._of_device = lru_cache(_CACHED)(localities.of_device)
        self._of_path = lru_cache(_CACHED)(localities.of_path)

    def hints(self, container: Container) -> tuple[TopologyHint, ...]:
        """Return the hints of a container, in the order of its devices and mounts."""
        return tuple(locality.hint(provider) for provider, locality in self._found(container) if locality is not None)

    def close_to(self, path: str) -> Locality | None:
        """Return what is close to a path of the host."""
        return self._of_path(path)

    def _found(self, container: Container) -> Iterator[tuple[str, Locality | None]]:
        devices = container.linux.devices
        for device in devices if len(devices) <= _MOST_DEVICES else ():
            if (kind := _KINDS.get(device.type)) is not None:
                yield f"device:{device.path}", self._of_device(kind, device.major, device.minor)
        for mount in container.mounts:
            if mount.source.startswith(("/dev/", "/sys/")):
                yield f"mount:{mount.source}", self._of_path(mount.source)
