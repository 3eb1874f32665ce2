"""Bounds on what sleep asks of hardware: power cycles of a node in a day, and boots in a rack at a time.

The first bounds wear, the second the inrush current and the peak of power on the feeds of a rack. Guarantees that a
bound on power cycles keeps nodes awake and never off, and that what is not known makes nothing freer: nodes without the
label of a rack share one.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from joulie_core.sleep.machine import refusal_of
from joulie_core.sleep.model import SleepNode, SleepRecord, SleepRefusal, SleepState
from joulie_core.sleep.power_cycles import cycles_of_day
from joulie_core.sleep.settings import SleepSettings


def sleep_refusal(node: SleepNode, record: SleepRecord, now_s: float, settings: SleepSettings) -> SleepRefusal | None:
    """Return why a node that is awake may not be put to sleep, whatever its load; None if it may."""
    refusal = refusal_of(node, now_s, settings)
    if refusal is None and cycles_of_day(record, now_s) >= settings.max_cycles_per_day:
        return SleepRefusal.POWER_CYCLES
    return refusal


def rack_of(node: SleepNode, settings: SleepSettings) -> str:
    """Return the rack of a node; empty for the one that all nodes without its label share."""
    return node.labels.get(settings.rack_label, "")


@dataclass(slots=True)
class BootRoom:
    """How many more nodes may be switched on now, in all and in each rack."""

    settings: SleepSettings
    #: Nodes that boot now, by rack, and in all.
    by_rack: Counter[str] = field(default_factory=Counter)
    booting: int = 0

    @classmethod
    def beside(cls, nodes: Iterable[tuple[SleepNode, SleepRecord]], now_s: float, settings: SleepSettings) -> Self:
        """Return what is left beside the nodes that boot; one that has failed to boot in time draws no inrush."""
        racks = (
            rack_of(node, settings)
            for node, record in nodes
            if record.state is SleepState.WAKING and now_s - record.since_s <= settings.boot_timeout_s
        )
        by_rack = Counter(racks)
        return cls(settings, by_rack, by_rack.total())

    def copy(self) -> Self:
        """Return another one, which counts for itself."""
        return replace(self, by_rack=self.by_rack.copy())

    def permits(self, node: SleepNode) -> bool:
        """Return whether a node may be switched on."""
        settings = self.settings
        return (
            self.booting < settings.max_waking and self.by_rack[rack_of(node, settings)] < settings.max_waking_per_rack
        )

    def take(self, node: SleepNode) -> None:
        """Count a node that is switched on."""
        self.booting += 1
        self.by_rack[rack_of(node, self.settings)] += 1
