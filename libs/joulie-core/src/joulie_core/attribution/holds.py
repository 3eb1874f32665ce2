"""Times in which pods held devices, from looks at who holds them now.

Guarantees that a change is dated from before it can have happened: a holder from the look before it was first seen,
less the age that an answer may have, to the look at which it was gone. The holders before the first look, between two
that are far apart, and after the last are unknown.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_core.attribution.gpus import DeviceHold

#: Seconds by which a look may be behind: the kubelet's answer is used until it is three seconds old.
LAG_SECONDS: Final = 4.0
#: Seconds between two looks beyond which holders in between may have been missed.
LONGEST_SECONDS: Final = 10.0

_Holders = frozenset[str | None]
_UNKNOWN: Final[_Holders] = frozenset({None})


@dataclass(frozen=True, slots=True)
class DeviceHolds:
    """Holds of all devices of a node."""

    #: Monotonic; None before the first look.
    looked_at: float | None = None
    #: By device: since when each present holder is one.
    present: Mapping[str, Mapping[str | None, float]] = field(default_factory=dict)
    past: Mapping[str, tuple[DeviceHold, ...]] = field(default_factory=dict)

    def looked(self, at_seconds: float, holders: Mapping[str, frozenset[str] | None]) -> "DeviceHolds":
        """Return the holds with one more look; `holders`: by device, None where they are not certain."""
        last = self.looked_at
        missed = last is None or at_seconds - last > LONGEST_SECONDS
        since = at_seconds if last is None else last - LAG_SECONDS
        present: dict[str, Mapping[str | None, float]] = {}
        past = {device: list(holds) for device, holds in self.past.items()}
        for device in {*self.present, *holders}:
            known = holders.get(device)
            now: _Holders = _UNKNOWN if known is None else frozenset(known)
            before = self.present.get(device)
            if device not in holders and before is not None and set(before) == _UNKNOWN:
                continue
            ended = past.setdefault(device, [])
            if before is None:
                ended.append(DeviceHold(None, -math.inf, at_seconds))
            elif missed:
                ended.append(DeviceHold(None, since, at_seconds))
            before = before or {}
            ended += [DeviceHold(holder, start, at_seconds) for holder, start in before.items() if holder not in now]
            present[device] = {holder: before.get(holder, since) for holder in now}
        return DeviceHolds(at_seconds, present, {device: tuple(holds) for device, holds in past.items()})

    def of(self, device: str) -> tuple[DeviceHold, ...]:
        """Return the holds of a device, with what is not known of it."""
        if self.looked_at is None or device not in self.present:
            return (DeviceHold(None, -math.inf),)
        holds = [DeviceHold(holder, start) for holder, start in self.present[device].items()]
        return (*self.past.get(device, ()), *holds, DeviceHold(None, self.looked_at - LAG_SECONDS))

    def since(self, at_seconds: float) -> "DeviceHolds":
        """Return the holds without those that ended before, and without devices that are gone since."""
        past = {
            device: tuple(hold for hold in holds if hold.until_seconds is None or hold.until_seconds > at_seconds)
            for device, holds in self.past.items()
        }
        return DeviceHolds(self.looked_at, self.present, {device: holds for device, holds in past.items() if holds})
