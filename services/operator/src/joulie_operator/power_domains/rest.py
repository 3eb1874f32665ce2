"""The rest of each server: what it draws beyond its CPU packages and GPUs, by readings of its BMC, else by the models.

Guarantees that a rest rises with the first reading that shows it and falls after a day; that a reading which cannot be
told from a change of load, or shows less than any such server draws, counts as none; that one far above what the models
know, which would lower a whole feed for a day, counts where the next one is as well; and that of a node whose CPUs are
not known nothing is known. Source: docs/decisions/0065-server-budgets.md.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from joulie_api.wire import Versioned
from joulie_core.budget import UNKNOWN_REST, PublishedRest, ServerRest
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import PowerDomain
from joulie_core.kinds.node_twin import MeasurementQuality, MeasurementSource, PowerMeasurement, ServerMeasurement
from joulie_core.names import NodeName
from joulie_core.plausible import OVER_MAX
from joulie_core.power.rest import RestBand, measured_rest, modelled_rest
from joulie_core.timestamps import age_seconds
from joulie_core.units import milliwatts_up

#: Time for which the highest reading counts, and the part of it after which older ones are forgotten together.
KEPT_S: Final = 86_400.0
_PART_S: Final = 3_600.0
#: Readings from which on they count in place of the model.
LEAST_READINGS: Final = 3
#: Time after the first look at a node in which these may be too few without being missing.
SETTLING_S: Final = 600.0
#: Age up to which the sum of the leader before counts while its successor has too few readings.
MOST_PUBLISHED_AGE_S: Final = 900.0
#: Move of the devices' power between two readings of the BMC above which they say nothing, of their highest power.
MOST_MOVE: Final = 0.05


@dataclass(slots=True)
class _Seen:
    """Readings of one node."""

    #: First look; minus infinity once a reading was not believed: no sum of an earlier leader's counts then.
    since_s: float
    #: Its hardware, and the band of the model of that.
    view: HardwareView
    band: RestBand
    #: Time of the BMC's last reading, and the devices' power at it.
    sampled_at: str | None = None
    devices_watts: float | None = None
    #: The last reading that could be compared was far above what the models know of such a server.
    is_doubtful: bool = False
    readings: int = 0
    #: Highest rest in watts by the hour.
    hours: dict[int, float] = field(default_factory=dict)


class RestTracker:
    """The rest of the servers of one operator; `wall` gives seconds since the epoch."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._seen: dict[NodeName, _Seen] = {}

    def retain(self, names: Iterable[NodeName]) -> None:
        """Forget all other nodes."""
        kept = set(names)
        self._seen = {name: each for name, each in self._seen.items() if name in kept}

    def rest(
        self,
        name: NodeName,
        view: HardwareView,
        devices: PowerMeasurement | None,
        server: ServerMeasurement | None,
    ) -> ServerRest:
        """Take what is measured of a node now, and return its rest.

        Args:
            name: of the node.
            view: its hardware.
            devices: power of its CPU packages and GPUs.
            server: reading of its BMC that still counts.
        """
        now_s, seen = self._wall(), self._seen.get(name)
        if seen is None or seen.view is not view:
            found = modelled_rest(view)
            if found is None:
                return UNKNOWN_REST
            seen = self._seen.setdefault(name, _Seen(now_s, view, found))
            seen.view, seen.band = view, found
        self._take(seen, _devices_watts(devices), server)
        for hour in [each for each in seen.hours if each * _PART_S < now_s - KEPT_S]:
            del seen.hours[hour]
        settling = seen.readings < LEAST_READINGS and server is not None and now_s < seen.since_s + SETTLING_S
        measured = bool(seen.hours) and seen.readings >= LEAST_READINGS
        watts = max(seen.hours.values()) if measured else seen.band.most_watts
        return ServerRest(
            milliwatts_up(watts), milliwatts_up(seen.band.least_watts), measured=measured, settling=settling
        )

    def _take(self, seen: _Seen, devices_watts: float | None, server: ServerMeasurement | None) -> None:
        if server is None or server.sampled_at == seen.sampled_at:
            return
        before_watts, seen.sampled_at, seen.devices_watts = seen.devices_watts, server.sampled_at, devices_watts
        if before_watts is None or devices_watts is None:
            return
        if abs(devices_watts - before_watts) > MOST_MOVE * seen.view.tdp_watts:
            return
        is_doubtful = server.measured_server_power_w > OVER_MAX * (seen.view.tdp_watts + seen.band.most_watts)
        was_doubtful, seen.is_doubtful = seen.is_doubtful, is_doubtful
        if is_doubtful and not was_doubtful:
            return
        watts = measured_rest(server.measured_server_power_w, min(devices_watts, before_watts), seen.view)
        if watts < seen.band.least_watts:
            # No such server draws so little: the BMC, or the agent, does not measure what it says.
            seen.readings, seen.hours, seen.since_s = 0, {}, -math.inf
            return
        hour = int(self._wall() // _PART_S)
        seen.hours[hour] = max(watts, seen.hours.get(hour, 0.0))
        seen.readings += 1


def published_rests(domains: Mapping[str, Versioned[PowerDomain]], now_s: float) -> dict[str, PublishedRest]:
    """Return the sums of rest that the statuses of domains have, by name; none that is old.

    Args:
        domains: by name.
        now_s: seconds since the epoch.
    """
    found = {}
    for name, domain in domains.items():
        status = domain.model.status
        if status.rest is None or status.nodes is None or status.rest.unknown_nodes:
            continue
        if 0.0 <= age_seconds(status.last_updated, now_s) <= MOST_PUBLISHED_AGE_S:
            found[name] = PublishedRest(milliwatts_up(status.rest.watts), int(status.nodes))
    return found


def _devices_watts(power: PowerMeasurement | None) -> float | None:
    """Return the reading of the agent; what other sources measure may be the whole server."""
    if power is None or power.source is not MeasurementSource.AGENT or power.quality is not MeasurementQuality.MEASURED:
        return None
    return power.measured_node_power_w
