"""The NodePowerBudgets of the nodes of one process.

Guarantees that a budget which was not seen is told from one that is not there: none is known to be absent before the
first list is complete, or the API server has answered that it does not serve the kind.
"""

from collections.abc import Callable
from typing import Final, NoReturn

from joulie_api.client import KubeClient
from joulie_api.optional_watch import OptionalWatch
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_api.wire import Versioned, decode_kind
from joulie_core.kinds.node_power_budget import NodePowerBudget, NodePowerBudgetSpec

_TITLE: Final = "power budgets"


class BudgetsWatch:
    """The watch, kept up to date by `run`.

    Args:
        client: of the API server.
        field_selector: of the budgets; empty: all.
        wake: called with the name of a node whose budget came, changed or went.
    """

    def __init__(self, client: KubeClient, field_selector: str, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._budgets = Reflector(
            client, NODE_POWER_BUDGETS, decode_kind(NodePowerBudget), field_selector=field_selector
        )
        self._budgets.subscribe(self._on_budget)
        self._watch = OptionalWatch(client, _TITLE, self._budgets, denied_is_absent=False)

    @property
    def reflector(self) -> Reflector[Versioned[NodePowerBudget]]:
        """The watch, which `run` runs where the cluster has the kind."""
        return self._budgets

    def find(self, node: str) -> Versioned[NodePowerBudget] | None:
        """Return the budget of a node; of one that cannot be read the last version that could."""
        return self._budgets.store.get(node)

    def stale_reason(self) -> str | None:
        """Return why budgets are not known, for a readiness check; None where they are, or the kind is not served."""
        return None if self._watch.absent else self._budgets.stale_reason()

    async def wait_known(self) -> None:
        """Wait until all budgets are known, or it is known that the kind is not served."""
        await self._watch.wait_known()

    async def run(self) -> NoReturn:
        """Watch until cancelled, as soon as the cluster has the kind."""
        await self._watch.run()

    def _on_budget(
        self, key: str, old: Versioned[NodePowerBudget] | None, new: Versioned[NodePowerBudget] | None
    ) -> None:
        if old is None or new is None or old.metadata.uid != new.metadata.uid or _has_changed(old.model, new.model):
            self._wake(key)


def _has_changed(old: NodePowerBudget, new: NodePowerBudget) -> bool:
    """Return whether a pass is due before the next sample, for more than the sample that is named and a renewal.

    A node that has its limit goes on with it, and takes both over with its next sample: two passes for each sample
    would be one too many.
    """
    has_limit = new.status.oversubscription is not None and not new.status.oversubscription.falling_back
    return old.spec != new.spec and not (has_limit and _lasting(old.spec) == _lasting(new.spec))


def _lasting(spec: NodePowerBudgetSpec) -> NodePowerBudgetSpec:
    """Return a spec without what changes with each sample."""
    if spec.oversubscription is None:
        return spec
    unnamed = spec.oversubscription.model_copy(update={"sample": None})
    return spec.model_copy(update={"renewal": 0, "oversubscription": unnamed})
