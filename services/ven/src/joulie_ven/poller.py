"""The loop of the VEN: reads events, writes PowerEvents, sends reports, and waits.

A poll that fails changes nothing: what was written stays, is not renewed, and the operator applies `ifSourceLost`. An
event that is missing from the list is taken for deleted only when the VTN has said so of its id.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from joulie_api.backoff import Backoff
from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_ven.changes import changes
from joulie_ven.keeper import EventKeeper
from joulie_ven.limits import LimitRules, plan
from joulie_ven.metrics import VenMetrics
from joulie_ven.objects import OwnEvent
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.reports import ReportSender
from joulie_ven.settings import VenSettings
from joulie_ven.vtn import ReadEvents, Vtn
from joulie_ven.wire import VtnProgram

#: Longest wait after failures, beyond the interval.
_MOST_WAIT_S: Final = 60.0
#: Polls are spread by this share of the interval, so that many VENs do not come at once.
_SPREAD: Final = 0.1
#: Deadline of one poll, in deadlines of a request.
_REQUESTS: Final = 12
#: Missing events that are looked up in one poll; the others stay until their turn.
_MOST_LOOKUPS: Final = 20
#: A clock that is off by more is logged: events would begin and end at other times than the VTN means.
_MOST_AHEAD_S: Final = 5.0
_SOURCE: Final = "vtn"

_log = structlog.get_logger()


class Poller:
    """The loop of one VEN.

    Args:
        vtn: the VTN.
        keeper: the PowerEvents.
        reporter: sends reports.
        settings: settings of the VEN.
        metrics: of the VEN.
        failures: for events that are refused.
        wall: seconds since the epoch.
        chance: uniform in [0, 1).
    """

    def __init__(
        self,
        vtn: Vtn,
        keeper: EventKeeper,
        reporter: ReportSender,
        *,
        settings: VenSettings,
        metrics: VenMetrics,
        failures: Failures,
        wall: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._vtn = vtn
        self._keeper = keeper
        self._reporter = reporter
        self._settings = settings
        self._rules = LimitRules(
            settings.ven_name, frozenset(settings.ven_targets), settings.site_other_watts, settings.simple_limits
        )
        self._metrics = metrics
        self._failures = failures
        self._wall = wall
        self._chance = chance
        interval_s = settings.vtn_poll_interval
        self._backoff = Backoff(chance, initial_s=interval_s, cap_s=_MOST_WAIT_S, reset_after_s=2 * interval_s)
        self._problems = FailureLog(_log, failed="poll failed", recovered="polls succeed again")
        self._clock = FailureLog(_log, failed="the clock of the VTN differs", recovered="the clock of the VTN agrees")
        self._program: VtnProgram | None = None
        self._refused: frozenset[str] = frozenset()
        #: The missing event that was looked up last: the next ones by their ids are next.
        self._looked_up_to = ""

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            wait_s = await self.once()
            await asyncio.sleep(wait_s)

    async def once(self) -> float:
        """Poll once; return the seconds until the next poll."""
        reason, wait_s = VtnReason.INTERNAL_ERROR, 0.0
        with self._failures.contained("poll the VTN"):
            reason, wait_s = await self._result()
        self._metrics.on_poll(reason, self._vtn.ahead_s, self._wall())
        self._compare_clocks()
        interval_s = self._settings.vtn_poll_interval * (1 + _SPREAD * (2 * self._chance() - 1))
        if reason is VtnReason.OK:
            return interval_s
        return max(wait_s, interval_s + self._backoff.next_s(self._wall()))

    async def _result(self) -> tuple[VtnReason, float]:
        """Poll; return the reason of the end, and the seconds that the VTN requests to be left alone."""
        reason, wait_s = VtnReason.OK, 0.0
        try:
            async with asyncio.timeout(_REQUESTS * self._settings.vtn_request_timeout):
                await self._poll()
        except VtnError as error:
            reason, wait_s = error.reason, error.retry_after_s
            self._problems.failed(error.message, cause=reason.value)
        except TimeoutError:
            reason = VtnReason.TIMED_OUT
            self._problems.failed("the poll took too long", cause=reason.value)
        except KubeError as error:
            reason = VtnReason.KUBERNETES_FAILED
            self._problems.failed(error, cause=reason.value)
        else:
            self._problems.recovered()
        return reason, wait_s

    async def _poll(self) -> None:
        own = await self._keeper.read()
        program = await self._read_program()
        targets = self._settings.ven_targets
        try:
            read = await self._vtn.events(program.id, targets)
        except VtnError:
            # The program may have been made anew.
            self._program = None
            raise
        now_s = self._wall()
        gone = await self._look_up(own, read, program.id, now_s)
        seen_s = {each.event_id: each.seen_s for each in own}
        found = plan(
            read.events.values(),
            self._rules,
            now_s=now_s,
            seen_s=seen_s,
            defaults=program.payload_descriptors or (),
            past=(each.as_past() for each in own if each.end_s <= now_s),
        )
        self._metrics.on_plan(found, events=len(read.events), unreadable=len(read.unreadable))
        self._tell({**found.refused, **read.unreadable})
        listed = frozenset(read.events.keys() | read.unreadable.keys())
        decided = gone | (read.events.keys() - found.refused.keys())
        due = changes(
            found.limits, own, listed=listed, decided=frozenset(decided), settings=self._settings, now_s=now_s
        )
        await self._keeper.write(due)
        await self._reporter.report(read, own, program.id, now_s)

    async def _read_program(self) -> VtnProgram:
        if self._program is None:
            self._program = await self._vtn.program(self._settings.vtn_program, self._settings.ven_targets)
            _log.info("follows a program", program=self._program.id)
        return self._program

    async def _look_up(self, own: Iterable[OwnEvent], read: ReadEvents, program_id: str, now_s: float) -> set[str]:
        """Read the events that the list lacks although they have not ended; return those that are gone."""
        missing = sorted(
            {each.event_id for each in own if each.end_s > now_s} - read.events.keys() - read.unreadable.keys()
        )
        first = bisect_right(missing, self._looked_up_to)
        gone = set()
        for each in (missing[first:] + missing[:first])[:_MOST_LOOKUPS]:
            is_there = await self._vtn.event(each, read, program_id)
            self._looked_up_to = each
            if not is_there or self._is_of_another(each, read):
                gone.add(each)
        return gone

    @staticmethod
    def _is_of_another(event_id: str, read: ReadEvents) -> bool:
        """Return whether an event that the VTN has belongs to another program now."""
        return event_id not in read.events and event_id not in read.unreadable

    def _tell(self, refused: dict[str, str]) -> None:
        """Log and count the events that are refused, each while it is."""
        for event_id, problem in refused.items():
            self._failures.invalid_input(_SOURCE, problem, openadr_event=event_id)
        for event_id in self._refused - refused.keys():
            self._failures.valid_input(_SOURCE, openadr_event=event_id)
        self._refused = frozenset(refused)

    def _compare_clocks(self) -> None:
        ahead_s = self._vtn.ahead_s
        if ahead_s is None:
            return
        if abs(ahead_s) > _MOST_AHEAD_S:
            self._clock.failed(f"it is ahead by {ahead_s:.0f} s", cause="clock")
        else:
            self._clock.recovered()
