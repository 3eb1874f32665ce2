"""Summarizes an experiment: `python -m experiments.report NAME` makes `summary.md` and `savings.png` of its `runs.csv`.

Every figure is compared with kube_default on the same seed, and then averaged: the mean, and half of the width of its
95 % confidence interval over the seeds. Changes of slowdowns are geometric means, with both ends of the interval. The
table of an experiment over all loads is written into README.md, too, between the comments that name it.
"""

import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.config import ROOT
from experiments.rows import Row, read_rows
from joulie_sim.engine.comparison import Interval

_BASELINE: Final = "kube_default"
#: Classes and pools, as columns of `runs.csv` and as titles.
_TITLES: Final = {
    "performance_cpu": "performance, CPU",
    "performance_gpu": "performance, GPU",
    "standard_cpu": "standard, CPU",
    "standard_gpu": "standard, GPU",
}
_SECONDS_PER_HOUR: Final = 3600.0
_JOULES_PER_KWH: Final = 3.6e6
#: Power of idle nodes by the energy that it is added to.
_IDLE: Final = {"it": "idle_kw", "facility": "idle_facility_kw"}
#: Load of which the table over all loads shows who pays.
_SHOWN_LOAD: Final = 0.5
_Row = Row
#: By seed, of one arm at one load.
_Runs = dict[str, _Row]


def read(directory: Path) -> dict[tuple[str, float], dict[str, _Runs]]:
    """Return the runs by protocol and load, then arm, then seed; energies up to the end of the last arm of the seed."""
    found: dict[tuple[str, float], dict[str, _Runs]] = defaultdict(lambda: defaultdict(dict))
    rows = read_rows(directory / "runs.csv")
    ends_s: dict[tuple[str, float, int], float] = defaultdict(float)
    for key, row in rows.items():
        run = (key.protocol, key.load, key.seed)
        ends_s[run] = max(ends_s[run], float(row["end_s"]))
    for key, row in rows.items():
        found[key.protocol, key.load][key.arm][str(key.seed)] = _until(row, ends_s[key.protocol, key.load, key.seed])
    return found


def _until(row: Row, end_s: float) -> Row:
    """Return a row with energies up to a common end, with idle power from the arm's own end on."""
    own_kwh, core_hours = float(row["it_kwh"]), float(row["core_hours"])
    idle_hours = (end_s - float(row["end_s"])) / _SECONDS_PER_HOUR
    added = {f"{name}_kwh": float(row[f"{name}_kwh"]) + idle_hours * float(row[idle]) for name, idle in _IDLE.items()}
    joules = own_kwh * _JOULES_PER_KWH / (core_hours * _SECONDS_PER_HOUR) if core_hours else 0.0
    return row | {name: str(value) for name, value in added.items()} | {"joules_per_core_second": str(joules)}


def _paired(runs: _Runs, baseline: _Runs, figure: Callable[[_Row, _Row], float]) -> Interval:
    return Interval.of([figure(row, baseline[seed]) for seed, row in runs.items()])


def less_pct(name: str) -> Callable[[_Row, _Row], float]:
    """Return a function of a run and its baseline: how many percent less of a figure the run has."""
    return lambda row, base: 100.0 * (1.0 - float(row[name]) / float(base[name]))


def more_pct(name: str) -> Callable[[_Row, _Row], float]:
    """Return a function of a run and its baseline: how many percent more of a figure; 0 where there are no jobs."""
    return lambda row, base: 100.0 * (float(row[name]) / float(base[name]) - 1.0) if float(base[name]) else 0.0


