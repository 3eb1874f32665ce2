"""Sets and lifts the frequencies of cores by the class of the containers that have them alone.

Guarantees that a limit is wanted only while every container of the cores allows it by the placements of the moment;
that no reply to the runtime and no update gives a limited core to another container before the actuator has answered
that the limit is lifted, or before a deadline; that a limit that is not lifted is tried again at each step; and that
limits end without this process, since their lease is short.
Source: docs/decisions/0067-class-limits-on-cores.md.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

import structlog

from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import SetCoreLimits
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CoreLimitsReport
from joulie_api.failure_log import FailureLog
from joulie_containers.resources.core_limits import CoreLimits
from joulie_containers.resources.renewal import RequestExecutor, problem_of
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.enforced_limit import DEADLINE_S, LEASE_S, RENEW_S, SETTLED_S, STEP_S
from joulie_core.containers.idset import Cpus, union

#: How long a reply to the runtime waits.
LIFT_S: Final = 0.5

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Limit:
    """The limit of one group."""

    khz: int
    #: What its containers allowed when it was decided.
    allowed: AllowedSlowdown


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A limit that may be set, and since when the decision is this one."""

    limit: _Limit
    since_s: float


@dataclass(slots=True)
class CoreLimitCounts:
    """Events since this process has started."""

    lifts: int = 0
    #: Replies and updates that did not wait any longer for a limit to be lifted.
    late: int = 0


@dataclass(slots=True)
class _Hardware:
    """State of the limits as the actuator has answered."""

    #: In force, or perhaps in force.
    limits: Mapping[Cpus, _Limit] = field(default_factory=dict)
    #: What was sent last, and when; None before the first answer, and after a request without one.
    sent: Mapping[Cpus, _Limit] | None = None
    sent_s: float = 0.0


