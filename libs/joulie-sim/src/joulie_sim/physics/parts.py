"""Parts of a simulated node, and their controls.

The figures come from `joulie_sim.hardware`.
"""

from dataclasses import dataclass

from joulie_core.hardware.power_curve import PowerCurve


@dataclass(frozen=True, slots=True)
class CpuPart:
    """All CPU packages of a node; they are alike and share the load evenly."""

    model: str
    vendor: str
    sockets: int
    #: Cores as pods count them: hardware threads, where the node offers those.
    cores: float
    #: Physical cores of all packages.
    physical_cores: int
    #: Draw of one package at full load, and how it goes with load and cap.
    max_watts: float
    curve: PowerCurve
    #: Range of the power cap of one package.
    min_cap_watts: float
    max_cap_watts: float


@dataclass(frozen=True, slots=True)
class GpuPart:
    """All GPUs of a node; they are alike."""

    model: str
    vendor: str
    count: int
    #: Draw of one GPU at full load, and how it goes with load and cap.
    max_watts: float
    curve: PowerCurve
    #: Range of the power cap of one GPU.
    min_cap_watts: float
    max_cap_watts: float
    default_cap_watts: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a node is made of; a part is None where the node has none or it is not known."""

    cpu: CpuPart | None
    gpu: GpuPart | None
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Controls:
    """What is set on a node; None leaves the part at the value it has from the factory."""

    #: Power cap of one package.
    cpu_cap_watts: float | None = None
    #: Share of the cores held at their lowest frequency, 0 to 100.
    throttle_pct: float = 0.0
    #: Power cap of one GPU.
    gpu_cap_watts: float | None = None
