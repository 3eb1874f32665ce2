"""CPU time of decisions about oversubscribed trees of 200 nodes, the most that one may have, in virtual time.

    python bench/budget/oversubscribed.py
    python bench/budget/oversubscribed.py --nodes 1000

Each node reports a new sample at each look, and each look writes the spec of each node: what happens once in a fifth of
`reactionSeconds`. Printed are the CPU milliseconds of one look at all trees, without what the API server, watches and
writes take, the writes of the look, and how many trees were raised. Exit code 1 where not all trees are raised in the
end, or a look takes more than a second.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Final

from joulie_core.budget import BudgetDomain, BudgetNode, BudgetTree, LimitReport, plant
from joulie_core.budget.breaker import BreakerRating, curve_of
from joulie_core.budget.objects import milliwatts, node_identity, stored_ask
from joulie_core.budget.oversubscription import MOST_NODES
from joulie_core.budget.samples import ReportedSample
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec
from joulie_core.names import NodeName
from joulie_operator.power_domains.budget_changes import SeenBudgets
from joulie_operator.power_domains.enforcement import EnforcedTree, TreeEnforcer
from joulie_operator.power_domains.sent import SeenBudget

LIMIT_S: Final = 1.0
_MAX_MW, _MIN_MW = 1_000_000, 200_000
_RATING: Final = BreakerRating(curve_of([(130, 60)]), cooling_s=10.0, reaction_s=20)
_SAMPLE_S: Final = 4.0
#: Looks until breakers have cooled and limits are raised, and those that are measured.
_FIRST, _MEASURED = 12, 20


class _Site:
    """Trees whose agents answer everything at once, and draw little."""

    def __init__(self, nodes: int) -> None:
        names = [NodeName(f"n{number}") for number in range(nodes)]
        parts = [tuple(names[start : start + MOST_NODES]) for start in range(0, nodes, MOST_NODES)]
        domains = [
            BudgetDomain(f"d{number}", len(part) * 700_000, rating=_RATING, nodes=part)
            for number, part in enumerate(parts)
        ]
        self.trees: tuple[BudgetTree, ...] = plant(domains).trees
        self.facts = {name: _node(name) for name in names}
        self.specs: dict[NodeName, NodePowerBudgetSpec] = {}
        self.enforcer = TreeEnforcer()
        self.now_s = 1_000.0
        self.number = 0

    def look(self) -> tuple[float, list[EnforcedTree]]:
        """Return the CPU seconds and what was decided, and let all agents answer it."""
        before_s, self.now_s = self.now_s, self.now_s + _SAMPLE_S
        self.number += 1
        seen = {name: self._seen(name, spec, before_s) for name, spec in self.specs.items()}
        budgets = SeenBudgets(now_s=self.now_s, term=1, seen=seen, last_s=dict.fromkeys(seen, before_s))
        start = time.process_time()
        found = [self.enforcer.decide(tree, _of(self.facts, tree), budgets) for tree in self.trees]
        seconds = time.process_time() - start
        self.specs |= {change.node: change.spec for each in found for change in each.changes}
        return seconds, found

    def _seen(self, name: NodeName, spec: NodePowerBudgetSpec, before_s: float) -> SeenBudget:
        return SeenBudget(
            version="1",
            spec=spec,
            ask=stored_ask(spec),
            report=LimitReport(self.facts[name].identity, spec.sequence, milliwatts(spec.limit_watts)),
            renewed_s=before_s,
            repeated=spec.renewal,
            sample=ReportedSample(self.number, _MIN_MW, before_s),
        )


def _node(name: NodeName) -> BudgetNode:
    return BudgetNode(name, node_identity(name, "boot"), _MAX_MW, _MIN_MW, _MAX_MW)


def _of(facts: Mapping[NodeName, BudgetNode], tree: BudgetTree) -> dict[NodeName, BudgetNode]:
    return {name: facts[name] for name in tree.leaf_of}


def _is_raised(found: EnforcedTree) -> bool:
    return all(each.oversubscription is not None and each.oversubscription.raised for each in found.domains.values())


def main() -> int:
    """Print the figures and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    site = _Site(parser.parse_args().nodes)
    for _ in range(_FIRST):
        site.look()
    looks = [site.look() for _ in range(_MEASURED)]
    times = [1000 * seconds for seconds, _ in looks]
    last = looks[-1][1]
    raised, writes = sum(map(_is_raised, last)), sum(len(each.changes) for each in last)
    print(f"{len(site.facts)} nodes in {len(last)} trees, {raised} raised; a look writes {writes} specs")
    print(f"ms of CPU: median {statistics.median(times):.1f}, most {max(times):.1f}")
    return int(raised < len(last) or max(times) > 1000 * LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
