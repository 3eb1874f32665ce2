"""Watts that sleep saves on one node: what it would draw awake and without pods, less what it draws.

A boot and a shutdown count as they happen: a node that boots draws more than one that is idle, and saves less than
nothing. Source of the bands: docs/decisions/0046-savings.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.plausible import is_measured
from joulie_core.savings.rates import NO_SAVING, EstimateRange
from joulie_core.sleep.consolidation import BOOT_OVER_IDLE
from joulie_core.sleep_state import SleepState

#: At the wall, of a server that is off: the BMC and the losses of the power supplies. Assumed, with its band.
OFF_WATTS: Final = EstimateRange(5.0, 15.0, 30.0)
#: Band of `BOOT_OVER_IDLE`. Assumed.
_BOOT_OVER_IDLE: Final = EstimateRange(1.0, BOOT_OVER_IDLE, 2.0)
#: Band of a BMC's reading, as a share of it. Assumed.
_READING: Final = EstimateRange(0.95, 1.0, 1.05)
#: Band of modelled idle power, as a share of it: that of runs about the sensitivity of savings.
_MODELLED_IDLE: Final = EstimateRange(0.7, 1.0, 1.5)
_COUNTED: Final = frozenset({SleepState.POWERING_OFF, SleepState.ASLEEP, SleepState.WAKING})


@dataclass(frozen=True, slots=True)
class SleepingServer:
    """One node that may be asleep."""

    state: SleepState
    #: On and without work, at the wall; None: unknown.
    idle_watts: float | None
    #: Whether its BMC has measured that before it slept; else it is modelled.
    idle_measured: bool = False
    #: Reading of its BMC that was sampled in this state; None without one.
    drawn_watts: float | None = None

    @property
    def counted(self) -> bool:
        """Whether the node is off, going off or coming up by Joulie."""
        return self.state in _COUNTED


def sleep_watts(server: SleepingServer) -> EstimateRange | None:
    """Return the watts that are saved on a node now; None where they are unknown."""
    if not server.counted:
        return NO_SAVING
    if not is_measured(server.idle_watts):
        return None
    assert server.idle_watts is not None, "it is measured or modelled"
    shares = _READING if server.idle_measured else _MODELLED_IDLE
    idle = shares.times(server.idle_watts)
    if is_measured(server.drawn_watts):
        assert server.drawn_watts is not None, "it is measured"
        return idle - _READING.times(server.drawn_watts)
    if server.state is SleepState.ASLEEP:
        return idle - OFF_WATTS
    if server.state is SleepState.WAKING:
        # Idle power that is wrong is wrong on both sides, so that the band of the boot's factor is what counts.
        over = EstimateRange(1.0, 1.0, 1.0) - _BOOT_OVER_IDLE
        return EstimateRange(over.lower * idle.upper, over.middle * idle.middle, over.upper * idle.lower)
    return NO_SAVING
