"""The task of one BMC: reads it, brings its power and its cap to what is requested, and publishes what it found.

Guarantees: one request at a time; a pass has a deadline; the entry of a cap is stored before the cap is written;
nothing is written to the BMC unless this process leads; a NodeBMC that is deleted leaves no cap while the BMC answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from joulie_api.errors import KubeError, NotFound
from joulie_api.failure_log import FailureLog
from joulie_api.resources import NODES, Resource
from joulie_api.wire import Versioned
from joulie_core.kinds import NodeBMC, NodeBMCSpec
from joulie_core.kinds.node_bmc import BmcCapStatus, PowerState
from joulie_core.timestamps import age_seconds, rfc3339
from joulie_outofband.boots import Boot, NodeReadiness, read_readiness, usual_boot_s, with_boot
from joulie_outofband.caps import CapAction, confirmed, decide_cap, in_force, is_cap
from joulie_outofband.metrics import BmcAction
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.power import PowerRequest, PowerTimeouts, decide_power
from joulie_outofband.publish import StatusPublisher, with_findings
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.bmc import BmcReport, RedfishBmc

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


class NodeReads(Protocol):
    """The part of `joulie_api.client.KubeClient` that is used."""

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> bytes:
        """Return an object as raw JSON."""


class PassObserver(Protocol):
    """What is counted."""

    def on_pass(self, reason: str, duration_s: float) -> None:
        """Count a pass."""

    def on_action(self, action: BmcAction, *, done: bool) -> None:
        """Count a request that changes something."""


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Times of a worker, in seconds."""

    poll_s: float
    transition_s: float
    pass_timeout_s: float
    credentials_retry_s: float
    boot_timeout_s: float
    power: PowerTimeouts


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What all workers share; `connect` returns a BMC that is not connected yet, and raises BmcError."""

    connect: Callable[[NodeBMCSpec], Awaitable[RedfishBmc]]
    client: NodeReads
    observer: PassObserver
    times: WorkerTimes
    may_write: Callable[[], bool]
    clock: Callable[[], float]
    wall: Callable[[], float]
    chance: Callable[[], float]


class BmcWorker:
    """The worker of one NodeBMC."""

    def __init__(self, bmc: Versioned[NodeBMC], publisher: StatusPublisher, parts: WorkerParts) -> None:
        self.name = bmc.name
        self.status = bmc.model.status
        """The newest status, whether it is published or not."""
        self._object = bmc
        self._publisher = publisher
        self._parts = parts
        self._connected: RedfishBmc | None = None
        self._request: PowerRequest | None = None
        self._boot: Boot | None = None
        self._refused_until = float("-inf")
        self._changed = asyncio.Event()
        self._ended = False
        self._log = _log.bind(node=bmc.name)
        self._failures = FailureLog(self._log, failed="pass failed", recovered="pass recovered")

    def update(self, bmc: Versioned[NodeBMC]) -> None:
        """Take the newest version of the object; a changed spec starts a pass."""
        changed = bmc.model.spec != self._object.model.spec
        self._object = bmc
        if changed:
            self._refused_until = float("-inf")
            self._changed.set()

    def end(self) -> None:
        """Have `run` restore the limit and return, since the object was deleted."""
        self._ended = True
        self._changed.set()

    async def run(self) -> None:
        """Work until the object is deleted."""
        try:
            connected_for = self._object.model.spec
            while not self._ended:
                spec = self._object.model.spec
                if _connection_of(spec) != _connection_of(connected_for):
                    await self._disconnect()
                    connected_for = spec
                self._changed.clear()
                await self._pass(spec)
                await self._pause()
            await self._restore_at_end()
        finally:
            await self._disconnect()

    async def _pause(self) -> None:
        times, now = self._parts.times, self._parts.clock()
        busy = self._request is not None or self._boot is not None
        wait_s = times.transition_s if busy else times.poll_s
        wait_s = max(wait_s * (1 - _JITTER * self._parts.chance()), self._refused_until - now)
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _pass(self, spec: NodeBMCSpec) -> None:
        started = self._parts.clock()
        try:
            async with asyncio.timeout(self._parts.times.pass_timeout_s):
                await self._work(spec)
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
        if error.reason is BmcReason.UNAUTHORIZED:
            self._refused_until = self._parts.clock() + self._parts.times.credentials_retry_s
        await self._disconnect()
        self._note({REACHABLE: BmcFinding.no(error.reason, str(error))}, power_state=PowerState.UNKNOWN)
        interval_s = max(self.status.interval_seconds or 0.0, self._parts.times.poll_s)
        if self._sample_age_s() > _INTERVALS * interval_s:
            self.status = self.status.model_copy(update={"power_watts": None})
        try:
            await self._publisher.publish(self.status)
        except KubeError as problem:
            self._log.warning("status not written", error=str(problem))

    async def _work(self, spec: NodeBMCSpec) -> None:
        if self._connected is None:
            self._connected = await self._parts.connect(spec)
        bmc = self._connected
        report = await bmc.report()
        self.status = self.status.model_copy(
            update={
                "power_watts": report.watts,
                "sampled_at": rfc3339(self._parts.wall(), "seconds"),
                "interval_seconds": report.interval_s,
                "capability": report.capability,
            }
        )
        self._note({REACHABLE: BmcFinding.yes(BmcReason.ANSWERS)}, power_state=report.power_state)
        findings = {POWER_AS_DESIRED: await self._power(bmc, spec, report)}
        findings |= await self._boots(report)
        findings[CAPPED] = await self._cap(bmc, spec, report)
        self._note(findings)
        await self._publisher.publish(self.status)

    async def _power(self, bmc: RedfishBmc, spec: NodeBMCSpec, report: BmcReport) -> BmcFinding:
        decision = decide_power(
            spec,
            report.power_state,
            report.capability.reset_types,
            self._request,
            now=self._parts.clock(),
            timeouts=self._parts.times.power,
        )
        if decision.reset is None or decision.request is None:
            self._request = decision.request
            return decision.finding
        if not self._parts.may_write():
            return decision.finding
        if decision.request.on and self._boot is None:
            self._boot = Boot(self._parts.wall(), (await self._readiness()).boot_id)
        try:
            await bmc.reset(decision.reset)
        except BmcError as error:
            self._parts.observer.on_action(BmcAction.RESET, done=False)
            # A refusal is final for this reset type; without an answer it may have been carried out.
            self._request = decision.request.refused() if error.reason is BmcReason.REFUSED else decision.request
            return BmcFinding.no(error.reason, f"{decision.reset}: {error}")
        self._parts.observer.on_action(BmcAction.RESET, done=True)
        self._request = decision.request
        self._log.info("reset requested", reset=decision.reset, desired=spec.desired_power)
        return decision.finding

    async def _boots(self, report: BmcReport) -> dict[str, BmcFinding]:
        known = any(each.type == WAKE_PROVEN for each in self.status.conditions)
        not_tried = {} if known else {WAKE_PROVEN: BmcFinding.unknown(BmcReason.NOT_TRIED)}
        boot = self._boot
        if boot is None:
            return not_tried
        waited_s = self._parts.wall() - boot.requested_s
        if report.power_state is PowerState.ON and boot.is_complete(await self._readiness()):
            self._boot = None
            recent = with_boot(self.status.recent_boots, waited_s)
            changes = {"recent_boots": recent, "boot_seconds": usual_boot_s(recent)}
            self.status = self.status.model_copy(update=changes)
            self._log.info("node booted", seconds=round(waited_s, 1))
            return {WAKE_PROVEN: BmcFinding.yes(BmcReason.WOKEN, "powered on, and the node became ready")}
        if waited_s > self._parts.times.boot_timeout_s:
            self._boot = None
            self._log.warning("node not ready after power on", seconds=round(waited_s, 1))
            return {WAKE_PROVEN: BmcFinding.no(BmcReason.BOOT_TIMED_OUT, f"not ready after {waited_s:.0f} s")}
        return not_tried

    async def _readiness(self) -> NodeReadiness:
        try:
            return read_readiness(await self._parts.client.get(NODES, self.name))
        except NotFound:
            return NodeReadiness()

    async def _cap(self, bmc: RedfishBmc, spec: NodeBMCSpec, report: BmcReport) -> BmcFinding:
        if report.limit is None:
            self.status = self.status.model_copy(update={"cap": None})
            missing = BmcReason.NO_CAP if spec.cap is None else BmcReason.NO_LIMIT
            return BmcFinding.no(missing)
        entry = self.status.cap or BmcCapStatus()
        decision = decide_cap(
            spec.cap, entry, report.limit, report.capability.limit_exception, now_s=self._parts.wall()
        )
        self.status = self.status.model_copy(update={"cap": decision.entry})
        if decision.action is CapAction.NOTHING or not self._parts.may_write():
            return decision.finding
        if decision.action is CapAction.RESTORE:
            return await self._restore(bmc, decision.entry) or decision.finding
        return await self._set_cap(bmc, decision.entry)

    async def _set_cap(self, bmc: RedfishBmc, entry: BmcCapStatus) -> BmcFinding:
        # Stored first: whatever happens now, the original is known.
        await self._publisher.store(self.status)
        failure = await self._write_limit(bmc, BmcAction.CAP, entry.requested_watts)
        if failure is not None:
            return failure
        limit = await bmc.limit()
        entry = confirmed(entry, None if limit is None else limit.watts)
        self.status = self.status.model_copy(update={"cap": entry})
        self._log.info("cap written", watts=entry.requested_watts, read_back=entry.confirmed_watts)
        return in_force(entry)

    async def _restore(self, bmc: RedfishBmc, entry: BmcCapStatus) -> BmcFinding | None:
        """Write the original; return why that failed, None if it is in force."""
        failure = await self._write_limit(bmc, BmcAction.RESTORE, entry.original_watts)
        if failure is not None:
            return failure
        limit = await bmc.limit()
        watts = None if limit is None else limit.watts
        if watts != entry.original_watts and is_cap(entry, watts):
            return BmcFinding.unknown(BmcReason.NOT_READ_BACK, "the cap is still read after its end")
        self.status = self.status.model_copy(update={"cap": BmcCapStatus(watts=watts)})
        self._log.info("limit restored", watts=watts)
        return None

    async def _write_limit(self, bmc: RedfishBmc, action: BmcAction, watts: float | None) -> BmcFinding | None:
        try:
            await bmc.set_limit(watts)
        except BmcError as error:
            self._parts.observer.on_action(action, done=False)
            return BmcFinding.unknown(error.reason, str(error))
        self._parts.observer.on_action(action, done=True)
        return None

    async def _restore_at_end(self) -> None:
        spec = self._object.model.spec.model_copy(update={"cap": None})
        for _ in range(_LAST_ATTEMPTS):
            if self.status.cap is None or self.status.cap.requested_watts is None:
                return
            try:
                async with asyncio.timeout(self._parts.times.pass_timeout_s):
                    if self._connected is None:
                        self._connected = await self._parts.connect(spec)
                    await self._cap(self._connected, spec, await self._connected.report())
            except (TimeoutError, BmcError) as error:
                self._log.warning("limit not restored", error=str(error))
                await self._disconnect()
        if self.status.cap is not None and self.status.cap.requested_watts is not None:
            self._log.error("cap left at the BMC", watts=self.status.cap.requested_watts)

    async def _disconnect(self) -> None:
        bmc, self._connected = self._connected, None
        if bmc is None:
            return
        try:
            await bmc.close()
        except BmcError as error:
            self._log.debug("session not deleted", error=str(error))

    def _note(self, findings: dict[str, BmcFinding], *, power_state: PowerState | None = None) -> None:
        now_s = self._parts.wall()
        changes: dict[str, object] = {
            "conditions": with_findings(
                self.status.conditions, findings, now_s=now_s, generation=self._object.metadata.generation
            )
        }
        if power_state is not None and power_state is not self.status.power_state:
            changes |= {"power_state": power_state, "last_transition": rfc3339(now_s, "seconds")}
        self.status = self.status.model_copy(update=changes)

    def _sample_age_s(self) -> float:
        return age_seconds(self.status.sampled_at, self._parts.wall())


def _connection_of(spec: NodeBMCSpec) -> NodeBMCSpec:
    """Return the part of a spec that a connection depends on."""
    return spec.model_copy(update={"power_off": None, "desired_power": None, "cap": None})
