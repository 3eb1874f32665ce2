"""Summarizes an experiment: `python -m experiments.report NAME` makes `summary.md` and `savings.png` of its `runs.csv`.

Every figure is compared with kube_default on the same seed, and then averaged: the mean, and half of the width of its
95 % confidence interval over the seeds. Changes of stretch are geometric means, with both ends of the interval. The
table of an experiment over all loads is written into README.md, too, between the comments that name it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments import overload
from experiments.aims import aims
from experiments.config import ROOT
from experiments.figures import (
    BASELINE,
    TITLES,
    Runs,
    change_text,
    groups_of,
    interval_text,
    less_pct,
    more_pct,
    own,
    paired,
    read,
)

#: Load of which the table over all loads shows who pays.
_SHOWN_LOAD: Final = 0.5


def _energy_table(arms: dict[str, Runs]) -> Iterator[str]:
    base = arms[BASELINE]
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
            interval_text(paired(runs, base, less_pct("it_kwh")), 2),
            interval_text(paired(runs, base, less_pct("facility_kwh")), 2),
            interval_text(own(runs, "joules_per_core_second"), 2),
            *(interval_text(own(runs, name), 2) for name in ("peak_kw", "ramp_p99_kw")),
            *(f"{own(runs, name).mean:.0f}" for name in ("missed", "transitions")),
        )
        yield f"| `{arm}` | {' | '.join(cells)} |"


def _jobs_table(arms: dict[str, Runs], figure: str, digits: int) -> Iterator[str]:
    base = arms[BASELINE]
    present = groups_of(base)
    yield f"| arm | {' | '.join(TITLES[group] for group in present)} |"
    yield "|---" * (len(present) + 1) + "|"
    for arm, runs in arms.items():
        cells = []
        for group in present:
            mean = f"{own(runs, f'{group}_{figure}').mean:.{digits}f}"
            change = change_text(runs, base, f"{group}_{figure}")
            cells.append(mean if arm == BASELINE else f"{mean} ({change} %)")
        yield f"| `{arm}` | {' | '.join(cells)} |"


def overview(name: str) -> str:
    """Return the table over all loads; of an experiment with the protocol *overload* alone, that one's."""
    runs = read(ROOT / name)
    found = {load: arms for (protocol, load), arms in runs.items() if protocol == "backlog"}
    if not found:
        return "\n".join(overload.overview(next(iter(runs.values()))))
    shown_load = _SHOWN_LOAD if _SHOWN_LOAD in found else min(found)
    shown = found[shown_load]
    base = shown[BASELINE]
    present = groups_of(base)
    performance, standard = ([group for group in present if group.startswith(of)] for of in ("perf", "stand"))
    titles = [f"saved at {load:g}, %" for load in found]
    titles += [f"p95 stretch of {_title(group)}, % more" for group in performance]
    titles += [f"slowdown of {_title(group)}, % more" for group in standard] + ["transitions"]
    lines = [f"| arm | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for arm in shown:
        if arm == BASELINE:
            continue
        cells = [interval_text(paired(arms[arm], arms[BASELINE], less_pct("it_kwh"))) for arms in found.values()]
        cells += [change_text(shown[arm], base, f"{group}_stretch_p95") for group in performance]
        cells += [interval_text(paired(shown[arm], base, more_pct(f"{group}_slowdown"))) for group in standard]
        cells.append(f"{own(shown[arm], 'transitions').mean:.0f}")
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    lines += ["", f"{len(base)} seeds; columns after the savings are at load {shown_load:g}."]
    return "\n".join(lines)


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
        lines += [f"## {protocol}, load {load:g}, {len(arms[BASELINE])} seeds", ""]
        if protocol == "overload":
            lines += [*overload.delivered_table(arms), ""]
            continue
        lines += [*_energy_table(arms), ""]
        for title, figure, digits in (
            ("Stretch, mean: from arrival to completion, over the work", "stretch_mean", 2),
            ("Stretch, 95th percentile", "stretch_p95", 2),
            ("Slowdown, mean: from start to completion, over the work, which is what caps cost", "slowdown", 3),
        ):
            lines += [f"{title}; in brackets the change to `{BASELINE}`:", ""]
            lines += [*_jobs_table(arms, figure, digits), ""]
    return "\n".join(lines)


def plot(name: str) -> None:
    """Write the savings over the load, with confidence intervals."""
    runs = read(ROOT / name)
    found = {load: arms for (protocol, load), arms in runs.items() if protocol == "backlog"}
    if not found:
        overload.plot(next(iter(runs.values())), name, ROOT / name / "savings.png")
        return
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    arms = [arm for arm in next(iter(found.values())) if arm != BASELINE]
    for place, arm in enumerate(arms):
        savings = [paired(of[arm], of[BASELINE], less_pct("it_kwh")) for of in found.values()]
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
    write_between("aims", aims(), ROOT / "README.md")
