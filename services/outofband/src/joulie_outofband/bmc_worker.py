"""The task of one BMC: reads it, brings its power and its cap to what is requested, and publishes what it found.

Guarantees: one request at a time; a pass has a deadline; a BMC that asks to be left alone is; a NodeBMC that is deleted
leaves no cap while the BMC answers.
"""

import asyncio
from typing import Final

import structlog

from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.wire import Versioned
from joulie_core.kinds import NodeBMC, NodeBMCSpec, NodeBMCStatus
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.timestamps import age_seconds, rfc3339
from joulie_outofband.bmc import Bmc
from joulie_outofband.cap_keeper import CapKeeper
from joulie_outofband.caps import has_ended
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.parts import WorkerParts
from joulie_outofband.power_keeper import PowerKeeper
from joulie_outofband.publish import StatusPublisher
from joulie_outofband.reasons import BmcError, BmcReason

REACHABLE: Final = "Reachable"
POWER_AS_DESIRED: Final = "PowerAsDesired"
CAPPED: Final = "Capped"
WAKE_PROVEN: Final = "WakeProven"
#: A reading is unknown after this many intervals without an answer.
_INTERVALS: Final = 3
#: Passes are spread by this share of their interval.
_JITTER: Final = 0.2
#: Attempts to restore the limit of a NodeBMC that was deleted.
_LAST_ATTEMPTS: Final = 3

_log = structlog.get_logger()