def change_text(runs: _Runs, baseline: _Runs, name: str) -> str:
    """Return the change of a slowdown in percent with its interval: of the geometric mean over the seeds.

    A few long waits decide about the mean of ratios; that of their logarithms shows what most seeds have.
    """
    ratios = [float(row[name]) / float(baseline[seed][name]) for seed, row in runs.items() if float(row[name])]
    if not ratios:
        return "-"
    logs = Interval.of([math.log(ratio) for ratio in ratios])
    width = logs.half_width or 0.0
    middle, low, high = (100.0 * math.expm1(value) for value in (logs.mean, logs.mean - width, logs.mean + width))
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"


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
    present = _present(base)
    yield f"| arm | {' | '.join(_TITLES[group] for group in present)} |"
    yield "|---" * (len(present) + 1) + "|"
    for arm, runs in arms.items():
        cells = []
        for group in present:
            own = f"{_own(runs, f'{group}_{figure}').mean:.{digits}f}"
            change = change_text(runs, base, f"{group}_{figure}")
            cells.append(own if arm == _BASELINE else f"{own} ({change} %)")
        yield f"| `{arm}` | {' | '.join(cells)} |"


def _delivered_table(arms: dict[str, _Runs]) -> Iterator[str]:
    base = arms[_BASELINE]
    present = _present(base)
    works = (f"work, {_TITLES[group]}, % more" for group in present)
    titles = ("IT energy saved, %", "dropped or unfinished, % fewer", *works)
    yield f"| arm | {' | '.join(titles)} |"
    yield "|---" * (len(titles) + 1) + "|"
    for arm, runs in arms.items():
        cells = (
            _text(_paired(runs, base, less_pct("it_kwh")), 2),
            _text(_paired(runs, base, less_pct("missed")), 2),
            *(_text(_paired(runs, base, more_pct(f"{group}_device_hours"))) for group in present),
        )
        yield f"| `{arm}` | {' | '.join(cells)} |"


def overview(name: str) -> str:
    """Return the table over all loads."""
    found = {load: arms for (protocol, load), arms in read(ROOT / name).items() if protocol == "backlog"}
    shown_load = _SHOWN_LOAD if _SHOWN_LOAD in found else min(found)
    shown = found[shown_load]
    base = shown[_BASELINE]
    present = _present(base)
    performance, standard = ([group for group in present if group.startswith(of)] for of in ("perf", "stand"))
    titles = [f"saved at {load:g}, %" for load in found]
    titles += [f"p95 of {_title(group)}, % more" for group in performance]
    titles += [f"time to run of {_title(group)}, % more" for group in standard] + ["transitions"]
    lines = [f"| arm | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for arm in shown:
        if arm == _BASELINE:
            continue
        cells = [_text(_paired(arms[arm], arms[_BASELINE], less_pct("it_kwh"))) for arms in found.values()]
        cells += [change_text(shown[arm], base, f"{group}_p95") for group in performance]
        cells += [_text(_paired(shown[arm], base, more_pct(f"{group}_running"))) for group in standard]
        cells.append(f"{_own(shown[arm], 'transitions').mean:.0f}")
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    lines += ["", f"{len(base)} seeds; columns after the savings are at load {shown_load:g}."]
    return "\n".join(lines)


def _present(baseline: _Runs) -> list[str]:
    """Return the classes and pools of which there are jobs."""
    return [group for group in _TITLES if any(float(row[f"{group}_done"]) for row in baseline.values())]


def _title(group: str) -> str:
    workload_class, pool = group.split("_")
    return f"{workload_class} {pool.upper()} jobs"


def write_between(name: str, table: str, page: Path) -> None:
    """Write a table into a page, between the comments that name the experiment."""
    text, begin, end = page.read_text(encoding="utf-8"), f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    page.write_text(pattern.sub(lambda _: f"{begin}\n{table}\n{end}", text), encoding="utf-8")


def summary(name: str) -> str:
    """Return the tables."""
    lines = [f"# {name}: summary", "", f"Made by `python -m experiments.report {name}`.", "", overview(name), ""]
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
        if not (ROOT / each / "runs.csv").exists():
            sys.stderr.write(f"{each}: no runs\n")
            continue
        (ROOT / each / "summary.md").write_text(summary(each), encoding="utf-8")
        write_between(each, overview(each), ROOT / "README.md")
        plot(each)
