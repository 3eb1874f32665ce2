"""Power cycles of a node: when its power was requested off, as its record remembers it.

Each cycle heats and cools every solder joint and every drive once. What a record forgets is older than a day, or beyond
the most cycles that a policy can permit in one.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from joulie_core.kinds.node_sleep_policy import MOST_CYCLES
from joulie_core.plausible import is_measured
from joulie_core.sleep.model import SleepNode, SleepRecord
from joulie_core.sleep_state import SleepState

_DAY_S: Final = 86_400.0


def cycles_of_day(record: SleepRecord, now_s: float) -> int:
    """Return how often the power of a node was requested off within the last 24 hours.

    A time in the future, by a clock that was wrong, counts until it is a day ago.
    """
    return within_day(record.cycles_s, now_s)


def within_day(times_s: Iterable[float], now_s: float) -> int:
    """Return how many of some times are within the last 24 hours, or in the future."""
    return sum(at_s > now_s - _DAY_S for at_s in times_s)


def with_cycle(before: SleepRecord, after: SleepRecord, node: SleepNode, now_s: float) -> SleepRecord:
    """Return the later of two records of a node; one that goes to be powered off has one power cycle more.

    One that goes to sleep also remembers what it drew.
    """
    if after.state is not SleepState.POWERING_OFF or before.state is SleepState.POWERING_OFF:
        return after
    kept = [at_s for at_s in before.cycles_s if at_s > now_s - _DAY_S]
    counted = replace(after, sleeps=before.sleeps + 1, cycles_s=(*kept, now_s)[-MOST_CYCLES:])
    if before.state is not SleepState.DRAINING:
        # A boot has failed: what it draws now is not what it drew without work.
        return counted
    watts = _watts_without_pods(before, node)
    measured = is_measured(watts)
    return replace(counted, idle_watts=watts if measured else node.idle_watts or None, idle_measured=measured)


def _watts_without_pods(record: SleepRecord, node: SleepNode) -> float | None:
    """Return the BMC's reading; None for one from before the node was seen without pods, which may be of their work."""
    power, since_s = node.power, record.empty_since_s
    if power is None or power.sampled_at_s is None or since_s is None or power.sampled_at_s < since_s:
        return None
    return power.watts
