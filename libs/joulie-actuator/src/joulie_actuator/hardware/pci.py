"""GPUs on the PCI bus: how many of which vendor, without any vendor's library. Needs no privileges.

Counts only what is a GPU for certain: graphics that may be part of the processor or of the board leave it undecided
whether there is one, and a bus that cannot be read gives no result. A GPU that its driver does not know, or that has no
driver, is counted. Names of models are not on the bus.
Source: PCI Code and ID Assignment, class codes 03 (display) and 12 (processing accelerator); Linux,
Documentation/ABI/testing/sysfs-bus-pci.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_core.gpu_vendors import GPU_VENDORS

PCI_DEVICES: Final = "bus/pci/devices"
_FUNCTION: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_CODE: Final = re.compile(r"0x[0-9a-f]+")
_VENDORS: Final = {vendor.pci_id: vendor for vendor in GPU_VENDORS}
_VGA: Final = 0x0300


@dataclass(frozen=True, slots=True)
class PciGpus:
    """The GPUs on the bus."""

    #: Physical GPUs by vendor, as the inventory spells it.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: Whether something on the bus may be a GPU, so that an empty count does not mean that there is none.
    undecided: bool = False


def read_pci_gpus(tree: SysfsTree) -> PciGpus | None:
    """Read the bus; None where there is none to read."""
    functions = tree.names(PCI_DEVICES, _FUNCTION)
    if not functions:
        # Every bus has a bridge: an empty one is a directory that is hidden, or not mounted.
        return None
    counts: Counter[str] = Counter()
    undecided = False
    for function in functions:
        vendor, kind = _read(tree, function, "vendor"), _read(tree, function, "class")
        if vendor is None or kind is None:
            undecided = True
            continue
        known, subclass = _VENDORS.get(vendor), kind >> 8
        if known is None or _is_virtual(tree, function):
            continue
        if subclass in known.pci_classes:
            counts[known.name] += 1
        elif subclass == _VGA:
            undecided = True
    return PciGpus(dict(counts), undecided)


def _read(tree: SysfsTree, function: str, name: str) -> int | None:
    text = tree.read_text(f"{PCI_DEVICES}/{function}/{name}")
    return None if isinstance(text, HardwareFailure) or not _CODE.fullmatch(text) else int(text, 16)


def _is_virtual(tree: SysfsTree, function: str) -> bool:
    """Return whether a function is a virtual one of a GPU that is on the bus itself."""
    return not isinstance(tree.read_text(f"{PCI_DEVICES}/{function}/physfn/vendor"), HardwareFailure)
