"""The task of one BMC: reads it, brings its power and its cap to what is requested, and publishes what it found.

Guarantees: one request at a time; a pass has a deadline, and so has what follows it; whatever fails ends this pass
alone, is shown in the conditions of this NodeBMC, and is tried again; a BMC that asks to be left alone is; a NodeBMC
that is deleted leaves no cap while the BMC answers.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.wire import Versioned
from joulie_core.kinds import NodeBMC, NodeBMCSpec, NodeBMCStatus
from joulie_core.kinds.node_bmc import DesiredPower, PowerState, is_own_request
from joulie_core.timestamps import age_seconds, rfc3339
from joulie_outofband.bmc import Bmc
from joulie_outofband.cap_keeper import CapKeeper
from joulie_outofband.caps import has_ended
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.parts import WorkerParts
from joulie_outofband.power_keeper import PowerKeeper
from joulie_outofband.publish import StatusPublisher
from joulie_outofband.reasons import BmcError, BmcReason

ACCEPTED: Final = "Accepted"
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

#: Of `Failures`: the source of invalid input, and the work that has a defect.
_SOURCE: Final = "bmc"
_WORK: Final = "bmc pass"
#: Failures that the same answer or the same code causes again: the pauses after them grow.
_LASTING: Final = frozenset({BmcReason.MALFORMED, BmcReason.INTERNAL_ERROR})

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
        self._pauses = parts.pauses()
        #: Why the newest version of the object cannot be used; None where it can.
        self._rejected: str | None = None
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

    @property
    def put_to_sleep(self) -> bool:
        """Whether the operator requests the server off; a person's request is none to sleep."""
        desired = self._object.model.spec.desired_power
        return desired is DesiredPower.OFF and is_own_request(self._object.metadata.annotations, desired)

    def update(self, bmc: Versioned[NodeBMC]) -> None:
        """Take the newest version of the object; a changed spec starts a pass."""
        changed = bmc.model.spec != self._object.model.spec
        self._object = bmc
        if changed:
            self._refused_until = float("-inf")
            self._changed.set()

    def reject(self, why: str | None) -> None:
        """Show that the newest version of the object cannot be used, so that the last valid one stays in force."""
        if why != self._rejected:
            self._rejected = why
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
            self._parts.failures.forget(node=self.name)

    async def _pause(self) -> None:
        times, now = self._parts.times, self._parts.clock()
        await _wait(self._ended, self._busy_until - now)
        wait_s = times.transition_s if self._power.is_changing else times.poll_s
        wait_s = max(wait_s * (1 - _JITTER * self._parts.chance()), self._refused_until - now)
        await _wait(self._changed, wait_s)

    async def _pass(self, seen: Versioned[NodeBMC]) -> None:
        started = self._parts.clock()
        failure = await self._failure_of(self._work(seen))
        match failure:
            case None:
                self._on_success()
                reason = BmcReason.ANSWERS
            case BmcError():
                self._on_failure(failure)
                reason = failure.reason
                shown = await self._failure_of(self._publish())
                if shown is not None:
                    self._log.warning("status not written", error=str(shown))
                if reason is not BmcReason.BUSY:
                    await self._disconnect()
            case _:
                self._failures.failed(failure)
                reason = BmcReason.REFUSED
        self._parts.observer.on_pass(reason.value, self._parts.clock() - started)

    async def _failure_of(self, work: Coroutine[Any, Any, None]) -> BmcError | KubeError | None:
        """Do the work within the deadline of a pass; return why it failed, None if it did not."""
        try:
            async with asyncio.timeout(self._parts.times.pass_timeout_s):
                await work
        except TimeoutError:
            limit_s = self._parts.times.pass_timeout_s
            return BmcError(BmcReason.TIMED_OUT, f"pass not complete within {limit_s:g} s (BMC_PASS_TIMEOUT)")
        except (BmcError, KubeError) as error:
            return error
        except Exception as error:  # noqa: BLE001 - a defect ends the work on this BMC alone
            self._parts.failures.internal_error(_WORK, error, node=self.name)
            return BmcError(BmcReason.INTERNAL_ERROR, f"{type(error).__name__}: a defect; see the log of the service")
        return None

    def _on_success(self) -> None:
        self._failures.recovered()
        self._parts.failures.valid_input(_SOURCE, node=self.name)
        self._parts.failures.worked(_WORK, node=self.name)
        self._pauses = self._parts.pauses()

    def _on_failure(self, error: BmcError) -> None:
        times, now = self._parts.times, self._parts.clock()
        if error.reason is BmcReason.MALFORMED:
            self._parts.failures.invalid_input(_SOURCE, str(error), node=self.name)
        elif error.reason is not BmcReason.INTERNAL_ERROR:
            self._failures.failed(error, cause=error.reason)
        if error.reason is BmcReason.UNAUTHORIZED:
            self._refused_until = now + times.credentials_retry_s
        elif error.reason in _LASTING:
            self._refused_until = now + times.poll_s + self._pauses.next_s(now)
        elif error.reason is BmcReason.BUSY:
            self._busy_until = now + min(error.retry_after_s or 0.0, times.credentials_retry_s)
        self._note({REACHABLE: BmcFinding.no(error.reason, str(error))})
        self._publisher.note_power(PowerState.UNKNOWN)
        interval_s = max(self.status.interval_seconds or 0.0, times.poll_s)
        # Ahead of this clock it is as unknown.
        if abs(age_seconds(self.status.sampled_at, self._parts.wall())) > _INTERVALS * interval_s:
            self._publisher.change(power_watts=None)

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
        for _ in range(_LAST_ATTEMPTS):
            if self._cap.written_watts is None:
                return
            failure = await self._failure_of(self._restore())
            if failure is not None:
                self._log.warning("limit not restored", error=str(failure))
                await self._disconnect()
        if self._cap.written_watts is not None:
            self._log.error("cap left at the BMC", watts=self._cap.written_watts)

    async def _restore(self) -> None:
        spec = self._object.model.spec.model_copy(update={"cap": None})
        if self._connected is None:
            self._connected = await self._parts.connect(spec)
        await self._cap.keep(self._connected, spec, await self._connected.report())

    async def _disconnect(self) -> None:
        bmc, self._connected = self._connected, None
        if bmc is None:
            return
        try:
            async with asyncio.timeout(self._parts.times.close_timeout_s):
                await bmc.close()
        except (BmcError, TimeoutError) as error:
            self._log.debug("session not deleted", error=str(error))
        except Exception as error:  # noqa: BLE001 - a defect ends the work on this BMC alone
            self._parts.failures.internal_error("close bmc", error, node=self.name)

    def _note(self, findings: dict[str, BmcFinding]) -> None:
        if self._rejected is not None:
            findings = findings | {ACCEPTED: BmcFinding.no(BmcReason.INVALID_SPEC, self._rejected)}
        elif any(each.type == ACCEPTED for each in self.status.conditions):
            findings = findings | {ACCEPTED: BmcFinding.yes(BmcReason.VALID)}
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
    return spec.model_copy(update={"power_off": None, "forced_off": None, "desired_power": None, "cap": None})
