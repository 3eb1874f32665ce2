"""State of servers that sleep and wake. No I/O."""

from enum import StrEnum

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.sleep_state import SleepState


class Power(StrEnum):
    """State of a server, by its simulated BMC and the label of its node."""

    AWAKE = "awake"
    #: From the request to power on until the node takes pods.
    WAKING = "waking"
    #: Off: on standby.
    ASLEEP = "asleep"


def power_of(bmc_state: str, sleep_state: str | None) -> Power:
    """Return what a server does; a server that is going off counts as awake, since it draws as much.

    Args:
        bmc_state: `PowerState` by Redfish of the simulated BMC.
        sleep_state: label of the node; None without it.
    """
    if bmc_state == PowerState.OFF:
        return Power.ASLEEP
    waking = bmc_state == PowerState.POWERING_ON or sleep_state == SleepState.WAKING.label
    return Power.WAKING if waking else Power.AWAKE
