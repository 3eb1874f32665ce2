"""Parts and controls of a simulated node. `joulie_sim.hardware` determines their values."""

from dataclasses import dataclass

from joulie_core.hardware.power_curve import PowerCurve


@dataclass(frozen=True, slots=True)
class CpuPart:
    """All CPU packages of a node; they are alike and share the load evenly."""

    model: str
    vendor: str
    sockets: int
    #: CPUs as Kubernetes counts them: hardware threads, if the node has them enabled.
    cores: float
    #: Physical cores of all packages.
    physical_cores: int
    #: Power of one package at full load, and its curve over load and cap.
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
    #: Power of one GPU at full load, and its curve over load and cap.
    max_watts: float
    curve: PowerCurve
    #: Range of the power cap of one GPU.
    min_cap_watts: float
    max_cap_watts: float
    default_cap_watts: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware of a node; a part is None if the node has none or it is unknown."""

    cpu: CpuPart | None
    gpu: GpuPart | None
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Controls:
    """Controls of a node; None is the default of the part."""

    #: Power cap of one package.
    cpu_cap_watts: float | None = None
    #: Share of the cores held at their lowest frequency, 0 to 100.
    throttle_pct: float = 0.0
    #: Power cap of one GPU.
    gpu_cap_watts: float | None = None
