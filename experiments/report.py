"""Summarizes an experiment: `python -m experiments.report NAME` makes `summary.md` and `savings.png` of its `runs.csv`.

Every figure is compared with kube_default on the same seed, and then averaged: the mean, and half of the width of its
95 % confidence interval over the seeds.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.config import ROOT
from joulie_sim.engine.comparison import Interval

_BASELINE: Final = "kube_default"
_GROUPS: Final = ("performance_cpu", "performance_gpu", "standard_cpu", "standard_gpu")
_TITLES: Final = ("performance, CPU", "performance, GPU", "standard, CPU", "standard, GPU")
_Row = dict[str, str]
#: By seed, of one arm at one load.
_Runs = dict[str, _Row]


def read(directory: Path) -> dict[tuple[str, float], dict[str, _Runs]]:
    """Return the runs by protocol and load, then arm, then seed."""
    found: dict[tuple[str, float], dict[str, _Runs]] = defaultdict(lambda: defaultdict(dict))
    with (directory / "runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["protocol"], float(row["load"])][row["arm"]][row["seed"]] = row
    return found


def _paired(runs: _Runs, baseline: _Runs, figure: Callable[[_Row, _Row], float]) -> Interval:
    return Interval.of([figure(row, baseline[seed]) for seed, row in runs.items()])


def less_pct(name: str) -> Callable[[_Row, _Row], float]:
    """Return a function of a run and its baseline: how many percent less of a figure the run has."""
    return lambda row, base: 100.0 * (1.0 - float(row[name]) / float(base[name]))


def more_pct(name: str) -> Callable[[_Row, _Row], float]:
    """Return a function of a run and its baseline: how many percent more of a figure; 0 where there are no jobs."""
    return lambda row, base: 100.0 * (float(row[name]) / float(base[name]) - 1.0) if float(base[name]) else 0.0


def _text(interval: Interval, digits: int = 1) -> str:
    width = "" if interval.half_width is None else f" ±{interval.half_width:.{digits}f}"
    return f"{interval.mean:.{digits}f}{width}"


def _own(runs: _Runs, name: str) -> Interval:
    return Interval.of([float(row[name]) for row in runs.values()])


def _energy_table(arms: dict[str, _Runs]) -> Iterator[str]:
    base = arms[_BASELINE]
    titles = (
        "IT energy saved, %",
        "facility, %",
        "J per core-second",
        "peak, kW",
        "ramp p99, kW",
        "missed",
        "transitions",
    )
    yield f"| arm | {' | '.join(titles)} |"
    yield "|---|---|---|---|---|---|---|---|"
    for arm, runs in arms.items():
        cells = (
            _text(_paired(runs, base, less_pct("it_kwh")), 2),
            _text(_paired(runs, base, less_pct("facility_kwh")), 2),
            _text(_own(runs, "joules_per_core_second"), 2),
            *(_text(_own(runs, name), 2) for name in ("peak_kw", "ramp_p99_kw")),
            *(f"{_own(runs, name).mean:.0f}" for name in ("missed", "transitions")),
        )
        yield f"| `{arm}` | {' | '.join(cells)} |"


def _slowdown_table(arms: dict[str, _Runs], figure: str, digits: int) -> Iterator[str]:
    base = arms[_BASELINE]
    yield f"| arm | {' | '.join(_TITLES)} |"
    yield "|---|---|---|---|---|"
    for arm, runs in arms.items():
        cells = []
        for group in _GROUPS:
            own = f"{_own(runs, f'{group}_{figure}').mean:.{digits}f}"
            change = _text(_paired(runs, base, more_pct(f"{group}_{figure}")))
            cells.append(own if arm == _BASELINE else f"{own} ({change} %)")
        yield f"| `{arm}` | {' | '.join(cells)} |"


def _delivered_table(arms: dict[str, _Runs]) -> Iterator[str]:
    base = arms[_BASELINE]
    titles = ("IT energy saved, %", "dropped or unfinished, % fewer", *(f"work, {title}, % more" for title in _TITLES))
    yield f"| arm | {' | '.join(titles)} |"
    yield "|---|---|---|---|---|---|---|"
    for arm, runs in arms.items():
        cells = (
            _text(_paired(runs, base, less_pct("it_kwh")), 2),
            _text(_paired(runs, base, less_pct("missed")), 2),
            *(_text(_paired(runs, base, more_pct(f"{group}_device_hours"))) for group in _GROUPS),
        )
        yield f"| `{arm}` | {' | '.join(cells)} |"


def summary(name: str) -> str:
    """Return the tables."""
    lines = [f"# {name}: summary", "", f"Made by `python -m experiments.report {name}`.", ""]
    for (protocol, load), arms in read(ROOT / name).items():
        lines += [f"## {protocol}, load {load:g}, {len(arms[_BASELINE])} seeds", ""]
        if protocol == "overload":
            lines += [*_delivered_table(arms), ""]
            continue
        lines += [*_energy_table(arms), ""]
        for title, figure, digits in (
            ("Slowdown, mean: from arrival to completion, over the work", "mean", 2),
            ("Slowdown, 95th percentile", "p95", 2),
            ("Time from start to completion over the work, mean: what caps cost", "running", 3),
        ):
            lines += [f"{title}; in brackets the change to `{_BASELINE}`:", ""]
            lines += [*_slowdown_table(arms, figure, digits), ""]
    return "\n".join(lines)


def plot(name: str) -> None:
    """Write the savings over the load, with confidence intervals."""
    found = {load: arms for (protocol, load), arms in read(ROOT / name).items() if protocol == "backlog"}
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    arms = [arm for arm in next(iter(found.values())) if arm != _BASELINE]
    for place, arm in enumerate(arms):
        savings = [_paired(of[arm], of[_BASELINE], less_pct("it_kwh")) for of in found.values()]
        shift = (place - len(arms) / 2) * 0.004
        widths = [each.half_width or 0.0 for each in savings]
        axes.errorbar(
            [load + shift for load in found], [each.mean for each in savings], widths, label=arm, capsize=3, marker="o"
        )
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel="offered load", ylabel="IT energy saved, % of kube_default", title=name)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(ROOT / name / "savings.png", dpi=100, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    for each in sys.argv[1:]:
        (ROOT / each / "summary.md").write_text(summary(each), encoding="utf-8")
        plot(each)
