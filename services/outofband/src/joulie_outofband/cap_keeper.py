"""Brings the power limit of one BMC to what is requested.

Guarantees: the entry of a cap is stored before the cap is written; nothing is written unless this process leads; a cap
that the BMC has refused or not taken in time is not shown as requested, and is tried again after pauses that grow.
"""

import structlog

from joulie_core.kinds import NodeBMCSpec
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_bmc import BmcCapStatus
from joulie_outofband.bmc import Bmc, BmcReport
from joulie_outofband.cap_attempt import REFUSALS, CapAttempt
from joulie_outofband.caps import CapAction, CapDecision, confirmed, decide_cap, in_force, is_cap, is_untouched
from joulie_outofband.metrics import BmcAction
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.parts import WorkerParts
from joulie_outofband.publish import StatusPublisher
from joulie_outofband.reasons import BmcError, BmcReason

_log = structlog.get_logger()


class CapKeeper:
    """The cap of one NodeBMC."""

    def __init__(self, name: str, publisher: StatusPublisher, parts: WorkerParts) -> None:
        self._publisher = publisher
        self._parts = parts
        self._log = _log.bind(node=name)
        #: Of the cap that was written last by this process, until it was read.
        self._attempt: CapAttempt | None = None

    @property
    def written_watts(self) -> float | None:
        """The cap that was written and not restored; None without one."""
        cap = self._publisher.status.cap
        return None if cap is None else cap.requested_watts

    async def keep(self, bmc: Bmc, spec: NodeBMCSpec, report: BmcReport) -> BmcFinding:
        """Set or restore the limit where that is due.

        Raises:
            BmcError: the limit could not be read back.
            KubeError: the entry could not be stored; nothing was written to the BMC.
        """
        if report.limit is None:
            self._publisher.change(cap=None)
            return BmcFinding.no(BmcReason.NO_CAP if spec.cap is None else BmcReason.NO_LIMIT)
        entry = self._taken_late(self._publisher.status.cap or BmcCapStatus(), report.limit.watts)
        decision = decide_cap(
            spec.cap, entry, report.limit, report.capability.limit_exception, now_s=self._parts.wall()
        )
        rejection = self._rejection(decision)
        if rejection is not None:
            self._publisher.change(cap=BmcCapStatus(watts=report.limit.watts))
            return rejection
        self._publisher.change(cap=decision.entry)
        if decision.action is CapAction.NOTHING or not self._parts.may_write():
            return self._noted(decision.finding)
        if decision.action is CapAction.RESTORE:
            return await self._restore(bmc, decision.entry) or decision.finding
        return await self._set(bmc, decision.entry)

    async def _set(self, bmc: Bmc, entry: BmcCapStatus) -> BmcFinding:
        now = self._parts.clock()
        attempt = self._attempt
        if attempt is None or attempt.watts != entry.requested_watts:
            attempt = self._attempt = CapAttempt(entry, self._parts.pauses(), now)
        attempt.begin(now)
        # Stored first: whatever happens now, the original is known.
        await self._publisher.store()
        failure = await self._write(bmc, BmcAction.CAP, entry.requested_watts)
        if failure is not None and failure.reason not in REFUSALS:
            return failure
        limit = await bmc.limit()
        watts = None if limit is None else limit.watts
        if failure is not None and is_untouched(entry, watts):
            self._publisher.change(cap=BmcCapStatus(watts=watts))
            return attempt.reject(failure.reason, failure.message, now)
        entry = confirmed(entry, watts)
        self._publisher.change(cap=entry)
        self._log.info("cap written", watts=entry.requested_watts, read_back=entry.confirmed_watts)
        return self._noted(in_force(entry))

    def _noted(self, finding: BmcFinding) -> BmcFinding:
        """Return the finding; a cap in force ends its attempts."""
        if finding.status is ConditionStatus.TRUE:
            self._attempt = None
        return finding

    def _taken_late(self, entry: BmcCapStatus, watts: float | None) -> BmcCapStatus:
        """Return the entry of a cap that is read after it counted as not taken: it is restored like any other."""
        found = None if self._attempt is None or entry.requested_watts is not None else self._attempt.entry_of(watts)
        return entry if found is None else found

    def _rejection(self, decision: CapDecision) -> BmcFinding | None:
        """Return why a cap is not requested of this BMC now, since the BMC does not take it; None otherwise."""
        attempt, entry, now = self._attempt, decision.entry, self._parts.clock()
        if attempt is None or decision.action is CapAction.RESTORE or attempt.watts != entry.requested_watts:
            return None
        if attempt.is_overdue(now) and is_untouched(entry, entry.watts):
            return attempt.reject(BmcReason.NOT_TAKEN, in_force(confirmed(entry, entry.watts)).message, now)
        return attempt.pause(now) if is_untouched(entry, entry.watts) else None

    async def _restore(self, bmc: Bmc, entry: BmcCapStatus) -> BmcFinding | None:
        """Write the original; return why that failed, None if it is in force."""
        failure = await self._write(bmc, BmcAction.RESTORE, entry.original_watts)
        if failure is not None:
            return failure
        limit = await bmc.limit()
        watts = None if limit is None else limit.watts
        if watts != entry.original_watts and is_cap(entry, watts):
            return BmcFinding.unknown(BmcReason.NOT_READ_BACK, "the cap is still read after its end")
        self._publisher.change(cap=BmcCapStatus(watts=watts))
        self._log.info("limit restored", watts=watts)
        return None

    async def _write(self, bmc: Bmc, action: BmcAction, watts: float | None) -> BmcFinding | None:
        try:
            await bmc.set_limit(watts)
        except BmcError as error:
            self._parts.observer.on_action(action, done=False)
            return BmcFinding.unknown(error.reason, str(error))
        self._parts.observer.on_action(action, done=True)
        return None
