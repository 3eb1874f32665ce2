"""Follows the power budget of one node: the limit of each pass, and the status after it.

Guarantees that a status is of the pass whose limits were read back, that the renewal in it is the one that was seen
before the sample beside it was taken, and that one which cannot be written ends nothing else; the next pass writes it.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from joulie_agent.budgets.status import SampledPower, limit_status
from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog, Logger
from joulie_api.wire import Versioned
from joulie_core.budget.in_force import NodeLimitReport
from joulie_core.budget.limit_hold import TakenSamples, limit_hold
from joulie_core.budget.node_limit import FollowedLimit, follow
from joulie_core.kinds.node_power_budget import NodePowerBudget, NodePowerBudgetStatus
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339

Budget = Versioned[NodePowerBudget]
#: Share of the time between two samples from which a pass takes the next: it may come a little before its time.
_EARLY: Final = 0.9
_RANDOM_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class BudgetSources:
    """Access to the power budgets of a process."""

    find: Callable[[str], Budget | None]
    publish: Callable[[NodeName, NodePowerBudgetStatus, Budget], Awaitable[None]]
    #: Now, in seconds since the epoch.
    wall_time: Callable[[], float]


class BudgetFollower:
    """The power budget of one node."""

    def __init__(self, node: NodeName, sources: BudgetSources, log: Logger) -> None:
        self._node = node
        self._sources = sources
        self._limit: FollowedLimit | None = None
        #: The object that it was read from.
        self._seen: Budget | None = None
        self._samples = TakenSamples.begin(secrets.randbits(_RANDOM_BITS))
        #: When a pass last began to take one.
        self._sampling_s: float | None = None
        self._sampled: SampledPower | None = None
        self._failures = FailureLog(log, failed="power budget not reported", recovered="power budget reported again")

    def follow(self, now_s: float) -> FollowedLimit | None:
        """Take over what is asked now, by the agent's monotonic clock; None without a budget."""
        self._seen = seen = self._sources.find(self._node)
        before = self._limit
        if seen is None or before is None or before.object_uid != seen.metadata.uid:
            # Of another object, which has renewals of its own.
            self._sampled = self._sampling_s = None
        if seen is None:
            self._limit = None
        else:
            spec, status = seen.model.spec, seen.model.status
            self._limit = follow(before, seen.metadata.uid, spec, status, now_s, samples=self._samples)
        return self._limit

    def renamed(self, limit: FollowedLimit) -> FollowedLimit:
        """Return a limit as it was put in force, held by the sample that its object names by now."""
        found = self._sources.find(self._node)
        if found is None or not limit.is_asked_by(found.metadata.uid, found.model.spec):
            return limit
        return replace(limit, hold=limit_hold(found.model.spec.oversubscription, limit.ask.limit_mw, self._samples))

    def samples(self, now_s: float) -> bool:
        """Return whether a pass that begins now takes a sample of what the node draws; if so, it is begun."""
        hold = self._limit.hold if self._limit else None
        if hold is None:
            return False
        if self._sampling_s is not None and now_s < self._sampling_s + _EARLY * hold.sample_s:
            return False
        self._sampling_s = now_s
        return True

    def sampled(self, at_s: float, drawn_mw: int | None) -> None:
        """Take over a sample.

        Args:
            at_s: the time at which its reading began.
            drawn_mw: mean power since the sample before; None where a device was not read.
        """
        if self._limit is None:
            return
        self._sampled = SampledPower(self._samples.next_number, drawn_mw, self._limit.renewal)
        self._samples = self._samples.take(at_s)

    def due_s(self, regular_s: float, now_s: float) -> float:
        """Return the time of the next pass: the regular one, or before it the end of the lease or a sample."""
        due_s = regular_s
        if self._limit is None:
            return due_s
        if self._limit.hold is not None and self._sampling_s is not None:
            due_s = min(due_s, self._sampling_s + self._limit.hold.sample_s)
        if not self._limit.has_ended(now_s):
            due_s = min(due_s, self._limit.ends_s())
        return due_s

    async def report(self, outcome: NodeLimitReport | None) -> bool:
        """Write what came of the limit that was followed last; return whether that did not fail."""
        seen, live = self._seen, self._sources.find(self._node)
        if self._limit is None or outcome is None or seen is None or live is None:
            return True
        if live.metadata.uid != seen.metadata.uid:
            return True  # another object: its pass follows
        now, generation = rfc3339(self._sources.wall_time()), seen.metadata.generation
        sampled = self._sampled if self._limit.hold is not None else None
        status = limit_status(self._limit, outcome, live.model.status, sampled, generation=generation, now=now)
        try:
            await self._sources.publish(self._node, status, live)
        except KubeError as error:
            self._failures.failed(error)
            return False
        self._failures.recovered()
        return True