class CoreLimitEnforcement:
    """The limits by class of the cores of this machine, kept current by `run`.

    Args:
        actuator: has no other requests than these, so that none waits behind another.
        limits: the decision.
        known: returns whether all containers of the node are known and placed.
        on_late: takes the limits that were not lifted in time for a reply or an update: what was allowed when they were
            set, by the CPUs of a group.
        clock: seconds of a clock that does not go back.
    """

    def __init__(
        self,
        actuator: RequestExecutor,
        limits: CoreLimits,
        known: Callable[[], bool],
        *,
        on_late: Callable[[Mapping[Cpus, AllowedSlowdown]], None] = lambda _left: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._actuator = actuator
        self._limits = limits
        self._known = known
        self._on_late = on_late
        self._clock = clock
        self._hardware = _Hardware()
        self._candidates: Mapping[Cpus, _Candidate] = {}
        #: Until then limits of a predecessor may be in force, unless a request was answered.
        self._predecessor_until_s = clock() + LEASE_S
        #: Of requests: what one has decided must not be sent after what a later one has.
        self._turn = asyncio.Lock()
        self._log = FailureLog(_log, failed="limits of cores not set or lifted", recovered="limits of cores as wanted")
        self.counts = CoreLimitCounts()

    @property
    def limited(self) -> Mapping[Cpus, int]:
        """Highest frequencies in kHz that are, or may be, in force by class, by the CPUs of a group."""
        return {group: each.khz for group, each in self._hardware.limits.items()}

    @property
    def without_consent(self) -> Cpus:
        """CPUs with a limit that nothing allows any more, which is not lifted yet."""
        return union(self._left())

    async def run(self) -> NoReturn:
        """Set and lift until cancelled; then the limits end with their lease."""
        while True:
            await self.step()
            await asyncio.sleep(STEP_S)

    async def step(self) -> None:
        """Look at the placements, and set or lift what has to be."""
        await self._limits.step(self._clock(), self._hardware.limits.keys())
        async with self._turn:
            now = self._clock()
            self._take(now)
            wanted = {group: each.limit for group, each in self._candidates.items() if now - each.since_s >= SETTLED_S}
            if self._is_due(wanted, now):
                await self._send(wanted, DEADLINE_S)

    async def settle(self) -> None:
        """Lift what the placements of the moment do not allow; return when that is done, or after a deadline."""
        if not self._stale:
            return
        try:
            async with asyncio.timeout(LIFT_S), self._turn:
                if self._stale:
                    await self._send(self._kept(self._hardware.limits), LIFT_S)
        except TimeoutError:
            _log.warning("a container may have got cores before their limit was lifted", waited_s=LIFT_S)
        if self._stale:
            self.counts.late += 1
            self._on_late(self._left())

    @property
    def _stale(self) -> bool:
        """Whether something may be in force that the placements of the moment do not allow."""
        limits = self._hardware.limits
        return len(self._kept(limits)) < len(limits) or self._clock() < self._predecessor_until_s

    def _left(self) -> Mapping[Cpus, AllowedSlowdown]:
        """Return what was allowed when the limits were set that nothing allows any more, by the CPUs of a group."""
        limits = self._hardware.limits
        kept = self._kept(limits)
        return {group: limit.allowed for group, limit in limits.items() if group not in kept}

    def _kept(self, limits: Mapping[Cpus, _Limit]) -> Mapping[Cpus, _Limit]:
        """Return those of some limits that the placements of the moment allow."""
        if not limits:
            return {}
        allowed = self._allowed()
        return {
            group: limit
            for group, limit in limits.items()
            if (found := allowed.get(group)) is not None and found.pct >= limit.allowed.pct
        }

    def _allowed(self) -> Mapping[Cpus, AllowedSlowdown]:
        return self._limits.allowed() if self._known() else {}

    def _take(self, now: float) -> None:
        """Note the decision; a candidate stays one while it is the same."""
        allowed = self._allowed()
        found = {
            each.cpus: _Limit(each.limit_khz, allowed[each.cpus])
            for each in self._limits.state.limits
            if each.limit_khz is not None and each.cpus in allowed
        }
        before = self._candidates
        self._candidates = {
            group: before[group] if group in before and before[group].limit == limit else _Candidate(limit, now)
            for group, limit in found.items()
        }

    def _is_due(self, wanted: Mapping[Cpus, _Limit], now: float) -> bool:
        hardware = self._hardware
        if hardware.sent != wanted or hardware.limits.keys() - wanted.keys():
            return True
        return bool(wanted) and now - hardware.sent_s >= RENEW_S

    async def _send(self, wanted: Mapping[Cpus, _Limit], deadline_s: float) -> None:
        limits = tuple(CoreFrequencyLimit(cpus=str(group), max_khz=each.khz) for group, each in wanted.items())
        before, hardware = self._hardware.limits, self._hardware
        # Until it is answered it may have been carried out, or not; also where this is cancelled.
        hardware.limits, hardware.sent = {**before, **wanted}, None
        hardware.sent_s = self._clock()
        try:
            async with asyncio.timeout(deadline_s):
                reply = await self._actuator.execute(SetCoreLimits(limits=limits, lease_s=LEASE_S))
        except TimeoutError:
            reply = HardwareFailure(Reason.TIMEOUT, f"no answer within {deadline_s:g} s")
        match reply:
            case CoreLimitsReport(failure=None, failed=failed):
                of_failed = union(Cpus.parse(each.cpus) for each in failed)
                left = {group: each for group, each in before.items() if not group.isdisjoint(of_failed)}
                hardware.limits, hardware.sent = {**left, **wanted}, dict(wanted)
                self._predecessor_until_s = -math.inf
                self.counts.lifts += len(before.keys() - hardware.limits.keys())
                self._tell("; ".join(f"CPUs {each.cpus}: {each.failure.message}" for each in failed))
            case CoreLimitsReport(failure=HardwareFailure(message=problem)):
                self._tell(problem)
            case _:
                self._tell(problem_of(reply))

    def _tell(self, problem: str) -> None:
        if problem:
            self._log.failed(problem)
        else:
            self._log.recovered()
