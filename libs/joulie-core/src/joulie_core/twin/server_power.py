"""Power of the whole server as its BMC reports it: whether a reading is one that still counts.

It stands beside the measurement of CPUs and GPUs and enters no decision about their caps: it has losses of power
supplies, memory, disks and fans in it, and most BMCs have a new value only once a minute.
Source: docs/decisions/0025-out-of-band-service.md.
"""

from typing import Final

from joulie_core.kinds.node_bmc import STATUS_HEARTBEAT_S, BmcProtocol, NodeBMC
from joulie_core.kinds.node_twin import ServerMeasurement, ServerMeasurementSource
from joulie_core.plausible import Plausibility, judge
from joulie_core.timestamps import age_seconds

#: After so many intervals without a new reading there is none.
MOST_INTERVALS: Final = 3
_SOURCES: Final = {
    BmcProtocol.REDFISH: ServerMeasurementSource.REDFISH,
    BmcProtocol.IPMI: ServerMeasurementSource.DCMI,
}


def server_measurement(bmc: NodeBMC, now_s: float) -> ServerMeasurement | None:
    """Return the server's power; None where it is unknown, implausible, or older than three intervals.

    Args:
        bmc: the server's BMC.
        now_s: seconds since the epoch.
    """
    status, source = bmc.status, _SOURCES.get(bmc.spec.protocol)
    watts, sampled_at, interval_s = status.power_watts, status.sampled_at, status.interval_seconds
    if source is None or watts is None or sampled_at is None or judge(watts) is not Plausibility.MEASURED:
        return None
    most_s = MOST_INTERVALS * max(interval_s or 0.0, STATUS_HEARTBEAT_S)
    # A time ahead of the clock by as much is no time either.
    if abs(age_seconds(sampled_at, now_s)) > most_s:
        return None
    return ServerMeasurement(
        source=source, measured_server_power_w=round(watts, 1), sampled_at=sampled_at, interval_seconds=interval_s
    )
