"""What was aimed for, beside what the experiments found: the arm that saves the most within each limit of slowdown.

Savings are means over the seeds, at the three loads of the aims; the means decide whether an aim is reached. What
standard jobs pay is their mean slowdown, that is what caps cost, and beside it their mean stretch, which has their
waits; of performance jobs it is the 95th percentile of the stretch. Each pool counts for itself: the worst load is
shown, and performance jobs are judged at every load.

What nodes that sleep save was aimed for as a share of what could be saved (docs/decisions/0041-oracle.md), with pods
that wait for a boot and hardly longer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.config import ROOT, STEADY
from experiments.figures import (
    BASELINE,
    Runs,
    change_pct,
    interval_text,
    less_pct,
    mean_of,
    of_possible_pct,
    paired,
    read,
)
from joulie_sim.engine.arm import BudgetArm, SleepingArm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.comparison import Interval
from joulie_sim.tables import TextTable

_LOADS: Final = (0.3, 0.5, 0.7)
_MOST_P95_PCT: Final = 3.0
_NODE_CAPS: Final = ("static_partition", "static_energy", "family_energy")
_POOLS: Final = ("cpu", "gpu")
#: Change in percent and both ends of its interval.
_Change = tuple[float, float, float]
#: By pool that has jobs, at each load.
_Changes = dict[str, list[_Change]]


@dataclass(frozen=True, slots=True)
class Aim:
    """Savings in percent at the three loads, and what standard jobs may pay; None: any slowdown, by node caps."""

    title: str
    saved_pct: tuple[float, float, float]
    most_slowdown_pct: float | None = None


AIMS: Final = (
    Aim("5, 5.5, 5.5 by node caps", (5.0, 5.5, 5.5)),
    Aim("6.5, 8, 8.5 at 5 % slowdown", (6.5, 8.0, 8.5), 5.0),
    Aim("9, 11, 12 at 15 % slowdown", (9.0, 11.0, 12.0), 15.0),
)
#: Of what could be saved, at the three loads.
SLEEP_AIM_PCT: Final = (80.0, 75.0, 70.0)


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm of one experiment at the loads of the aims; changes are percent with both ends of their interval."""

    arm: str
    saved_pct: tuple[Interval, ...]
    standard_slowdown: _Changes
    standard_stretch: _Changes
    performance_stretch: _Changes

    def within(self, aim: Aim) -> bool:
        """Return whether the arm is one that the aim is about, waits aside."""
        return self.arm in _NODE_CAPS if aim.most_slowdown_pct is None else _below(self.standard_slowdown, aim)

    def saves(self, aim: Aim) -> bool:
        """Return whether the savings are those of the aim."""
        return all(saved.mean >= wanted for saved, wanted in zip(self.saved_pct, aim.saved_pct, strict=True))

    def reached(self, aim: Aim) -> str:
        """Return whether an arm that is within the aim reaches it."""
        if not self.saves(aim):
            return "no"
        return "yes" if _below(self.standard_stretch, aim) else "without waits"

    @property
    def performance_kept(self) -> str:
        """Whether the 95th percentile of performance jobs is at most 3 % higher, if the intervals decide that."""
        changes = [change for loads in self.performance_stretch.values() for change in loads]
        if all(high <= _MOST_P95_PCT for _, _, high in changes):
            return "yes"
        return "no" if any(low > _MOST_P95_PCT for _, low, _ in changes) else "not shown"


def _below(changes: _Changes, aim: Aim) -> bool:
    most_pct = aim.most_slowdown_pct
    return most_pct is None or all(max(loads)[0] <= most_pct for loads in changes.values())


def _by_pool(arm: str, loads: Sequence[dict[str, Runs]], name: str) -> _Changes:
    found = {pool: [change_pct(arms[arm], arms[BASELINE], name.format(pool=pool)) for arms in loads] for pool in _POOLS}
    known = {pool: [each for each in changes if each is not None] for pool, changes in found.items()}
    return {pool: changes for pool, changes in known.items() if changes}


def _result(arm: str, loads: Sequence[dict[str, Runs]]) -> ArmResult:
    saved = (paired(arms[arm], arms[BASELINE], less_pct("it_kwh")) for arms in loads)
    names = ("standard_{pool}_slowdown", "standard_{pool}_stretch_mean", "performance_{pool}_stretch_p95")
    return ArmResult(arm, tuple(saved), *(_by_pool(arm, loads, name) for name in names))


