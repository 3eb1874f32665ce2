"""The loop: once in the interval it counts what was saved since the last look, and estimates what is saved from now on.

Guarantees that time which was not seen is unknown: while a watch may be out of date, between two looks that are far
apart, and from the last stored ledger to the first look of an operator that begins to lead. A ledger that cannot be
read is set aside with a log line and an Event. Nothing here ends the operator but the loss of its lease.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.errors import DecodeError, KubeError, NotFound, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.resources import CONFIG_MAPS
from joulie_api.savings import LEDGER_NAME, ledger_manifest, read_ledger, set_aside_text
from joulie_core.savings import Lever, LeverRate, SavingsLedger
from joulie_core.savings.rates import UNKNOWN_RATE
from joulie_operator.events import Event, EventType, Subject
from joulie_operator.reasons import EventReason
from joulie_operator.savings.estimate import SavingsEstimate
from joulie_operator.savings.metrics import SavingsCounters

_log = structlog.get_logger()

#: Between two looks.
INTERVAL_S: Final = 30.0
#: A rate counts for so many intervals at most.
MOST_INTERVALS: Final = 3
#: Between two writes of the ledger: what is lost at most when an operator ends.
STORE_INTERVAL_S: Final = 300.0
_ALL_UNKNOWN: Final = dict.fromkeys(Lever, UNKNOWN_RATE)


@dataclass(frozen=True, slots=True)
class SavingsParts:
    """Parts that a controller uses; `stale_reason` says why a watch may be out of date, `wall` is the time."""

    client: KubeClient
    writer: FencedWriter
    estimate: SavingsEstimate
    stale_reason: Callable[[], str | None]
    record_event: Callable[[Event], None]
    failures: Failures
    wall: Callable[[], float]
    namespace: str


class SavingsController:
    """The controller of one operator; `rates` are those of the last look."""

    def __init__(self, parts: SavingsParts) -> None:
        self.rates: dict[Lever, LeverRate] = _ALL_UNKNOWN
        self.counters = SavingsCounters()
        self._parts = parts
        #: None until the stored one has been read.
        self._ledger: SavingsLedger | None = None
        self._set_aside = ""
        self._stored_s = 0.0
        self._failures = FailureLog(_log, failed="savings not stored", recovered="savings are stored again")

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            NotLeader: this process must not write any more.
        """
        while True:
            with self._parts.failures.contained("savings"):
                await self.look()
            await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Look once. Raise as `run`."""
        now_s = self._parts.wall()
        if self._ledger is None and not await self._load(now_s):
            return
        ledger = self._ledger
        assert ledger is not None, "it was loaded"
        if now_s - ledger.until_s > MOST_INTERVALS * INTERVAL_S:
            self.counters.add(ledger.add_unknown(now_s))
        else:
            self.counters.add(ledger.add(self.rates, now_s))
        # Should the estimate fail, nothing is known from now on.
        self.rates = _ALL_UNKNOWN
        if self._parts.stale_reason() is None:
            self.rates = await self._parts.estimate.rates(now_s)
        if now_s - self._stored_s >= STORE_INTERVAL_S:
            await self._store(ledger, now_s)

    async def _load(self, now_s: float) -> bool:
        """Read the stored ledger, or begin one; return False where the API server does not answer."""
        try:
            raw = await self._parts.client.get(CONFIG_MAPS, LEDGER_NAME, self._parts.namespace)
        except NotFound:
            self._ledger = SavingsLedger.begin(now_s)
            return True
        except KubeError as error:
            self._failures.failed(error, ledger=LEDGER_NAME)
            return False
        try:
            ledger = read_ledger(raw)
        except DecodeError as error:
            self._set_aside = set_aside_text(raw, unreadable=True)
            self._report(error)
            ledger = SavingsLedger.begin(now_s)
        else:
            self._set_aside = set_aside_text(raw, unreadable=False)
        self._ledger = ledger
        # What nothing was seen of.
        self.counters.add(ledger.add_unknown(now_s))
        return True

    def _report(self, error: DecodeError) -> None:
        _log.warning("ledger of savings set aside", config_map=LEDGER_NAME, error=str(error))
        subject = Subject(CONFIG_MAPS, LEDGER_NAME, "", self._parts.namespace)
        message = f"{error}; a new ledger was begun, and the old one is kept under the key set-aside"
        self._parts.record_event(Event(subject, EventType.WARNING, EventReason.SAVINGS_SET_ASIDE, message))

    async def _store(self, ledger: SavingsLedger, now_s: float) -> None:
        body = ledger_manifest(ledger, self._set_aside)
        try:
            await self._parts.writer.apply(CONFIG_MAPS, LEDGER_NAME, body, namespace=self._parts.namespace)
        except NotLeader:
            raise
        except KubeError as error:
            self._failures.failed(error, ledger=LEDGER_NAME)
        else:
            self._stored_s = now_s
            self._failures.recovered(ledger=LEDGER_NAME)
