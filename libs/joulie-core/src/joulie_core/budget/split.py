"""The budget of a node, split over its devices; it holds while the operator is away.

Guarantees that the limits add up to no more than the budget, unless the lowest limits of the devices do, and that each
is within its device's range.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.held_as import HeldAs

#: Place in the order in which devices are served, of those that do not come first.
_LATER: Final = {HeldAs.STANDARD: 1, HeldAs.FREE: 2}


@dataclass(frozen=True, slots=True)
class BudgetDevice:
    """A device with the range of its limit in milliwatts."""

    name: str
    min_mw: int
    max_mw: int
    held_as: HeldAs = HeldAs.UNKNOWN


@dataclass(frozen=True, slots=True)
class DeviceSplit:
    """Limits of devices, in milliwatts by name."""

    limits_mw: dict[str, int]
    #: Part of the lowest limits that is above the budget.
    shortfall_mw: int = 0


def split_budget(budget_mw: int, devices: Sequence[BudgetDevice]) -> DeviceSplit:
    """Return the limits of devices: the lowest of each, then more, by their holders.

    Devices of performance pods are served first, then those of standard pods, then those that no pod holds. Those
    served together get equal limits, as far as their ranges allow. Devices of which it is not known that standard pods
    alone hold them, or none, are served with those of performance pods; if nothing is known, all are alike.
    """
    limits = {each.name: each.min_mw for each in devices}
    left = budget_mw - sum(limits.values())
    if left <= 0:
        return DeviceSplit(limits, -left)
    for place in range(len(_LATER) + 1):
        left = _fill(limits, [each for each in devices if place_of(each.held_as) == place], left)
    return DeviceSplit(limits)


def place_of(held_as: HeldAs) -> int:
    """Return the place of a device in the order in which devices are served, from 0."""
    return _LATER.get(held_as, 0)


def _fill(limits: dict[str, int], devices: Iterable[BudgetDevice], left: int) -> int:
    """Raise the lowest of the limits together while there is power left, and return the rest of it."""
    growing = sorted((each for each in devices if each.max_mw > limits[each.name]), key=lambda each: each.name)
    while growing:
        level = min(limits[each.name] for each in growing)
        at_level = [each for each in growing if limits[each.name] == level]
        above = [limits[each.name] for each in growing if limits[each.name] > level]
        step = min([*(each.max_mw - level for each in at_level), *(value - level for value in above)])
        step = min(step, left // len(at_level))
        if step == 0:
            break
        for each in at_level:
            limits[each.name] += step
        left -= step * len(at_level)
        growing = [each for each in growing if each.max_mw > limits[each.name]]
    return left
