"""Settings of sleeping nodes in a simulation."""

from dataclasses import dataclass, field

from joulie_core.sleep import SleepSettings
from joulie_core.sleep.consolidation import BOOT_OVER_IDLE
from joulie_sim.engine.movable_jobs import MovingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSleepSettings:
    """The decision's settings, and what a server takes for going off and on."""

    decision: SleepSettings = field(default_factory=SleepSettings)
    interval_s: float = 60.0
    #: From the request to power on until the kubelet is ready: firmware with the training of memory, kernel, services.
    #: Of servers without and with GPUs. Assumed, with bands of 5 to 15 and of 10 to 20 minutes: no vendor publishes it.
    boot_s: float = 600.0
    gpu_boot_s: float = 900.0
    #: From the request to power off until it is off.
    off_s: float = 60.0
    #: At the wall, while it is off: the BMC and the losses of the power supplies.
    off_watts: float = 15.0
    #: Watts while it boots over those of the idle server.
    boot_over_idle: float = BOOT_OVER_IDLE
    #: Jobs that wait and are shown to the decision.
    most_pending: int = 200

    def boots_in_s(self, *, gpus: bool) -> float:
        """Return the time that a server takes to boot, with GPUs or without."""
        return self.gpu_boot_s if gpus else self.boot_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingSleepSettings(NodeSleepSettings):
    """The same where consolidation moves jobs, if the decision's settings let it act."""

    moving: MovingSettings = field(default_factory=MovingSettings)
