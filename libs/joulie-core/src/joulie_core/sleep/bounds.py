"""Bounds on boots at a time, in all and in a rack: on the inrush current and the peak of power on the feeds of a rack.

Guarantees that what is not known makes nothing freer: nodes without the label of a rack share one.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.sleep.machine import STALE_AFTER_S, power_state
from joulie_core.sleep.model import SleepNode, SleepRecord
from joulie_core.sleep_state import SleepState


def rack_of(node: SleepNode, settings: SleepSettings) -> str:
    """Return the rack of a node; empty for the one that all nodes without its label share."""
    return node.labels.get(settings.rack_label, "")


def takes_a_boot(record: SleepRecord, now_s: float) -> bool:
    """Return whether a node counts in the boots at a time: it boots, or was asked to a moment ago.

    A node whose BMC does not answer holds up no other.
    """
    if record.state is not SleepState.WAKING:
        return False
    return record.boots_since_s is not None or now_s - record.since_s <= STALE_AFTER_S


@dataclass(slots=True)
class _Boots:
    """Nodes by rack, and in all."""

    by_rack: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def copy(self) -> Self:
        return replace(self, by_rack=self.by_rack.copy())

    def count(self, rack: str) -> None:
        self.by_rack[rack] += 1
        self.total += 1

    def leaves_room(self, rack: str, settings: SleepSettings) -> bool:
        return self.total < settings.rates.waking and self.by_rack[rack] < settings.rates.waking_per_rack


@dataclass(slots=True)
class BootRoom:
    """Number of nodes that may still be switched on now, in all and in each rack."""

    now_s: float
    settings: SleepSettings
    _booting: _Boots = field(default_factory=_Boots)
    #: All that are being woken: those whose BMCs do not answer boot together once these do.
    _waking: _Boots = field(default_factory=_Boots)

    @classmethod
    def beside(cls, nodes: Iterable[tuple[SleepNode, SleepRecord]], now_s: float, settings: SleepSettings) -> Self:
        """Return what is left beside the nodes that boot."""
        room = cls(now_s, settings)
        for node, record in nodes:
            if record.state is SleepState.WAKING:
                room._waking.count(rack_of(node, settings))
            if takes_a_boot(record, now_s):
                room._booting.count(rack_of(node, settings))
        return room

    @property
    def by_rack(self) -> Counter[str]:
        """Nodes that boot, by rack."""
        return self._booting.by_rack

    def copy(self) -> Self:
        """Return another one, which counts for itself."""
        return replace(self, _booting=self._booting.copy(), _waking=self._waking.copy())

    def permits(self, node: SleepNode) -> bool:
        """Return whether a node may be switched on."""
        silent = power_state(node.power, self.now_s) is PowerState.UNKNOWN
        boots = self._waking if silent else self._booting
        return boots.leaves_room(rack_of(node, self.settings), self.settings)

    def take(self, node: SleepNode) -> None:
        """Count a node that is switched on."""
        rack = rack_of(node, self.settings)
        self._booting.count(rack)
        self._waking.count(rack)
