"""The writes of NodePowerBudgets: in order, a limited number at a time, each on the version that was seen.

Guarantees that a raise is not sent later than `RAISE_S` after it was decided, and that what the API server has not
answered counts as sent: see `joulie_operator.power_domains.sent`. What fails is decided again at the next pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog

from joulie_api.apply import FencedWriter, write_each
from joulie_api.errors import ApiError, Conflict, KubeError, NotFound, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.owners import owned_by
from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec
from joulie_core.node import Node
from joulie_operator.power_domains.budget_changes import BudgetChange
from joulie_operator.power_domains.sent import Budget, SentLimits

#: Age of a decision up to which a raise is sent.
RAISE_S: Final = 5.0
#: Time for which regular writes wait for limits that are being lowered.
LOWER_S: Final = 15.0
#: Fields that a merge patch has to delete where they are absent.
_OPTIONAL: Final = ("limitWatts", "ceilingWatts", "oversubscription")

_log = structlog.get_logger()


class BudgetWriter:
    """The writes of one leader; its methods raise NotLeader where this process must not write any more.

    Args:
        writer: where they go.
        sent: what is known to be sent.
        clock: in seconds.
        concurrency: writes at a time.
        ahead: returns a context during which regular writes of other objects wait, for so many seconds at most.
    """

    def __init__(
        self,
        writer: FencedWriter,
        sent: SentLimits,
        *,
        clock: Callable[[], float],
        concurrency: int,
        ahead: Callable[[float], AbstractContextManager[None]],
    ) -> None:
        self._writer = writer
        self._sent = sent
        self._clock = clock
        self._concurrency = concurrency
        self._ahead = ahead
        self._log = FailureLog(
            _log, failed="power budget not written, will be decided again", recovered="power budget written"
        )

    async def write(
        self,
        changes: Sequence[BudgetChange],
        nodes: Mapping[str, Node],
        decided_s: float,
        is_superseded: Callable[[], bool],
    ) -> None:
        """Write specs in the order that is given, but all that lower a limit before the others.

        Raises and renewals are written only while the decision is not superseded.
        """
        store = partial(self._store, nodes=nodes, decided_s=decided_s, is_superseded=is_superseded)
        lowering = [each for each in changes if each.lowers]
        if lowering:
            with self._ahead(LOWER_S):
                await write_each(map(store, lowering), concurrency=self._concurrency)
        await write_each((store(each) for each in changes if not each.lowers), concurrency=self._concurrency)

    async def delete(self, budgets: Iterable[Budget]) -> None:
        """Delete objects, so that agents restore their nodes."""
        await write_each((self._remove(each) for each in budgets), concurrency=self._concurrency)

    async def _store(
        self, change: BudgetChange, nodes: Mapping[str, Node], decided_s: float, is_superseded: Callable[[], bool]
    ) -> None:
        name, now_s = change.node, self._clock()
        if name not in nodes or (change.raises and now_s > decided_s + RAISE_S):
            return
        if (change.raises or change.renews) and not change.lowers and is_superseded():
            return
        sent = self._sent.sending(name, change.version, change.spec, now_s)
        owner = owned_by(nodes[name])
        try:
            if change.version is None:
                body = {"metadata": owner, "spec": change.spec.dump()}
                await self._writer.create(NODE_POWER_BUDGETS, name, body)
            else:
                spec = _merged(change.spec)
                body = {"metadata": {"resourceVersion": change.version, **owner}, "spec": spec}
                await self._writer.patch(NODE_POWER_BUDGETS, name, body)
        except (Conflict, NotFound):
            # It has changed since it was seen.
            self._sent.refused(name, sent)
        except NotLeader:
            self._sent.refused(name, sent)
            raise
        except KubeError as error:
            if isinstance(error, ApiError) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self._sent.refused(name, sent)
            self._log.failed(error, node=name)
        else:
            self._sent.stored(name, sent)
            self._log.recovered(node=name)

    async def _remove(self, budget: Budget) -> None:
        try:
            await self._writer.delete(NODE_POWER_BUDGETS, budget.name, version=budget.metadata.resource_version)
        except NotLeader:
            raise
        except Conflict:
            # It has changed since it was seen.
            return
        except KubeError as error:
            self._log.failed(error, node=budget.name)
        else:
            self._log.recovered(node=budget.name)


def _merged(spec: NodePowerBudgetSpec) -> dict[str, Any]:
    """Return a spec as a merge patch that deletes what it lacks."""
    found = {**dict.fromkeys(_OPTIONAL), **spec.dump()}
    if spec.oversubscription is not None:
        found["oversubscription"] = {"sample": None, **found["oversubscription"]}
    return found
