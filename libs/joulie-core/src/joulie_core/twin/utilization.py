"""Power of a node without a measurement, modelled from what its pods request.

CPUs share their load, so they follow their power curve at the requested share of all hardware threads; GPUs are handed
out whole, so each is either busy or idle. What is requested is taken to be used to the extent that the marginal power
estimate assumes too, and nothing draws more than its caps allow. The result is good for ranking nodes and is called
`modelled`.
Source: docs/decisions/0013-conventions.md.
"""

from dataclasses import dataclass

from joulie_core.hardware.power_curve import PowerCurve
from joulie_core.powerest.marginal import CPU_USE, GPU_USE_STANDARD


@dataclass(frozen=True, slots=True)
class ModelledDevices:
    """The CPUs or the GPUs of a node, all together."""

    curve: PowerCurve
    #: Hardware threads (as Kubernetes counts CPU) or GPUs that the pods request, and that there are.
    requested: float
    units: float
    max_watts: float
    capped_watts: float

    @property
    def busy_share(self) -> float:
        """Share of the units that is requested, 0 to 1."""
        return min(1.0, self.requested / self.units) if self.units > 0 else 0.0


def cpu_watts(cpus: ModelledDevices) -> float:
    """Return the expected draw of the CPUs in watts."""
    return _capped(cpus, cpus.curve.watts(cpus.busy_share * CPU_USE, cpus.max_watts))


def gpu_watts(gpus: ModelledDevices) -> float:
    """Return the expected draw of the GPUs in watts."""
    busy, idle = gpus.curve.watts(GPU_USE_STANDARD, gpus.max_watts), gpus.curve.watts(0, gpus.max_watts)
    return _capped(gpus, gpus.busy_share * busy + (1 - gpus.busy_share) * idle)


def _capped(part: ModelledDevices, watts: float) -> float:
    # A cap below the idle draw cannot be met, so it does not make the node cooler than idle.
    return max(part.curve.watts(0, part.max_watts), min(watts, part.capped_watts))