def _with_runs() -> list[str]:
    """Return the names of experiments with runs."""
    names = (path.parent.name for path in ROOT.glob("*/runs.csv") if path.with_name("config.toml").exists())
    return sorted(names)


def _loads(name: str) -> list[dict[str, Runs]]:
    """Return the runs at the loads of the aims; none where an experiment lacks one of them."""
    runs = read(ROOT / name)
    found = [runs.get((STEADY, load)) for load in _LOADS]
    return [] if None in found else [arms for arms in found if arms is not None]


def results(name: str) -> list[ArmResult]:
    """Return the arms of an experiment that are to save with all nodes on; none where it lacks one of the loads."""
    loads = _loads(name)
    arms = loads[0] if loads else ()
    others = (SleepingArm, BudgetArm)
    return [_result(arm, loads) for arm in arms if arm != BASELINE and not isinstance(ARMS[arm], others)]


def _cells(result: ArmResult, aim: Aim) -> Iterator[str]:
    yield result.reached(aim)
    yield f"`{result.arm}`"
    yield ", ".join(map(interval_text, result.saved_pct))
    yield from map(_worst, (result.standard_slowdown, result.standard_stretch, result.performance_stretch))
    yield result.performance_kept


def _worst(by_pool: _Changes) -> str:
    """Return the change of each pool at its worst load."""
    found = ((pool, max(changes)) for pool, changes in by_pool.items())
    return "; ".join(f"{pool.upper()} {middle:+.1f} [{low:+.1f}, {high:+.1f}]" for pool, (middle, low, high) in found)


def aims() -> str:
    """Return the table: a line for each experiment and aim, with the arm that saves the most within its limit."""
    titles = (
        *("experiment", "aim, % saved at 0.3, 0.5, 0.7", "reached", "arm", "saved, %"),
        *("slowdown of standard jobs, % more", "their mean stretch, % more"),
        *("p95 stretch of performance jobs, % more", "p95 at most 3 % more"),
    )
    rows: list[tuple[str, ...]] = []
    for name in _with_runs():
        found = results(name)
        for aim in AIMS if found else ():
            within = [result for result in found if result.within(aim)]
            if not within:
                rows.append((name, aim.title, "no", "none", *("-" for _ in titles[4:])))
                continue
            best = max(within, key=lambda result: (result.saves(aim), sum(saved.mean for saved in result.saved_pct)))
            rows.append((name, aim.title, *_cells(best, aim)))
    return TextTable(titles, rows).markdown()


def sleep_aims() -> str:
    """Return the table of arms whose nodes sleep: what they save of what could be saved, and who waits how long."""
    wanted = ", ".join(f"{each:g}" for each in SLEEP_AIM_PCT)
    titles = (
        *("experiment", "arm", f"of what could be saved at 0.3, 0.5, 0.7, % (aim: {wanted})", "reached"),
        *("p95 stretch of performance jobs, % more", "p95 at most 3 % more"),
        "p99 wait of performance jobs at 0.3, 0.5, 0.7, s (kube_default)",
    )
    rows = []
    for name in _with_runs():
        loads = _loads(name)
        for arm in loads[0] if loads else ():
            if not isinstance(ARMS[arm], SleepingArm):
                continue
            result = _result(arm, loads)
            shares = [of_possible_pct(arms[arm], arms[BASELINE]) for arms in loads]
            reached = [share.mean >= aim for share, aim in zip(shares, SLEEP_AIM_PCT, strict=True)]
            cells = (", ".join(interval_text(each, 0) for each in shares), "yes" if all(reached) else "no")
            changed = (_worst(result.performance_stretch), result.performance_kept)
            waits = (_waits(pool, arm, loads) for pool in result.performance_stretch)
            rows.append((name, f"`{arm}`", *cells, *changed, "; ".join(waits)))
    return TextTable(titles, rows).markdown()


def _waits(pool: str, arm: str, loads: Sequence[dict[str, Runs]]) -> str:
    """Return the 99th percentiles of the waits of a pool's performance jobs, and those of the baseline."""
    own, base = (
        ", ".join(f"{mean_of(arms[name], f'performance_{pool}_wait_p99_s').mean:.0f}" for arms in loads)
        for name in (arm, BASELINE)
    )
    return f"{pool.upper()} {own} ({base})"
