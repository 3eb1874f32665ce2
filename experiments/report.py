"""Summarizes an experiment: `python -m experiments.report NAME` makes `summary.md` and `savings.png` of its `runs.csv`.

Every figure is compared with kube_default on the same seed, and then averaged: the mean, and half of the width of its
95 % confidence interval over the seeds. Changes of stretch are geometric means, with both ends of the interval. The
table of an experiment over all loads is written into README.md, too, between the comments that name it.
"""

import re
import sys
from pathlib import Path

from experiments import budgets, overload
from experiments.aims import aims, sleep_aims
from experiments.config import OVERLOAD, ROOT, Experiment
from experiments.figures import BASELINE, read
from experiments.steady import SteadyReport


def steady_report(name: str) -> SteadyReport | None:
    """Return the report of an experiment's steady runs; None where it has no such protocol."""
    experiment = Experiment.read(name)
    if experiment.steady is None:
        return None
    return SteadyReport(read(ROOT / name), nodes=experiment.node_count, hours=experiment.steady.hours)


def overview(name: str) -> str:
    """Return the tables of the page about experiments, by the protocol that an experiment has."""
    if budgets.shares_a_feed(read(ROOT / name)):
        return budgets.overview(read(ROOT / name))
    steady = steady_report(name)
    return overload.overview(next(iter(read(ROOT / name).values()))) if steady is None else steady.overview()


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
        if protocol == OVERLOAD:
            lines += [
                f"## overload, load {load:g}, {len(arms[BASELINE])} seeds",
                "",
                overload.delivered_table(arms),
                "",
            ]
    return "\n".join(lines)


def plot(name: str) -> None:
    """Write the savings over the load, or under overload, with confidence intervals; of a feed what it supplies."""
    if budgets.shares_a_feed(read(ROOT / name)):
        budgets.plot(read(ROOT / name), ROOT / name / "nodes.png")
        return
    steady, path = steady_report(name), ROOT / name / "savings.png"
    if steady is None:
        overload.plot(next(iter(read(ROOT / name).values())), name, path)
    else:
        steady.plot(name, path)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        if not (ROOT / each / "runs.csv").exists():
            sys.stderr.write(f"{each}: no runs\n")
            continue
        (ROOT / each / "summary.md").write_text(summary(each), encoding="utf-8")
        write_between(each, overview(each), ROOT / "README.md")
        plot(each)
    write_between("aims", aims(), ROOT / "README.md")
    write_between("sleep-aims", sleep_aims(), ROOT / "README.md")
