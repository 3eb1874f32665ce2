"""Watts at the wall of a server's GPUs, with what is in the server for their sake: fans, switches, network adapters.

`server_power` is of a server without GPUs. With the GPUs' own watts alone, a machine of eight H100 and two Xeons would
draw 7.0 kW at the most; 8.4 kW were measured, and its data sheet states 10.2 kW. What is missing is taken as a share of
the GPUs' highest limit that is always drawn (switches, adapters, the least speed of fans), and a share of what the GPUs
draw at the moment (fans). Where a server's own meter is read, that is better. Source: docs/models.md.
"""

from typing import Final

from joulie_core.power.server import SUPPLY_EFFICIENCY

#: At the wall, per watt of the GPUs' highest limit, and per watt that the GPUs draw. Together 0.3 at full load: the
#: highest power of a machine of eight H100 in training, 8.4 kW (Latif et al., IEEE Access 13, 2025,
#: arxiv.org/abs/2412.08602), less 8 * 700 W through the supplies and 0.43 to 1.07 kW of the server by the load of its
#: CPUs, is 0.24 to 0.36 of the 5.6 kW of the GPUs. That both halves are equal is assumed.
CHASSIS_WATTS_PER_LIMIT_WATT: Final = 0.15
CHASSIS_WATTS_PER_DRAWN_WATT: Final = 0.15
#: The band of both, as a factor: 0.25 is what the rating of DGX-1 leaves (3.5 kW, eight V100 of 300 W),
#: 0.57 what that of DGX H100 does (10.2 kW). DGX A100 (6.5 kW, eight A100 of 400 W) would give 0.75 to 0.8; a rating is
#: what the supplies must deliver, with all adapters and at the highest speed of the fans.
CHASSIS_BAND: Final = (0.8, 1.9)


def gpus_at_wall(gpu_watts: float, highest_watts: float) -> float:
    """Return the watts at the wall that GPUs add to a server.

    Args:
        gpu_watts: what they draw together.
        highest_watts: the highest limit of all of them together; 0 without GPUs.
    """
    chassis_watts = CHASSIS_WATTS_PER_LIMIT_WATT * highest_watts + CHASSIS_WATTS_PER_DRAWN_WATT * gpu_watts
    return gpu_watts / SUPPLY_EFFICIENCY + chassis_watts
