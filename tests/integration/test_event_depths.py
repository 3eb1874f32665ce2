"""The table of docs/power-events.md: how deep an event goes before it slows performance pods, by the planner alone."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from joulie_core.budget import (
    BudgetDomain,
    BudgetNode,
    BudgetPlanner,
    EventInputs,
    LeaseTimes,
    TimedLimit,
    observe_events,
    plant,
)
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.names import NodeName
from joulie_core.units import MW_PER_WATT

_PAGE: Final = Path(__file__).parents[2] / "docs" / "power-events.md"
_COUNT: Final = 40
_DEPTHS: Final = (10, 20, 30, 40, 50, 60)
_PERFORMANCE: Final = (10, 25, 50)
_STANDARD: Final = frozenset({WorkloadClass.STANDARD})
_BOTH: Final = frozenset(WorkloadClass)


def _nodes() -> dict[NodeName, BudgetNode]:
    """Return nodes of two EPYC 9654 that draw as much as they can."""
    found = Inventory.load().find_cpu("AMD EPYC 9654")
    assert found is not None
    cpu = found.spec
    highest, lowest = (round(2 * watts * MW_PER_WATT) for watts in (cpu.max_watts, cpu.min_watts))
    names = (NodeName(f"n{number}") for number in range(_COUNT))
    return {name: BudgetNode(name, name, highest, lowest, highest, renewed_s=0.0) for name in names}


def _shares(depth_pct: int, performance_pct: int, may_affect: frozenset[WorkloadClass]) -> tuple[float, float, float]:
    """Return the depth that is reached, and the shares of nodes with and without performance pods, in percent."""
    nodes = _nodes()
    own_mw = sum(node.max_mw or 0 for node in nodes.values())
    (tree,) = plant([BudgetDomain("feed", own_mw, nodes=tuple(nodes))]).trees
    performance = frozenset(list(nodes)[: _COUNT * performance_pct // 100])
    cut = TimedLimit("cut", "feed", own_mw * (100 - depth_pct) // 100, start_s=0.0, may_affect=may_affect)
    evented = observe_events(tree, nodes, EventInputs((cut,), performance, now_s=1.0))
    kept = {name: replace(node, kept_mw=evented.kept_mw.get(name, 0)) for name, node in nodes.items()}
    shares = BudgetPlanner(evented.tree, 1, LeaseTimes()).decide(kept, 0.0).targets_mw

    def mean_pct(names: frozenset[NodeName]) -> float:
        return 100 * sum(shares[name] for name in names) / sum(nodes[name].max_mw or 0 for name in names)

    reached = 100 * (1 - sum(shares.values()) / own_mw)
    return reached, mean_pct(performance), mean_pct(frozenset(nodes) - performance)


def _spared(depth_pct: int, performance_pct: int) -> str:
    reached, performance, standard = _shares(depth_pct, performance_pct, _STANDARD)
    assert performance == 100.0, "an event slows what it may not affect"
    return f"{standard:.0f} %" if round(reached) == depth_pct else f"not reached: {reached:.0f} %"


def _table() -> str:
    """Return the table."""
    head = "".join(f" {each} % performance |" for each in _PERFORMANCE)
    lines = [f"| cut |{head} both classes |", "|---|" + "---|" * (len(_PERFORMANCE) + 1)]
    for depth in _DEPTHS:
        cells = [_spared(depth, each) for each in _PERFORMANCE]
        _, performance, standard = _shares(depth, 25, _BOTH)
        assert round(performance) == round(standard), "an event for both classes spares one"
        lines.append(f"| {depth} % | " + " | ".join([*cells, f"{standard:.0f} %"]) + " |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_depths_of_the_planner():
    assert _table() in _PAGE.read_text(), f"write this into the page:\n{_table()}"