class BmcWorker:
    """The worker of one NodeBMC."""

    def __init__(self, bmc: Versioned[NodeBMC], publisher: StatusPublisher, parts: WorkerParts) -> None:
        self.name = bmc.name
        self._object = bmc
        self._publisher = publisher
        self._parts = parts
        self._power = PowerKeeper(bmc.name, publisher, parts)
        self._cap = CapKeeper(bmc.name, publisher, parts)
        self._connected: Bmc | None = None
        #: Until when the BMC is left alone, and until when unless the spec changes.
        self._busy_until = float("-inf")
        self._refused_until = float("-inf")
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._log = _log.bind(node=bmc.name)
        self._failures = FailureLog(self._log, failed="pass failed", recovered="pass recovered")

    @property
    def uid(self) -> str:
        """`metadata.uid` of the object."""
        return self._object.metadata.uid

    @property
    def status(self) -> NodeBMCStatus:
        """The newest status, whether it is published or not."""
        return self._publisher.status

    @property
    def cap_overdue(self) -> bool | None:
        """Whether the cap at the BMC should have been removed; None where there is none."""
        if self._cap.written_watts is None:
            return None
        cap = self._object.model.spec.cap
        return cap is None or has_ended(cap, self._parts.wall())

    def update(self, bmc: Versioned[NodeBMC]) -> None:
        """Take the newest version of the object; a changed spec starts a pass."""
        changed = bmc.model.spec != self._object.model.spec
        self._object = bmc
        if changed:
            self._refused_until = float("-inf")
            self._changed.set()

    def end(self) -> None:
        """Have `run` restore the limit and return, since the object was deleted."""
        self._ended.set()
        self._changed.set()

    async def run(self) -> None:
        """Work until the object is deleted."""
        try:
            connected_for = self._object.model.spec
            while not self._ended.is_set():
                seen = self._object
                spec = seen.model.spec
                if _connection_of(spec) != _connection_of(connected_for):
                    await self._disconnect()
                    connected_for = spec
                self._changed.clear()
                await self._pass(seen)
                await self._pause()
            await self._restore_at_end()
        finally:
            await self._disconnect()

    async def _pause(self) -> None:
        times, now = self._parts.times, self._parts.clock()
        await _wait(self._ended, self._busy_until - now)
        wait_s = times.transition_s if self._power.is_changing else times.poll_s
        wait_s = max(wait_s * (1 - _JITTER * self._parts.chance()), self._refused_until - now)
        await _wait(self._changed, wait_s)

    async def _pass(self, seen: Versioned[NodeBMC]) -> None:
        started = self._parts.clock()
        try:
            async with asyncio.timeout(self._parts.times.pass_timeout_s):
                await self._work(seen)
        except TimeoutError:
            await self._on_failure(BmcError(BmcReason.TIMED_OUT, "pass not complete in time"))
            reason = BmcReason.TIMED_OUT
        except BmcError as error:
            await self._on_failure(error)
            reason = error.reason
        except KubeError as error:
            self._failures.failed(error)
            reason = BmcReason.REFUSED
        else:
            self._failures.recovered()
            reason = BmcReason.ANSWERS
        self._parts.observer.on_pass(reason.value, self._parts.clock() - started)

    async def _on_failure(self, error: BmcError) -> None:
        self._failures.failed(error, cause=error.reason)
        times, now = self._parts.times, self._parts.clock()
        if error.reason is BmcReason.UNAUTHORIZED:
            self._refused_until = now + times.credentials_retry_s
        if error.reason is BmcReason.BUSY:
            self._busy_until = now + min(error.retry_after_s or 0.0, times.credentials_retry_s)
        else:
            await self._disconnect()
        self._note({REACHABLE: BmcFinding.no(error.reason, str(error))})
        self._publisher.note_power(PowerState.UNKNOWN)
        interval_s = max(self.status.interval_seconds or 0.0, times.poll_s)
        if age_seconds(self.status.sampled_at, self._parts.wall()) > _INTERVALS * interval_s:
            self._publisher.change(power_watts=None)
        try:
            await self._publish()
        except KubeError as problem:
            self._log.warning("status not written", error=str(problem))

    async def _work(self, seen: Versioned[NodeBMC]) -> None:
        spec = seen.model.spec
        if self._connected is None:
            self._connected = await self._parts.connect(spec)
        bmc = self._connected
        report = await bmc.report()
        self._publisher.change(
            power_watts=report.watts,
            sampled_at=rfc3339(self._parts.wall(), "seconds") if report.answers else None,
            interval_seconds=report.interval_s,
            capability=report.capability,
        )
        self._publisher.note_power(report.power_state)
        answers = BmcFinding.yes(BmcReason.ANSWERS) if report.answers else BmcFinding.unknown(BmcReason.NEVER_ANSWERS)
        self._note({REACHABLE: answers})
        known = any(each.type == WAKE_PROVEN for each in self.status.conditions)
        not_tried = None if known else BmcFinding.unknown(BmcReason.NOT_TRIED)
        findings = {
            POWER_AS_DESIRED: await self._power.keep(bmc, seen, report),
            WAKE_PROVEN: await self._power.boots(report, proof=not_tried),
            CAPPED: await self._cap.keep(bmc, spec, report),
        }
        self._note({kind: finding for kind, finding in findings.items() if finding is not None})
        await self._publish()

    async def _publish(self) -> None:
        # Without its object the status would be written to another one of the same name.
        if not self._ended.is_set():
            await self._publisher.publish()

    async def _restore_at_end(self) -> None:
        spec = self._object.model.spec.model_copy(update={"cap": None})
        for _ in range(_LAST_ATTEMPTS):
            if self._cap.written_watts is None:
                return
            try:
                async with asyncio.timeout(self._parts.times.pass_timeout_s):
                    if self._connected is None:
                        self._connected = await self._parts.connect(spec)
                    await self._cap.keep(self._connected, spec, await self._connected.report())
            except (TimeoutError, BmcError) as error:
                self._log.warning("limit not restored", error=str(error))
                await self._disconnect()
        if self._cap.written_watts is not None:
            self._log.error("cap left at the BMC", watts=self._cap.written_watts)

    async def _disconnect(self) -> None:
        bmc, self._connected = self._connected, None
        if bmc is None:
            return
        try:
            await bmc.close()
        except BmcError as error:
            self._log.debug("session not deleted", error=str(error))

    def _note(self, findings: dict[str, BmcFinding]) -> None:
        self._publisher.note(findings, generation=self._object.metadata.generation)


async def _wait(event: asyncio.Event, wait_s: float) -> None:
    """Wait for the event, but not longer."""
    try:
        async with asyncio.timeout(max(0.0, wait_s)):
            await event.wait()
    except TimeoutError:
        return


def _connection_of(spec: NodeBMCSpec) -> NodeBMCSpec:
    """Return the part of a spec that a connection depends on."""
    return spec.model_copy(update={"power_off": None, "desired_power": None, "cap": None})
