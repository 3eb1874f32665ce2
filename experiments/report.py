"""Summarizes an experiment: `python -m experiments.report NAME` makes `summary.md` and `savings.png` of its `runs.csv`.

Every figure is compared with kube_default on the same seed, and then averaged: the mean, and half of the width of its
95 % confidence interval over the seeds. Changes of stretch are geometric means, with both ends of the interval. The
table of an experiment over all loads is written into README.md, too, between the comments that name it.
"""

import re
import sys
from pathlib import Path

from experiments import overload
from experiments.aims import aims
from experiments.config import BACKLOG, OVERLOAD, ROOT, Experiment
from experiments.figures import (
    BASELINE,
    TITLES,
    Cell,
    Runs,
    arm_table,
    change,
    count,
    groups_of,
    less,
    mean,
    mean_of,
    more,
    of_protocol,
    read,
    shown_load,
)
from experiments.savings_plot import plot_savings
from experiments.steady import SteadyReport


def _energy_table(arms: dict[str, Runs]) -> str:
    columns = {
        "IT energy saved, %": less(arms, "it_kwh"),
        "facility, %": less(arms, "facility_kwh"),
        "J per core-second": mean(arms, "joules_per_core_second"),
        "peak, kW": mean(arms, "peak_kw"),
        "ramp p99, kW": mean(arms, "ramp_p99_kw"),
        "missed": count(arms, "missed"),
        "transitions": count(arms, "transitions"),
    }
    return arm_table(arms, columns)


def _jobs_table(arms: dict[str, Runs], figure: str, digits: int) -> str:
    def cell(name: str) -> Cell:
        changed = change(arms, name)

        def text(arm: str) -> str:
            own = f"{mean_of(arms[arm], name).mean:.{digits}f}"
            return own if arm == BASELINE else f"{own} ({changed(arm)} %)"

        return text

    return arm_table(arms, {TITLES[group]: cell(f"{group}_{figure}") for group in groups_of(arms)})


def steady_report(name: str) -> SteadyReport | None:
    """Return the report of an experiment's steady runs; None where it has no such protocol."""
    experiment = Experiment.read(name)
    if experiment.steady is None:
        return None
    return SteadyReport(read(ROOT / name), nodes=experiment.node_count, hours=experiment.steady.hours)


def overview(name: str) -> str:
    """Return the tables over all loads, by the first protocol that an experiment has: steady, backlog, overload."""
    steady = steady_report(name)
    if steady is not None:
        return steady.overview()
    runs = read(ROOT / name)
    found = of_protocol(runs, BACKLOG)
    if not found:
        return overload.overview(next(iter(runs.values())))
    load = shown_load(found)
    shown = found[load]
    present = groups_of(shown)
    performance, standard = ([group for group in present if group.startswith(of)] for of in ("perf", "stand"))
    columns = {f"saved at {load:g}, %": less(arms, "it_kwh", 1) for load, arms in found.items()}
    columns |= {f"p95 stretch of {_title(each)}, % more": change(shown, f"{each}_stretch_p95") for each in performance}
    columns |= {f"slowdown of {_title(each)}, % more": more(shown, f"{each}_slowdown") for each in standard}
    columns["transitions"] = count(shown, "transitions")
    table = arm_table((arm for arm in shown if arm != BASELINE), columns)
    return f"{table}\n\n{len(shown[BASELINE])} seeds; columns after the savings are at load {load:g}."


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
    steady = steady_report(name)
    lines += [] if steady is None else steady.summary()
    for (protocol, load), arms in read(ROOT / name).items():
        if protocol not in (BACKLOG, OVERLOAD):
            continue
        lines += [f"## {protocol}, load {load:g}, {len(arms[BASELINE])} seeds", ""]
        if protocol == OVERLOAD:
            lines += [overload.delivered_table(arms), ""]
            continue
        lines += [_energy_table(arms), ""]
        for title, figure, digits in (
            ("Stretch, mean: from arrival to completion, over the work", "stretch_mean", 2),
            ("Stretch, 95th percentile", "stretch_p95", 2),
            ("Slowdown, mean: from start to completion, over the work, which is what caps cost", "slowdown", 3),
        ):
            lines += [f"{title}; in brackets the change to `{BASELINE}`:", ""]
            lines += [_jobs_table(arms, figure, digits), ""]
    return "\n".join(lines)


def plot(name: str) -> None:
    """Write the savings over the load, with confidence intervals."""
    steady = steady_report(name)
    if steady is not None:
        steady.plot(name, ROOT / name / "savings.png")
        return
    runs = read(ROOT / name)
    found = of_protocol(runs, BACKLOG)
    if not found:
        overload.plot(next(iter(runs.values())), name, ROOT / name / "savings.png")
        return
    plot_savings(
        found, {load: load for load in found}, ROOT / name / "savings.png", title=name, axis="offered load", apart=0.004
    )


if __name__ == "__main__":
    for each in sys.argv[1:]:
        if not (ROOT / each / "runs.csv").exists():
            sys.stderr.write(f"{each}: no runs\n")
            continue
        (ROOT / each / "summary.md").write_text(summary(each), encoding="utf-8")
        write_between(each, overview(each), ROOT / "README.md")
        plot(each)
    write_between("aims", aims(), ROOT / "README.md")
