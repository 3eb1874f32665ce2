"""The rest of a server: power at the wall beyond its CPU packages and GPUs, at their full load.

Memory, drives, board, fans, network adapters, and the losses of the power supplies; no limit of devices bounds it.
Source: docs/decisions/0065-server-budgets.md, docs/models.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.view import HardwareView
from joulie_core.power.chassis import CHASSIS_BAND, CHASSIS_WATTS_PER_DRAWN_WATT, gpus_at_wall
from joulie_core.power.curves import node_curves
from joulie_core.power.server import SUPPLY_EFFICIENCY

#: Error of a BMC's reading, as a share of it. Assumed.
READING_ERROR: Final = 0.05
_LOSS: Final = 1.0 / SUPPLY_EFFICIENCY - 1.0
#: The least that supplies lose, per watt of the devices: 80 PLUS Titanium asks for 0.96 at half load and 230 V.
_LEAST_LOSS: Final = 1.0 / 0.96 - 1.0


@dataclass(frozen=True, slots=True)
class RestBand:
    """Lower and upper end of the rest of one server, in watts."""

    least_watts: float
    most_watts: float

    @property
    def middle_watts(self) -> float:
        """Middle of the band."""
        return (self.least_watts + self.most_watts) / 2.0


def modelled_rest(view: HardwareView) -> RestBand | None:
    """Return the rest at full load by the models; None where the CPUs are not known."""
    curves = node_curves(view)
    if curves is None:
        return None
    wall_watts, packages_watts, error = curves.wall_watts[-1], curves.packages_watts[-1], curves.error
    # Packages that sustain less than their limit lose no more than if they drew it.
    unused_watts = _LOSS * max(0.0, view.cpu_max_watts - packages_watts)
    least_watts = wall_watts * (1.0 - error) - packages_watts
    most_watts = wall_watts * (1.0 + error) - packages_watts + unused_watts
    if view.gpu is not None:
        loss_watts = _LOSS * view.gpu_max_watts
        chassis_watts = gpus_at_wall(view.gpu_max_watts, view.gpu_max_watts) - view.gpu_max_watts - loss_watts
        least_watts += loss_watts + CHASSIS_BAND[0] * chassis_watts
        most_watts += loss_watts + CHASSIS_BAND[1] * chassis_watts
    return RestBand(max(_LEAST_LOSS * view.tdp_watts, least_watts), most_watts)


def measured_rest(server_watts: float, devices_watts: float, view: HardwareView) -> float:
    """Return the rest at full load by one reading of the whole server, in watts; may be negative.

    Args:
        server_watts: reading of the BMC.
        devices_watts: reading of the CPU packages and GPUs at the same load.
        view: the node's hardware.
    """
    missing_watts = max(0.0, view.tdp_watts - devices_watts)
    fans_watts = CHASSIS_WATTS_PER_DRAWN_WATT * min(view.gpu_max_watts, missing_watts)
    return server_watts * (1.0 + READING_ERROR) - devices_watts + _LOSS * missing_watts + fans_watts
