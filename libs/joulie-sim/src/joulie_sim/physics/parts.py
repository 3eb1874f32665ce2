"""Parts and controls of a simulated node. `joulie_sim.hardware` determines their values."""

from dataclasses import dataclass, replace
from typing import Final

from joulie_core.hardware.power_curve import PowerCurve

#: Work per second of a device of a model that is not known, over that of the reference model.
ASSUMED_WORK: Final = 1.0


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
    #: Work per second of one hardware thread without limits, over that of the reference model.
    work_per_thread: float = ASSUMED_WORK


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
    #: Work per second of one GPU without limits, over that of the reference model.
    work_per_gpu: float = ASSUMED_WORK


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware of a node; a part is None if the node has none or it is unknown."""

    cpu: CpuPart | None
    gpu: GpuPart | None
    memory_bytes: int = 0

    def work_per_s(self, *, gpus: bool) -> float:
        """Return the work per second, without limits, of a job with GPUs or of one without.

        A job's work is in seconds of a device of the reference model, a GPU or a thread. Source:
        docs/decisions/0038-work-and-speed.md.
        """
        if gpus:
            return self.gpu.work_per_gpu if self.gpu is not None else ASSUMED_WORK
        return self.cpu.work_per_thread if self.cpu is not None else ASSUMED_WORK


@dataclass(frozen=True, slots=True)
class Controls:
    """Controls of a node; None is the default of the part."""

    #: Power cap of one package.
    cpu_cap_watts: float | None = None
    #: Share of the cores held at their lowest frequency, 0 to 100.
    throttle_pct: float = 0.0
    #: Power cap of one GPU.
    gpu_cap_watts: float | None = None
    #: Highest graphics clock of each GPU over the one that it holds alone; GPUs beyond its end have none.
    gpu_clock_shares: tuple[float, ...] = ()

    def gpu_clock_share(self, index: int) -> float:
        """Return the highest clock of a GPU over the one that it holds alone, 1 without a limit."""
        return self.gpu_clock_shares[index] if index < len(self.gpu_clock_shares) else 1.0

    def with_gpu_clock(self, index: int, share: float) -> "Controls":
        """Return these controls with the clock of one GPU limited to a share of the one that it holds alone."""
        count = max(index + 1, len(self.gpu_clock_shares))
        shares = (share if each == index else self.gpu_clock_share(each) for each in range(count))
        return replace(self, gpu_clock_shares=tuple(shares))
