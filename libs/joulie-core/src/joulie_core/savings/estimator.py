"""The rates of all levers at one moment, from the nodes as they are seen and the shadow placement.

Each lever is counted on top of those before it, so that their sum is what the nodes would draw without Joulie less what
they draw: docs/decisions/0046-savings.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from joulie_core.power.server import SUPPLY_EFFICIENCY
from joulie_core.savings.asleep import SleepingServer, sleep_watts
from joulie_core.savings.capped import CappedDevices, cap_watts_saved
from joulie_core.savings.node_loads import USE_ERROR
from joulie_core.savings.rates import NO_SAVING, UNKNOWN_RATE, EstimateRange, LeverRate, around
from joulie_core.savings.shadow import MovedWatts, ShadowCluster, total_by_family

#: Part of what different work per second makes up that may be wrong: rates of two models differ by +-25 % between kinds
#: of work (docs/models.md), each.
_WORK_ERROR = 0.5


@dataclass(frozen=True, slots=True)
class CappedNode:
    """The subsystems of one node that Joulie has capped; None for one whose state is unknown."""

    subsystems: tuple[CappedDevices | None, ...]


def sleep_rate(servers: Iterable[SleepingServer]) -> LeverRate:
    """Return what sleep saves now."""
    counted = [sleep_watts(server) for server in servers if server.counted]
    return _rate(counted)


def caps_rate(nodes: Iterable[CappedNode]) -> LeverRate:
    """Return what caps save now, at the wall."""
    saved = [cap_watts_saved(devices) if devices is not None else None for node in nodes for devices in node.subsystems]
    rate = _rate(saved)
    return LeverRate(rate.watts.times(1.0 / SUPPLY_EFFICIENCY), rate.unknown_share)


def score_rate(shadow: ShadowCluster, *, backlog: bool) -> LeverRate:
    """Return what the score saves now; unknown while there is a `backlog` of pods that are not in the shadow yet."""
    if backlog:
        return UNKNOWN_RATE
    moved = list(shadow.moved())
    return LeverRate(moved_range(moved), shadow.unknown_share())


def moved_range(moved: Iterable[MovedWatts]) -> EstimateRange:
    """Return the sum of the differences of all nodes, with its three independent errors."""
    each = list(moved)
    families = total_by_family(each)
    watts = sum(families.values())
    by_family = [error * family_watts for (_, error), family_watts in families.items()]
    by_work = sum(node.by_work for node in each)
    return around(watts, [*by_family, USE_ERROR * watts, _WORK_ERROR * by_work])


def _rate(known: list[EstimateRange | None]) -> LeverRate:
    watts = sum((each for each in known if each is not None), NO_SAVING)
    unknown = sum(each is None for each in known)
    return LeverRate(watts, unknown / len(known) if unknown else 0.0)
