"""Tables and plot of an experiment whose nodes share a feed: how many more it supplies, and who pays."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.config import STEADY
from experiments.figures import BASELINE, TITLES, Runs, change, change_pct, more, of_protocol
from joulie_sim.engine.arm import BudgetArm
from joulie_sim.engine.arms import ARMS
from joulie_sim.tables import TextTable

#: More than this of the 95th percentile of the stretch of performance jobs is too much.
MOST_P95_PCT: Final = 3.0
_POOLS: Final = ("cpu", "gpu")
_SHOWN: Final = "performance_gpu_stretch_p95"
#: Of performance jobs without GPUs the 95th percentile of the stretch says it all.
_SLOWED: Final = ("performance_gpu", "standard_cpu", "standard_gpu")
_PAYING: Final = (
    *(f"p95 stretch, {TITLES[f'performance_{pool}']}" for pool in _POOLS),
    *(f"slowdown, {TITLES[group]}" for group in _SLOWED),
)
#: Beginnings of the names of arms, and how their nodes share the feed.
_KINDS: Final = {
    "budget_even_": "fixed parts",
    "budget_demand_": "by demand",
    "budget_held_": "by demand, held GPUs first",
}

#: By load, then arm.
_Loads = Mapping[float, Mapping[str, Runs]]


def loads_of(runs: Mapping[tuple[str, float], dict[str, Runs]]) -> _Loads:
    """Return the steady runs."""
    return of_protocol(runs, STEADY)


def shares_a_feed(runs: Mapping[tuple[str, float], dict[str, Runs]]) -> bool:
    """Return whether all arms but the baseline are about a feed."""
    arms = {arm for found in runs.values() for arm in found if arm != BASELINE}
    return bool(arms) and all(isinstance(ARMS[arm], BudgetArm) for arm in arms)


def more_nodes_pct(arm: str) -> float:
    """Return how many percent more nodes a feed supplies than if each could draw its highest power."""
    found = ARMS[arm]
    assert isinstance(found, BudgetArm)
    return 100.0 / found.budgets.supplied - 100.0


def most_nodes(arms: Mapping[str, Runs], kind: str) -> float | None:
    """Return the largest increase of nodes, in percent, up to which no pool's performance jobs pay too much.

    None: they do at the smallest one.
    """
    kept: float | None = None
    for arm in _arms(arms, kind):
        changes = [change_pct(arms[arm], arms[BASELINE], f"performance_{pool}_stretch_p95") for pool in _POOLS]
        if any(each is not None and each[0] > MOST_P95_PCT for each in changes):
            break
        kept = more_nodes_pct(arm)
    return kept


def overview(runs: Mapping[tuple[str, float], dict[str, Runs]]) -> str:
    """Return the table of what a feed supplies at each load, and that of who pays."""
    loads = loads_of(runs)
    seeds = len(next(iter(loads.values()))[BASELINE])
    titles = ("nominal load", *(f"more nodes, {each}, %" for each in _KINDS.values()))
    rows = [(f"{load:g}", *(_increase(most_nodes(arms, kind)) for kind in _KINDS)) for load, arms in loads.items()]
    return (
        f"{TextTable(titles, rows).markdown()}\n\nNodes on the same feed, compared with as many as it supplies at "
        "their highest power, up to which the 95th percentile of the stretch of performance jobs is at most "
        f"{MOST_P95_PCT:g} % higher in each pool; {seeds} seeds. Simulated were "
        f"{', '.join(f'{each:.0f}' for each in _increases(loads))} %.\n\nWho pays:\n\n{_payers(loads)}"
    )


def plot(runs: Mapping[tuple[str, float], dict[str, Runs]], path: Path) -> None:
    """Write a picture of who pays over the number of nodes on the feed."""
    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    for axes, (kind, title) in zip(figure.subplots(1, len(_KINDS), sharey=True), _KINDS.items(), strict=True):
        for load, arms in loads_of(runs).items():
            found = {arm: change_pct(arms[arm], arms[BASELINE], _SHOWN) for arm in _arms(arms, kind)}
            points = [(more_nodes_pct(arm), each[0]) for arm, each in found.items() if each is not None]
            axes.plot(*zip(*points, strict=True), marker="o", label=f"load {load:g}")
        axes.axhline(MOST_P95_PCT, color="black", linewidth=0.8, linestyle="--")
        axes.set(title=title, xlabel="more nodes on the feed, %", ylabel="p95 stretch, performance, GPU, % more")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def _arms(arms: Mapping[str, Runs], kind: str) -> list[str]:
    """Return the arms of one kind, those of few nodes first."""
    return sorted((arm for arm in arms if arm.startswith(kind)), key=more_nodes_pct)


def _increases(loads: _Loads) -> list[float]:
    arms = next(iter(loads.values()))
    return sorted({more_nodes_pct(arm) for arm in arms if arm != BASELINE})


def _increase(found: float | None) -> str:
    return "0" if found is None else f"{found:.0f}"


def _payers(loads: _Loads) -> str:
    titles = ("nominal load", "more nodes, %", "limits", *(f"{each}, % more" for each in _PAYING))
    rows = [(f"{load:g}", *cells) for load, arms in loads.items() for cells in _rows(arms)]
    return TextTable(titles, rows).markdown()


def _rows(arms: Mapping[str, Runs]) -> Iterator[tuple[str, ...]]:
    stretch = [change(arms, f"performance_{pool}_stretch_p95") for pool in _POOLS]
    slower = [more(arms, f"{group}_slowdown") for group in _SLOWED]
    for kind, title in _KINDS.items():
        for arm in _arms(arms, kind):
            yield (f"{more_nodes_pct(arm):.0f}", title, *(cell(arm) for cell in (*stretch, *slower)))
