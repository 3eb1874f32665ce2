"""Power cycles of a node: when its power was requested off, as its record remembers it.

Each cycle heats and cools every solder joint and every drive once. What a record forgets is older than a day, or beyond
the most cycles that a policy can permit in one.
"""

from dataclasses import replace
from typing import Final

from joulie_core.kinds.node_sleep_policy import MOST_CYCLES
from joulie_core.sleep.model import SleepRecord, SleepState

_DAY_S: Final = 86_400.0


def cycles_of_day(record: SleepRecord, now_s: float) -> int:
    """Return how often the power of a node was requested off within the last 24 hours.

    A time in the future, by a clock that was wrong, counts until it is a day ago.
    """
    return sum(at_s > now_s - _DAY_S for at_s in record.cycles_s)


def with_cycle(before: SleepRecord, after: SleepRecord, now_s: float) -> SleepRecord:
    """Return the later of two records of a node; one that goes to be powered off has one power cycle more."""
    if after.state is not SleepState.POWERING_OFF or before.state is SleepState.POWERING_OFF:
        return after
    kept = [at_s for at_s in before.cycles_s if at_s > now_s - _DAY_S]
    return replace(after, sleeps=before.sleeps + 1, cycles_s=(*kept, now_s)[-MOST_CYCLES:])
