"""Sets and lifts the clocks of this machine's GPUs by the class of their holders, in a loop of its own.

Guarantees that a limit is wanted only while the last look at the holders is recent and allows it; that one which is not
wanted any more is lifted at the next step, and that this is tried again at each step until it is done; that a step has
a deadline; and that limits end without this process, since their lease is short. A defect of the decision lifts.
`before_start` lifts for containers that are about to start, and holds back what a late look at the holders would set.
Source: docs/decisions/0054-class-limits-enforced.md, docs/decisions/0059-limits-lifted-before-start.md.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NoReturn

import structlog

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply, GpuClassClocks
from joulie_agent.class_limits.before_start import LiftOutcome, StartLook, not_allowed
from joulie_agent.holders.answer import EXCHANGE_S, MOST_AGE_S
from joulie_agent.holders.follow import INTERVAL_S
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_core.class_caps.enforced_limit import DEADLINE_S, LEASE_S, RENEW_S, STEP_S, EnforcedClocks, EnforcedReason
from joulie_core.class_caps.held_limit import HeldLimit
from joulie_core.holders.held import HeldDevice

#: Of a look at the holders; older, they are not known.
RECENT_S: Final = 3.0
#: Longest time from the kubelet's assignment of a device to the step that lifts its limit, while the agent runs: the
#: age of an answer, the time to fetch it, and those to the next look. The time of the driver comes on top.
LIFTED_WITHIN_S: Final = MOST_AGE_S + EXCHANGE_S + INTERVAL_S + EXCHANGE_S
#: After the start of a container, until no look counts whose answer of the kubelet may be older than the start.
HELD_BACK_S: Final = RECENT_S + MOST_AGE_S + EXCHANGE_S
_WORK: Final = "limits by class to be set"

_log = structlog.get_logger()

SendClocks = Callable[[Mapping[str, int], float], Awaitable[GpuClassClocks | HardwareFailure | ErrorReply]]


@dataclass(frozen=True, slots=True)
class EnforcementSources:
    """Sources of what is set, and the way in which it is set."""

    #: GPUs and what holds them, by a look of the last so many seconds; None where there is none.
    held: Callable[[float], Sequence[HeldDevice] | None]
    decide: Callable[[Sequence[HeldDevice]], Mapping[str, HeldLimit]]
    #: Whether the GPUs of this machine are this agent's to limit.
    controlled: Callable[[], bool]
    #: Sets clocks in MHz, by UUID, for a lease in seconds, in place of those before.
    send: SendClocks
    #: How long containers wait until limits are lifted, in seconds; None where none waits.
    waits_s: Callable[[], float | None] = lambda: None


@dataclass(frozen=True, slots=True)
class EnforcedGpu:
    """The limit by class of one GPU as it is set."""

    reason: EnforcedReason
    #: The limit that is, or may be, in force; None for none.
    limit_mhz: int | None = None
    message: str = ""


@dataclass(slots=True)
class EnforcementCounts:
    """Events since this process has started."""

    lifts: int = 0
    #: From the step that found that the limit is not wanted to the answer that it is lifted, over all lifts.
    lift_s: float = 0.0
    longest_lift_s: float = 0.0
    #: GPUs whose limit was not set, or not lifted, by one request.
    failed_sets: int = 0
    failed_lifts: int = 0


@dataclass(slots=True)
class _Hardware:
    """State of the limits as the actuator has answered."""

    #: In force, or perhaps in force, by UUID.
    limits_mhz: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, HardwareFailure] = field(default_factory=dict)
    #: What was sent last, and when; None before the first answer, and after a request without one.
    sent: Mapping[str, int] | None = None
    sent_at: float = 0.0
    #: Since when limits are not wanted that are not lifted.
    lifting_since: dict[str, float] = field(default_factory=dict)


class ClassLimitEnforcement:
    """The limits by class that are set on one machine, kept current by `run`.

    Args:
        sources: what they depend on.
        changed: called when the state of a GPU changed.
        failures: counts defects.
        clock: seconds of a clock that does not go back.
    """

    def __init__(
        self,
        sources: EnforcementSources,
        changed: Callable[[], None],
        failures: Failures,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._changed = changed
        self._failures = failures
        self._clock = clock
        self._clocks = EnforcedClocks()
        self._hardware = _Hardware()
        self._woken = asyncio.Event()
        #: Of steps: what one has read must not be sent after what a later one has.
        self._turn = asyncio.Lock()
        #: Until when the decision about a GPU does not count, by UUID.
        self._held_back: dict[str, float] = {}
        self._log = FailureLog(_log, failed="limit by class not as wanted", recovered="limit by class as wanted again")
        self.counts = EnforcementCounts()
        #: By UUID.
        self.gpus: Mapping[str, EnforcedGpu] = {}

    def wake(self) -> None:
        """Trigger a step: there was a look at the holders."""
        self._woken.set()

    async def run(self) -> NoReturn:
        """Step until cancelled; limits then end with their lease."""
        while True:
            self._woken.clear()
            await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(STEP_S):
                    await self._woken.wait()

    async def step(self) -> None:
        """Set what is wanted and lift what is not."""
        async with self._turn:
            held, now = self._sources.held(RECENT_S), self._clock()
            await self._step(held, self._decided(held), now)

    async def before_start(self, look: StartLook) -> LiftOutcome:
        """Lift the limits of GPUs whose containers are about to start, but those that all holders allow."""
        async with self._turn:
            found, now, before = self._decided(look.held), self._clock(), self._hardware.limits_mhz
            uuids = not_allowed(look, found or {}, before)
            self._held_back |= dict.fromkeys(uuids, now + HELD_BACK_S)
            await self._step(look.held, found, now)
            return LiftOutcome(uuids & before.keys() - self._hardware.limits_mhz.keys(), self._left(uuids))

    def _left(self, uuids: frozenset[str]) -> Mapping[str, str]:
        if self._hardware.sent is None:
            unknown = "it is not known whether the GPU is limited, without an answer of the actuator"
            return {uuid: self.gpus[uuid].message or unknown if uuid in self.gpus else unknown for uuid in uuids}
        return {uuid: self.gpus[uuid].message for uuid in uuids & self._hardware.limits_mhz.keys()}

    async def _step(self, held: Sequence[HeldDevice] | None, found: Mapping[str, HeldLimit] | None, now: float) -> None:
        self._held_back = {uuid: until for uuid, until in self._held_back.items() if until > now}
        controlled = self._sources.controlled()
        self._clocks = self._clocks.after(found, now, controlled=controlled, held_back=self._held_back)
        self._note_lifting(now)
        if self._is_due(now):
            await self._send(now)
        self._show(held or ())

    @property
    def without_consent(self) -> int:
        """GPUs with a limit that nothing allows any more, which is not lifted yet."""
        return len(self._hardware.lifting_since)

    @property
    def waits_s(self) -> float | None:
        """Seconds for which containers wait until limits are lifted; None where limits are lifted by polling."""
        return self._sources.waits_s()

    @property
    def limited(self) -> int:
        """GPUs with a limit."""
        return len(self._hardware.limits_mhz)

    @property
    def _wanted(self) -> Mapping[str, int]:
        return self._clocks.wanted

    def _decided(self, held: Sequence[HeldDevice] | None) -> Mapping[str, HeldLimit] | None:
        if held is None:
            return None
        try:
            found = self._sources.decide(held)
        except Exception as error:  # noqa: BLE001 - a defect must not leave limits in force, nor end what holds caps
            self._failures.internal_error(_WORK, error)
            return None
        self._failures.worked(_WORK)
        return found

    def _note_lifting(self, now: float) -> None:
        hardware = self._hardware
        hardware.lifting_since = {
            uuid: hardware.lifting_since.get(uuid, now) for uuid in hardware.limits_mhz if uuid not in self._wanted
        }

    def _is_due(self, now: float) -> bool:
        hardware = self._hardware
        if hardware.sent != self._wanted or hardware.lifting_since:
            return True
        return bool(self._wanted) and now - hardware.sent_at >= RENEW_S

    async def _send(self, now: float) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                report = _report_of(await self._sources.send(self._wanted, LEASE_S))
        except TimeoutError:
            report = HardwareFailure(Reason.TIMEOUT, f"no answer within {DEADLINE_S:g} s")
        hardware, wanted = self._hardware, self._wanted
        # Of a request that only lifts, the actuator does not write the other limits again.
        renewed = hardware.sent is None or not wanted.items() < hardware.sent.items()
        if isinstance(report, HardwareFailure):
            # It may have been carried out, or not.
            hardware.limits_mhz = {**hardware.limits_mhz, **wanted}
            hardware.failures = dict.fromkeys(hardware.limits_mhz, report)
            hardware.sent = None
        else:
            hardware.limits_mhz, hardware.failures, hardware.sent = report.limits_mhz, report.failures, dict(wanted)
        hardware.sent_at = now if renewed else hardware.sent_at
        self._count(self._clock())
        self._tell(report if isinstance(report, HardwareFailure) else None)

    def _count(self, now: float) -> None:
        hardware, counts = self._hardware, self.counts
        for uuid in [each for each in hardware.lifting_since if each not in hardware.limits_mhz]:
            lift_s = now - hardware.lifting_since.pop(uuid)
            counts.lifts += 1
            counts.lift_s += lift_s
            counts.longest_lift_s = max(counts.longest_lift_s, lift_s)
        self._note_lifting(now)
        counts.failed_lifts += len(hardware.lifting_since)
        counts.failed_sets += sum(uuid in hardware.failures for uuid in self._wanted)

    def _tell(self, failure: HardwareFailure | None) -> None:
        """Log each new failure once, that of the whole request without a GPU."""
        hardware = self._hardware
        problems = {} if failure is not None else hardware.failures
        if failure is not None:
            self._log.failed(failure.message, cause=failure.reason)
        else:
            self._log.recovered()
        for uuid, each in problems.items():
            self._log.failed(each.message, cause=each.reason, gpu=uuid)
        for uuid in self._clocks.reasons.keys() - problems.keys():
            self._log.recovered(gpu=uuid)

    def _show(self, held: Sequence[HeldDevice]) -> None:
        pods = {each.uuid: _pods(each) for each in held}
        uuids = self._clocks.reasons.keys() | self._hardware.limits_mhz.keys()
        gpus = {uuid: self._gpu(uuid, pods.get(uuid, "unknown")) for uuid in uuids}
        changed, self.gpus = gpus != self.gpus, gpus
        if changed:
            self._changed()

    def _gpu(self, uuid: str, pods: str) -> EnforcedGpu:
        hardware = self._hardware
        limit_mhz, failure = hardware.limits_mhz.get(uuid), hardware.failures.get(uuid)
        why = (failure.message or failure.reason) if failure else ""
        if uuid in hardware.lifting_since:
            message = f"GPU {uuid} is still limited to {limit_mhz} MHz, held by {pods}: {why}"
            return EnforcedGpu(EnforcedReason.NOT_LIFTED, limit_mhz, message)
        reason = self._clocks.reasons[uuid]
        if reason is EnforcedReason.SET and failure is not None:
            return EnforcedGpu(EnforcedReason.NOT_SET, limit_mhz, why)
        return EnforcedGpu(reason, limit_mhz)


def _report_of(reply: GpuClassClocks | HardwareFailure | ErrorReply) -> GpuClassClocks | HardwareFailure:
    """Return the report of what was done, or why there is none."""
    match reply:
        case ErrorReply(message=message):
            return HardwareFailure(Reason.BACKEND_FAILED, message)
        case GpuClassClocks(failure=HardwareFailure() as failure):
            return failure
        case _:
            return reply


def _pods(device: HeldDevice) -> str:
    names: Iterable[str] = dict.fromkeys(f"{each.namespace}/{each.pod}" for each in device.holders)
    return ", ".join(f"pod {name}" for name in names) or "no pod that is known"
