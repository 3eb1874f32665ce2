"""Follows the power budget of one node: the limit of each pass, and the status after it.

Guarantees that a status is of the pass whose limits were read back, and that one which cannot be written ends nothing
else; the next pass writes it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from joulie_agent.budgets.status import limit_status
from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog, Logger
from joulie_api.wire import Versioned
from joulie_core.budget.in_force import NodeLimitReport
from joulie_core.budget.node_limit import FollowedLimit, follow
from joulie_core.kinds.node_power_budget import NodePowerBudget, NodePowerBudgetStatus
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339

Budget = Versioned[NodePowerBudget]


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
        self._failures = FailureLog(log, failed="power budget not reported", recovered="power budget reported again")

    def follow(self, now_s: float) -> FollowedLimit | None:
        """Take over what is asked now, by the agent's monotonic clock; None without a budget."""
        self._seen = seen = self._sources.find(self._node)
        if seen is None:
            self._limit = None
        else:
            self._limit = follow(self._limit, seen.metadata.uid, seen.model.spec, seen.model.status, now_s)
        return self._limit

    def due_s(self, regular_s: float, now_s: float) -> float:
        """Return the time of the next pass: the regular one, or the end of the lease before it."""
        if self._limit is None or self._limit.has_ended(now_s):
            return regular_s
        return min(regular_s, self._limit.ends_s())

    async def report(self, outcome: NodeLimitReport | None) -> bool:
        """Write what came of the limit that was followed last; return whether that did not fail."""
        seen, live = self._seen, self._sources.find(self._node)
        if self._limit is None or outcome is None or seen is None or live is None:
            return True
        if live.metadata.uid != seen.metadata.uid:
            return True  # another object: its pass follows
        now, generation = rfc3339(self._sources.wall_time()), seen.metadata.generation
        status = limit_status(self._limit, outcome, live.model.status, generation=generation, now=now)
        try:
            await self._sources.publish(self._node, status, live)
        except KubeError as error:
            self._failures.failed(error)
            return False
        self._failures.recovered()
        return True
