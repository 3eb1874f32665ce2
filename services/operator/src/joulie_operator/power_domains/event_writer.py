"""Statuses of PowerEvents as they are written.

At once where a state, a condition or the binding event changes, with each minute of the record, and otherwise every
five minutes until the event has ended. All of that is left to the next decision where limits have changed meanwhile.
"""

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from joulie_api.apply import MAX_IN_FLIGHT, FencedWriter, write_each
from joulie_api.errors import KubeError, NotFound, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.resources import POWER_EVENTS
from joulie_api.wire import Versioned
from joulie_core.kinds import PowerEvent, PowerEventStatus
from joulie_core.kinds.power_event import EventState
from joulie_core.timestamps import age_seconds, rfc3339
from joulie_operator.power_domains.status import dated_conditions

_log = structlog.get_logger()
#: Between two writes of a status that has not changed.
HEARTBEAT_S: Final = 300.0


class EventWriter:
    """The writer of one operator."""

    def __init__(self, writer: FencedWriter, failures: Failures) -> None:
        self._writer = writer
        self._contained = failures
        #: Versions of objects whose status was written since: until another one is seen, nothing is.
        self._written_over: dict[str, str] = {}
        self._failures = FailureLog(
            _log,
            failed="status of power event not written, will be repeated",
            recovered="status of power event written",
        )

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
            is_superseded: tells, while this goes on, whether limits have changed since: nothing more is written then.

        Raises:
            NotLeader: this process must not write any more.
        """
        listed = list(found)
        names = {event.name for event, _ in listed}
        self._written_over = {name: each for name, each in self._written_over.items() if name in names}
        self._failures.retain(lambda subject: subject["event_name"] in names)
        works = (self._publish_one(event, status, now_s, is_superseded) for event, status in listed)
        await write_each(works, concurrency=MAX_IN_FLIGHT)

    async def _publish_one(
        self,
        event: Versioned[PowerEvent],
        status: PowerEventStatus,
        now_s: float,
        is_superseded: Callable[[], bool],
    ) -> None:
        if is_superseded():
            return
        with self._contained.contained("publish power event", event_name=event.name):
            await self._publish_due(event, status, now_s)

    async def _publish_due(self, event: Versioned[PowerEvent], status: PowerEventStatus, now_s: float) -> None:
        version, before = event.metadata.resource_version, event.model.status
        if self._written_over.get(event.name) == version:
            return
        generation, now = event.metadata.generation, rfc3339(now_s, "seconds")
        conditions = dated_conditions(status.conditions, before.conditions, generation, now)
        after = status.model_copy(
            update={"observed_generation": generation, "last_updated": now, "conditions": conditions}
        )
        if not is_due(before, after, now_s):
            return
        body = {"metadata": {"resourceVersion": version}, "status": after.dump()}
        try:
            await self._writer.apply(POWER_EVENTS, event.name, body, status=True)
        except NotLeader:
            raise
        except NotFound:
            return  # deleted meanwhile
        except KubeError as error:
            self._failures.failed(error, event_name=event.name)
            return
        self._failures.recovered(event_name=event.name)
        self._written_over[event.name] = version


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
