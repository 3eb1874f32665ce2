"""The one list of servers that Joulie switched off last, whatever became of their Nodes, labels, taints and records.

A server is in it from the request to power it off until On is confirmed, and only while its BMC does not read On.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from joulie_api.wire import Versioned
from joulie_core.kinds import NodeBMC
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.names import NodeName
from joulie_core.sleep import SleepNode, SleepRecord, SleepState
from joulie_operator.sleep.records import marked_shutdown


class OffReason(StrEnum):
    """Reason why a server that Joulie switched off is not on."""

    #: It sleeps, goes to sleep or is being woken, and its record says so.
    SLEEP = "sleep"
    NODE_MISSING = "node_missing"
    MAINTENANCE = "maintenance"
    CORDONED = "cordoned"
    QUARANTINED = "quarantined"
    #: Its record says that it is awake, and its BMC does not say that it is on.
    UNCONFIRMED = "unconfirmed"


#: What a person is told of a server that stays off until a person acts.
WAYS_OUT: Final[Mapping[OffReason, str]] = {
    OffReason.NODE_MISSING: "its Node is missing: it is powered on, unless spec.desiredPower is Off",
    OffReason.MAINTENANCE: "its Node is in maintenance: it stays off until that ends",
    OffReason.CORDONED: "its Node is cordoned: it stays off until that ends, or until it is requested to be awake",
    OffReason.QUARANTINED: "its boots have failed: see its console and its BMC, and clear the quarantine",
}


def servers_off(
    bmcs: Iterable[Versioned[NodeBMC]],
    records: Mapping[NodeName, SleepRecord],
    nodes: Mapping[NodeName, SleepNode],
) -> dict[NodeName, OffReason]:
    """Return the servers that Joulie switched off last and that are not on, and why."""
    return {
        name: _reason(records.get(name), nodes.get(name))
        for bmc in bmcs
        if marked_shutdown(bmc.metadata.annotations) is not None
        and bmc.model.status.power_state is not PowerState.ON
        and (name := NodeName(bmc.name))
    }


def _reason(record: SleepRecord | None, node: SleepNode | None) -> OffReason:
    if record is None or node is None:
        return OffReason.NODE_MISSING
    if node.maintenance:
        return OffReason.MAINTENANCE
    if record.state is SleepState.QUARANTINED:
        return OffReason.QUARANTINED
    if record.state is SleepState.AWAKE:
        return OffReason.UNCONFIRMED
    # One that is requested to be awake is being woken.
    return OffReason.CORDONED if node.unschedulable and record.state is SleepState.ASLEEP else OffReason.SLEEP
