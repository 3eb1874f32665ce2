"""The power of one node's devices over load and cap, as scores take it.

Computed once from the hardware's view; the figures are those of `joulie_core.power.server` and of the inventory.
Source: docs/models.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.power_curve import CapResponse
from joulie_core.hardware.view import CpuView, HardwareView
from joulie_core.power.server import ServerBasis, ServerModels, ServerPower, server_power

_GIB: Final = 1024**3
#: Errors of a server's watts, as shares: with a measured curve, from its TDP, and from that of a CPU without results.
MEASURED_ERROR: Final = 0.07
TDP_ERROR: Final = 0.16
NEW_CPU_ERROR: Final = 0.28


@dataclass(frozen=True, slots=True)
class GpuCurve:
    """One GPU of a node, of which all are alike."""

    idle_watts: float
    #: What demanding work draws without a cap.
    natural_watts: float
    #: The highest cap, which the shares of a cap are of.
    max_watts: float
    response: CapResponse
    #: Work per second without limits over that of A100 SXM 80 GB; None where nothing is published.
    work_per_gpu: float | None = None


@dataclass(frozen=True, slots=True)
class NodeCurves:
    """The devices of one node; watts at CPU loads 0, 10, ... 100 %, eleven points each."""

    #: Of the whole server without its GPUs, at the wall.
    wall_watts: tuple[float, ...]
    #: Of all CPU packages, which is what is measured.
    packages_watts: tuple[float, ...]
    #: The highest cap of all CPU packages, which the shares of a cap are of.
    cpu_max_watts: float
    #: Hardware threads of all packages, at least 1.
    threads: float
    cpu_response: CapResponse
    #: Share by which the watts at the wall may be wrong.
    error: float
    #: None where the node has no GPU.
    gpu: GpuCurve | None = None
    #: Work per second of one hardware thread over that of EPYC 7763, all threads busy; None where nothing is published.
    work_per_thread: float | None = None


def node_curves(view: HardwareView) -> NodeCurves | None:
    """Return the curves of a node; None where its CPUs are not known."""
    cpu, gpu = view.cpu, view.gpu
    if cpu is None or cpu.threads < 1:
        return None
    server = server_power(cpu.spec, cpu.sockets, view.memory_bytes / _GIB or None)
    return NodeCurves(
        wall_watts=server.wall_watts,
        packages_watts=server.packages_watts,
        cpu_max_watts=view.cpu_max_watts,
        threads=cpu.threads,
        cpu_response=cpu.spec.curve.response,
        error=_error(cpu, server),
        gpu=GpuCurve(
            gpu.spec.idle_watts, gpu.spec.natural_watts, gpu.max_watts, gpu.spec.curve.response, gpu.work_per_gpu
        )
        if gpu is not None
        else None,
        work_per_thread=cpu.work_per_thread,
    )


def _error(cpu: CpuView, server: ServerPower) -> float:
    if server.basis is ServerBasis.MEASURED:
        return MEASURED_ERROR
    # Of CPUs later than the data the generation before stands in.
    group = ServerModels.load().group(cpu.spec, cpu.sockets)
    known = not cpu.spec.generic and cpu.spec.generation == cpu.spec.curve_name == group
    return TDP_ERROR if known else NEW_CPU_ERROR
