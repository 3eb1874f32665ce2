"""Partitions of AMD's GPUs, by the names that AMD's device plugin has for them.

A partition beyond the first of a GPU is a platform device, `amdgpu_xcp_<n>`, with a render node of its own; KFD has for
each render node the PCI address of the GPU behind it. Guarantees that a name is told for one GPU only: one whose GPU is
not certain is left out, as where a container may not read KFD's topology.
Source: Linux, drivers/gpu/drm/amd/amdxcp/amdgpu_xcp_drv.c and drivers/gpu/drm/amd/amdkfd/kfd_topology.c
(`location_id`, to which kernels add the number of the partition in the bits of the function or in the highest four);
ROCm/k8s-device-plugin 1.31, internal/pkg/amdgpu.
"""

import re
from collections.abc import Mapping
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree

_NODES: Final = "class/kfd/kfd/topology/nodes"
_PLATFORM: Final = "devices/platform"
_NODE: Final = re.compile(r"\d{1,6}")
_PARTITION: Final = re.compile(r"amdgpu_xcp_\d{1,6}")
_RENDER: Final = re.compile(r"renderD\d{1,6}")
_PROPERTY: Final = re.compile(r"^(drm_render_minor|location_id|domain) (\d{1,10})$", re.MULTILINE)
#: First number of a render node: a node of the topology without one has 0.
_FIRST_RENDER: Final = 128


def partition_names(tree: SysfsTree) -> Mapping[str, tuple[str, ...]]:
    """Return the names of partitions by the PCI address of their GPU, such as `0000:c1:00.0`."""
    addresses = _addresses(tree)
    found: dict[str, tuple[str, ...]] = {}
    for name in tree.names(_PLATFORM, _PARTITION):
        renders = tree.names(f"{_PLATFORM}/{name}/drm", _RENDER)
        address = addresses.get(renders[0]) if len(renders) == 1 else None
        if address is not None:
            found[address] = (*found.get(address, ()), name)
    return found


def _addresses(tree: SysfsTree) -> Mapping[str, str | None]:
    """Return the PCI address of the GPU by the name of a render node; None where two nodes differ."""
    addresses: dict[str, str | None] = {}
    for node in tree.names(_NODES, _NODE):
        content = tree.read_content(f"{_NODES}/{node}/properties")
        if isinstance(content, HardwareFailure):
            continue
        found = {name: int(value) for name, value in _PROPERTY.findall(content)}
        if found.get("drm_render_minor", 0) < _FIRST_RENDER or not {"location_id", "domain"} <= found.keys():
            continue
        render = f"renderD{found['drm_render_minor']}"
        address = _address(found["domain"], found["location_id"])
        addresses[render] = address if addresses.get(render, address) == address else None
    return addresses


def _address(domain: int, location: int) -> str:
    """Return the address of a GPU, which is the first function of its device."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.0"
