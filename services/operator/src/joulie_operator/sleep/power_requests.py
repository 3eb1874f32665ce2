"""Requests for the power of servers, by their records and the marks of their NodeBMCs. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from joulie_api.wire import Versioned
from joulie_core import labels
from joulie_core.kinds import NodeBMC
from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.names import NodeName
from joulie_core.sleep import (
    NodePowerFacts,
    Shutdown,
    SleepNode,
    SleepReason,
    SleepRecord,
    SleepSettings,
    SleepState,
    intent_of,
)
from joulie_core.sleep.machine import power_state
from joulie_core.sleep.shutdowns import longest_shutdown_s, may_go_off
from joulie_core.sleep_state import SWITCHED_OFF

#: States in which the power is left alone.
_ON: Final = frozenset({SleepState.AWAKE, SleepState.QUARANTINED})
#: States of servers that Joulie has switched off, or may have.
_MARKED: Final = SWITCHED_OFF | {SleepState.WAKING, SleepState.QUARANTINED}
#: Times of servers whatever their policy; the policy's own have passed once a node is awake.
_LIMITS: Final = SleepSettings()


@dataclass(frozen=True, slots=True)
class SleepPowerRequest:
    """Request for the power of a server; `Unmanaged` withdraws it."""

    power: DesiredPower
    #: Boot ID that a power-off was or may have been requested of; empty: unknown, None: that of the mark.
    boot_id: str | None = None
    #: Whether it is confirmed that the server is on, and will not go off by an earlier request.
    is_on: bool = False
    #: Whether Joulie has switched the server off, or may have, and On is not confirmed: then it needs the mark.
    marked: bool = False


def wanted_power(
    power: NodePowerFacts, node: SleepNode | None, record: SleepRecord | None, now_s: float
) -> SleepPowerRequest:
    """Return what is requested of a server; of one without a Node to be on, where Joulie has switched it off."""
    on = power_state(power, now_s) is PowerState.ON
    if node is not None and record is not None:
        wanted = DesiredPower.UNMANAGED if node.maintenance else intent_of(record.state).power
        if wanted is DesiredPower.OFF:
            return SleepPowerRequest(wanted, node.boot_id, marked=True)
        settled_on = record.state in _ON and on and not may_go_off(record, node, now_s, _LIMITS)
        boot_id = record.shutdown.boot_id if record.shutdown is not None else None
        # A NodeBMC that was written again since the power-off has lost the mark.
        marked = record.state in _MARKED and not settled_on and (record.shutdown is not None or not on)
        return SleepPowerRequest(wanted, boot_id, is_on=settled_on, marked=marked)
    shutdown = power.switched_off
    if shutdown is None or power.requested is DesiredPower.OFF:
        return SleepPowerRequest(DesiredPower.UNMANAGED)
    over = shutdown.at_s is not None and now_s - shutdown.at_s > longest_shutdown_s(_LIMITS)
    return SleepPowerRequest(DesiredPower.UNMANAGED, is_on=True) if on and over else SleepPowerRequest(DesiredPower.ON)


class LostMarks:
    """The servers that Joulie has switched off, or may have, and whose NodeBMCs with the mark are gone.

    In memory only: it is needed where people remove everything from the Node, too, before they write the NodeBMC again.
    Until then the label of the Node names the server, unless its kubelet says that it is on.
    """

    def __init__(self) -> None:
        #: Boot IDs of the last power-offs; empty: unknown.
        self._boot_ids: dict[NodeName, str] = {}

    def note(self, records: Mapping[NodeName, SleepRecord], bmcs: Iterable[str]) -> None:
        """Note the nodes that may be off because of Joulie and have no NodeBMC; `bmcs` are the names of all."""
        present = frozenset(bmcs)
        self._boot_ids |= {
            name: record.shutdown.boot_id if record.shutdown is not None else ""
            for name, record in records.items()
            if record.state in _MARKED and name not in present
        }

    def record_of(self, name: NodeName, now_s: float) -> SleepRecord | None:
        """Return the record of a node that is not ready and whose own record was removed; None of any other server."""
        boot_id = self._boot_ids.get(name)
        if boot_id is None:
            return None
        shutdown = Shutdown(now_s, boot_id)
        return SleepRecord(state=SleepState.WAKING, since_s=now_s, reason=SleepReason.LEFT_OFF, shutdown=shutdown)

    def with_mark(self, bmc: Versioned[NodeBMC], request: SleepPowerRequest) -> SleepPowerRequest:
        """Return the request, with the mark that a deleted NodeBMC had, unless the server is confirmed to be on."""
        name = NodeName(bmc.name)
        boot_id = self._boot_ids.get(name)
        if boot_id is None:
            return request
        if request.is_on or labels.SWITCHED_OFF in bmc.metadata.annotations:
            del self._boot_ids[name]
            return request
        return replace(request, boot_id=request.boot_id or boot_id, marked=True)
