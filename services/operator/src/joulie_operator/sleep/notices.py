"""The Events of nodes that sleep."""

from collections.abc import Mapping
from typing import Final

from joulie_api.resources import NODES
from joulie_core.node import Node
from joulie_core.sleep import SleepRecord, SleepState
from joulie_operator.events import Event, EventType, Subject
from joulie_operator.reasons import EventReason

_REASONS: Final[Mapping[SleepState, EventReason]] = {
    SleepState.AWAKE: EventReason.NODE_AWAKE,
    SleepState.CORDONED: EventReason.NODE_CORDONED_FOR_SLEEP,
    SleepState.DRAINING: EventReason.NODE_DRAINING_FOR_SLEEP,
    SleepState.POWERING_OFF: EventReason.NODE_POWERING_OFF,
    SleepState.ASLEEP: EventReason.NODE_ASLEEP,
    SleepState.WAKING: EventReason.NODE_WAKING,
    SleepState.QUARANTINED: EventReason.NODE_QUARANTINED,
}


def sleep_event(node: Node, before: SleepState, after: SleepRecord) -> Event:
    """Return the event of a change of state."""
    kind = EventType.WARNING if after.state is SleepState.QUARANTINED else EventType.NORMAL
    message = f"{before.value} -> {after.state.value}: {after.reason.value.replace('_', ' ')}"
    if after.state is SleepState.QUARANTINED:
        message += f"; {after.failed_boots} boots have failed. Remove the label joulie.io/sleep-state to clear it"
    return Event(Subject(NODES, node.name, node.uid), kind, _REASONS[after.state], message)
