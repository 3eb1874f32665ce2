"""The NodePowerBudgets of the cluster: what is known of them for a decision, and what is written after it."""

from collections.abc import Callable, Mapping

from joulie_api.reflector import Reflector
from joulie_api.wire import Versioned
from joulie_core.kinds import NodePowerBudget
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_operator.power_domains.budget_changes import SeenBudgets
from joulie_operator.power_domains.budget_writer import BudgetWriter
from joulie_operator.power_domains.decision import DomainDecision
from joulie_operator.power_domains.inputs import boot_of
from joulie_operator.power_domains.sent import NO_TERM, SentLimits

Budgets = Reflector[Versioned[NodePowerBudget]]


class NodeBudgets:
    """The objects of one leader; `wake` is called where a status has changed.

    `sent` is shared with the writer, `enforces` is the setting.
    """

    def __init__(
        self,
        budgets: Budgets,
        sent: SentLimits,
        writer: BudgetWriter,
        *,
        term: Callable[[int], int | None],
        enforces: bool,
        clock: Callable[[], float],
    ) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._budgets = budgets
        self._sent = sent
        self._writer = writer
        self._term = term
        self._enforces = enforces
        self._clock = clock
        budgets.subscribe(self._on_change)

    def stale_reason(self) -> str | None:
        """Return why nothing is enforced by what is known; None where it may be, or is not to be."""
        return self._budgets.stale_reason() if self._enforces else None

    def seen(self, nodes: Mapping[str, Node]) -> SeenBudgets | None:
        """Return what is known of the objects; None where nothing is enforced."""
        if not self._enforces:
            return None
        now_s, store = self._clock(), self._budgets.store
        self._sent.retain({*store, *nodes})
        readable = {*store, *nodes} - self._budgets.invalid.keys()
        seen = {NodeName(name): self._sent.seen(name, store.get(name), now_s) for name in readable}
        return SeenBudgets(
            now_s=now_s,
            term=self._own_term(),
            seen=seen,
            bootless=frozenset(node.name for node in nodes.values() if not boot_of(node)),
            unreadable=frozenset(map(NodeName, self._budgets.invalid)),
            last_s={name: last_s for name in seen if (last_s := self._sent.last_s(name)) is not None},
        )

    async def carry_out(
        self,
        decision: DomainDecision,
        nodes: Mapping[str, Node],
        unread: frozenset[str],
        decided_s: float,
        is_superseded: Callable[[], bool],
    ) -> None:
        """Write what was decided, and delete the objects of nodes that are limited no more.

        Args:
            decision: the decision.
            nodes: all of the cluster, by name.
            unread: names of nodes that cannot be read.
            decided_s: time of the decision, by the clock.
            is_superseded: tells, while this goes on, whether limits have changed since: what lowers none is left out.

        Raises:
            NotLeader: this process must not write any more.
        """
        await self._writer.write(decision.changes, nodes, decided_s, is_superseded)
        kept = decision.kept
        if kept is None or self._budgets.stale_reason() is not None or (self._enforces and self._own_term() is None):
            return
        left = [each for name, each in self._budgets.store.items() if name not in kept and name not in unread]
        await self._writer.delete(left)

    def _own_term(self) -> int | None:
        """Return the term of this leader, where it is above that of all that others have written."""
        term = self._term(NO_TERM)
        if term is None:
            return None
        found = (self._sent.foreign_term(name, each.model.spec, term) for name, each in self._budgets.store.items())
        foreign = max((each for each in found if each is not None), default=None)
        return term if foreign is None else self._term(foreign)

    def _on_change(
        self, name: str, old: Versioned[NodePowerBudget] | None, new: Versioned[NodePowerBudget] | None
    ) -> None:
        self._sent.on_change(name, new)
        if old is None or new is None or old.model.status != new.model.status:
            self.wake()
