"""Energy of one GPU by holder, from readings of its counter and from who held it when."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from joulie_core.attribution.counters import CounterReading, joules_between
from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """Time in which one holder held a device, whole or shared."""

    #: None: unknown, or outside of pods.
    holder: str | None
    from_seconds: float
    #: None: it still holds the device.
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceEnergy:
    """Energy of one device: that of the holders, idle and unattributed add up to the counter's differences."""

    #: By holder and rule, in this order.
    holders: tuple[HolderEnergy, ...]
    #: Without any holder.
    idle_joules: float
    unattributed_joules: float
    #: Time whose energy the counter does not tell.
    unknown_seconds: float


def device_energy(
    readings: Sequence[CounterReading], holds: Sequence[DeviceHold], *, most_watts: float, longest_seconds: float
) -> DeviceEnergy:
    """Return the energy of a device by holder.

    Args:
        readings: of its counter, in the order in which they were read.
        holds: all holds of the device at the times of the readings, in any order.
        most_watts: more than the device draws for long.
        longest_seconds: longer intervals are gaps, whose holds may be incomplete: unattributed.
    """
    sums: dict[tuple[str, AllocationRule], list[tuple[float, float, float]]] = {}
    idle, unattributed, unknown = [], [], []
    for before, after in itertools.pairwise(readings):
        start, end = before.at_seconds, after.at_seconds
        joules = joules_between(before, after, most_watts=most_watts)
        if joules is None:
            unknown.append(max(0.0, end - start))
            continue
        present = [hold for hold in holds if hold.from_seconds < end and _until(hold) > start]
        if end - start > longest_seconds or any(hold.holder is None for hold in present):
            unattributed.append(joules)
            continue
        segments = _segments(present, start, end)
        seconds, free_seconds = _held_seconds(segments)
        rule = _rule(segments)
        idle.append(joules * free_seconds / (end - start))
        for holder, held in seconds.items():
            point = joules if rule is AllocationRule.NONE else joules * held / (end - start)
            lower = joules if rule is AllocationRule.NONE else 0.0
            sums.setdefault((holder, rule), []).append((point, lower, joules))
    return DeviceEnergy(
        tuple(_holder_energy(holder, rule, parts) for (holder, rule), parts in sorted(sums.items())),
        math.fsum(idle),
        math.fsum(unattributed),
        math.fsum(unknown),
    )


def _until(hold: DeviceHold) -> float:
    return math.inf if hold.until_seconds is None else hold.until_seconds


#: Seconds, and who held the device in them.
_Segment = tuple[float, frozenset[str]]


def _edges(holds: Sequence[DeviceHold], start: float, end: float) -> list[float]:
    inner = {edge for hold in holds for edge in (hold.from_seconds, _until(hold)) if start < edge < end}
    return [start, *sorted(inner), end]


def _segments(holds: Sequence[DeviceHold], start: float, end: float) -> list[_Segment]:
    return [
        (
            right - left,
            frozenset(h.holder for h in holds if h.holder and h.from_seconds <= left and _until(h) >= right),
        )
        for left, right in itertools.pairwise(_edges(holds, start, end))
    ]


def _held_seconds(segments: Sequence[_Segment]) -> tuple[dict[str, float], float]:
    parts: dict[str, list[float]] = {}
    free = []
    for seconds, holders in segments:
        if not holders:
            free.append(seconds)
        for holder in holders:
            parts.setdefault(holder, []).append(seconds / len(holders))
    return {holder: math.fsum(part) for holder, part in parts.items()}, math.fsum(free)


def _rule(segments: Sequence[_Segment]) -> AllocationRule:
    sets = {holders for _, holders in segments}
    if len(sets) > 1:
        return AllocationRule.HOLDING_TIME
    return AllocationRule.EQUAL_SHARE if len(next(iter(sets))) > 1 else AllocationRule.NONE


def _holder_energy(holder: str, rule: AllocationRule, parts: list[tuple[float, float, float]]) -> HolderEnergy:
    kind = EnergyKind.MEASURED if rule is AllocationRule.NONE else EnergyKind.ALLOCATED
    point, lower, upper = (math.fsum(column) for column in zip(*parts, strict=True))
    return HolderEnergy(holder, kind, rule, point, lower, upper)
