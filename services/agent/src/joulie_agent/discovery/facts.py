"""Hardware facts that a backend reports about a node."""

from dataclasses import dataclass

from joulie_core.kinds.node_hardware import Capabilities, CpuHardware, GpuHardware, MemoryHardware


@dataclass(frozen=True, slots=True)
class HardwareFacts:
    """Hardware of one node as its backend reports it; None is not reported."""

    cpu: CpuHardware | None = None
    gpu: GpuHardware | None = None
    memory: MemoryHardware | None = None
    #: What can be read and set there.
    can: Capabilities | None = None
    #: What was reported and is not used, by field and value.
    dropped: tuple[str, ...] = ()
