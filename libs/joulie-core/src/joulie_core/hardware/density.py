"""Normalised compute density of a node, the order in which policies serve nodes.

CPU: cores * base frequency * IPC class, over the same product of the reference node. GPU: the sum over the GPUs of
their half-precision throughput, over that of the reference GPU. Both are plain ratios, so a density of 2 is twice the
reference; they are added without weights. Reference node and GPU are in the inventory.

A GPU only ever adds: a node with GPUs outranks the node without them on the same CPU.
Source: docs/decisions/0013-conventions.md (planning).
"""

from dataclasses import dataclass
from functools import lru_cache

from joulie_core.hardware.inventory import Inventory, Reference
from joulie_core.hardware.view import HardwareView


@dataclass(frozen=True, slots=True)
class Density:
    """Density by component, each over its reference."""

    cpu: float
    gpu: float

    @property
    def total(self) -> float:
        """CPU and GPU together, by which nodes are ordered."""
        return self.cpu + self.gpu


def density(view: HardwareView) -> Density:
    """Return the density of one node; a component that the node has not, or that is unknown, is zero."""
    reference = Inventory.load().reference
    cpu = view.cpu.total_cores * view.cpu.base_ghz * view.cpu.spec.ipc if view.cpu else 0.0
    gpu = view.gpu.count * view.gpu.spec.fp16_tflops if view.gpu else 0.0
    return Density(cpu / _reference_rate(reference), gpu / reference.gpu.fp16_tflops)


@lru_cache(maxsize=1)
def _reference_rate(reference: Reference) -> float:
    return reference.sockets * reference.cpu.cores * reference.cpu.base_ghz * reference.cpu.ipc
