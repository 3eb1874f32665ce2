"""CPU time of decisions about a power budget: 10,000 nodes in three levels, and the part that is usable.

    just bench budget
    just bench budget --nodes 1000

Rows of the first table are milliseconds of CPU, the best of three; `shares, one demand changed` repeats only what the
change reaches. Rows of the second are the percent of demand that is served, of what the limits of all domains let
through, by the number of levels and the skew of demand: the root supplies two thirds of what its nodes may draw, and
each domain 1.2 times its even part. Exit code 1 where a decision takes more than a second, or less than 95 % is served.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from joulie_core.budget import (
    Allocator,
    BudgetDomain,
    BudgetNode,
    BudgetPlanner,
    BudgetTree,
    LeaseTimes,
    LimitReport,
    plant,
    wants_of,
)
from joulie_core.names import NodeName

LIMIT_S: Final = 1.0
USABLE_PCT: Final = 95.0
_MAX_MW: Final = 1_000_000
_MIN_MW: Final = 200_000
#: Domains below each one, by the number of levels.
_FANS: Final = {1: (), 2: (20,), 3: (5, 20)}
_SKEWS: Final = ("even", "half idle", "one of ten busy")


def _tree(nodes: int, fans: tuple[int, ...], slack: float = 1.2) -> BudgetTree:
    """Return a tree whose root supplies two thirds of what its nodes may draw."""
    root_mw = int(nodes * _MAX_MW / 1.5)
    domains = [BudgetDomain("root", root_mw)]
    leaves = ["root"]
    for fan in fans:
        above, leaves = leaves, [f"{name}.{number}" for name in leaves for number in range(fan)]
        limit_mw = int(slack * root_mw / len(leaves))
        domains += [BudgetDomain(f"{name}.{number}", limit_mw, name) for name in above for number in range(fan)]
    chosen: dict[str, list[NodeName]] = {name: [] for name in leaves}
    for number in range(nodes):
        chosen[leaves[number % len(leaves)]].append(NodeName(f"n{number}"))
    (tree,) = plant(replace(each, nodes=tuple(chosen.get(each.name, ()))) for each in domains).trees
    return tree


def _demand_mw(skew: str, leaf: int, chance: random.Random) -> int:
    """Return the demand of a node by the domain that it is in: idle domains want little."""
    busy = {"even": True, "half idle": leaf % 2 == 0, "one of ten busy": leaf % 10 == 0}[skew]
    return chance.randrange(700_000, _MAX_MW) if busy else chance.randrange(200_000, 300_000)


def _usable_pct(levels: int, skew: str) -> float:
    """Return the percent of demand that is served, of what the limits of all domains let through at most."""
    tree, chance = _tree(2000, _FANS[levels]), random.Random(levels)
    demand = {node: _demand_mw(skew, leaf, chance) for node, leaf in tree.leaf_of.items()}
    shares = Allocator(tree, {node: wants_of(_MIN_MW, each, _MAX_MW) for node, each in demand.items()}).targets()
    most = [sum(demand[node] for node in domain.nodes) for domain in tree.domains]
    for index in reversed(range(len(most))):
        most[index] = min(most[index], tree.domains[index].usable_mw)
        if index:
            most[tree.parents[index]] += most[index]
    return 100.0 * sum(min(shares[node], each) for node, each in demand.items()) / most[0]


def _best_s(work: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> float:
    times = []
    for _ in range(3):
        prepare()
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def _times(count: int) -> dict[str, float]:
    tree, chance = _tree(count, (10, 20)), random.Random(0)
    nodes = {
        name: BudgetNode(name, name, _MAX_MW, _MIN_MW, chance.randrange(200_000, _MAX_MW), renewed_s=0.0)
        for name in tree.leaf_of
    }
    planner = BudgetPlanner(tree, 1, LeaseTimes())
    asks = planner.decide(nodes, 0.0).asks
    settled = {
        name: replace(node, ask=asks[name], report=LimitReport(name, 1, asks[name].limit_mw))
        for name, node in nodes.items()
    }
    planner.decide(settled, 0.0)
    wants = {name: wants_of(_MIN_MW, node.demand_mw, _MAX_MW) for name, node in nodes.items()}
    allocator = Allocator(tree, wants)
    allocator.targets()

    def change_one() -> None:
        allocator.change(NodeName("n7"), wants_of(_MIN_MW, chance.randrange(200_000, _MAX_MW), _MAX_MW))

    return {
        "first decision of a leader": _best_s(lambda: BudgetPlanner(tree, 1, LeaseTimes()).decide(nodes, 0.0)),
        "decision where nothing changed": _best_s(lambda: planner.decide(settled, 0.0)),
        "shares from the start": _best_s(lambda: Allocator(tree, wants).targets()),
        "shares, one demand changed": _best_s(allocator.targets, change_one),
    }


def main() -> int:
    """Print both tables and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    count = parser.parse_args().nodes
    slow = False
    print(f"{count} nodes, three levels: ms of CPU")
    for name, seconds in _times(count).items():
        slow |= seconds > LIMIT_S
        print(f"  {name:34}{1000 * seconds:9.1f}")
    print("percent of demand that is served of what the limits let through: one, two, three levels")
    few = False
    for skew in _SKEWS:
        shares = [_usable_pct(levels, skew) for levels in _FANS]
        few |= min(shares) < USABLE_PCT
        print(f"  {skew:34}" + "".join(f"{share:9.2f}" for share in shares))
    return int(slow or few)


if __name__ == "__main__":
    sys.exit(main())
