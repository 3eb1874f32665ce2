"""Statuses of PowerEvents as they are written.

At once where a state, a condition or the binding event changes, with each minute of the record, and otherwise every
five minutes until the event has ended. All of that is left to the next decision where limits have changed meanwhile.
"""

from collections.abc import Callable, Iterable
from typing import Final

from joulie_api.apply import FencedWriter
from joulie_api.failures import Failures
from joulie_api.resources import POWER_EVENTS
from joulie_api.wire import Versioned
from joulie_core.kinds import PowerEvent, PowerEventStatus
from joulie_core.kinds.power_event import EventState
from joulie_core.timestamps import age_seconds, rfc3339
from joulie_operator.power_domains.status import dated_conditions
from joulie_operator.power_domains.status_writer import StatusWriter

#: Between two writes of a status that has not changed.
HEARTBEAT_S: Final = 300.0


class EventWriter:
    """The writer of one operator."""

    def __init__(self, writer: FencedWriter, failures: Failures) -> None:
        self._statuses = StatusWriter[PowerEvent](writer, POWER_EVENTS, failures, noun="power event", key="event_name")

    async def publish(
        self,
        found: Iterable[tuple[Versioned[PowerEvent], PowerEventStatus]],
        now_s: float,
        is_superseded: Callable[[], bool],
    ) -> None:
        """Write the statuses that have changed, side by side.

        Args:
            found: with the objects that they were decided by.
            now_s: seconds since the epoch.
            is_superseded: as of `StatusWriter.publish`.

        Raises:
            NotLeader: this process must not write any more.
        """
        listed = list(found)
        statuses = {event.name: status for event, status in listed}
        await self._statuses.publish(
            (event for event, _ in listed), lambda event: _due(event, statuses[event.name], now_s), is_superseded
        )


def _due(event: Versioned[PowerEvent], status: PowerEventStatus, now_s: float) -> PowerEventStatus | None:
    """Return a status, dated, where it is due."""
    before, generation, now = event.model.status, event.metadata.generation, rfc3339(now_s, "seconds")
    conditions = dated_conditions(status.conditions, before.conditions, generation, now)
    after = status.model_copy(update={"observed_generation": generation, "last_updated": now, "conditions": conditions})
    return after if is_due(before, after, now_s) else None


def is_due(before: PowerEventStatus, after: PowerEventStatus, now_s: float) -> bool:
    """Return whether a status is written; `before` is the one that is published."""
    if _state(before) != _state(after):
        return True
    if after.state is EventState.ENDED:
        return False
    return not 0.0 <= age_seconds(before.last_updated, now_s) < HEARTBEAT_S


def _state(status: PowerEventStatus) -> tuple[object, ...]:
    # Without the messages, whose watts move.
    conditions = tuple((each.type, each.status, each.reason) for each in status.conditions)
    last = status.minutes[-1].start if status.minutes else None
    figures = (status.first_seen, status.state, status.binding_event, status.seconds_to_90_percent)
    return (status.observed_generation, *figures, len(status.minutes), last, conditions)
