"""Figures of an experiment: its runs, compared with kube_default on the same seed and then averaged, and their tables.

A cell of a table is made by a function of the arm's name.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Final

from experiments.rows import Row, read_rows
from joulie_core.units import JOULES_PER_KWH
from joulie_sim.energy import SECONDS_PER_HOUR, per_core_second
from joulie_sim.engine.comparison import Interval
from joulie_sim.tables import TextTable

BASELINE: Final = "kube_default"
#: Classes and pools, as columns of `runs.csv` and as titles.
TITLES: Final = {
    "performance_cpu": "performance, CPU",
    "performance_gpu": "performance, GPU",
    "standard_cpu": "standard, CPU",
    "standard_gpu": "standard, GPU",
}
_SHOWN_LOAD: Final = 0.5
#: By seed, of one arm at one load.
Runs = dict[str, Row]
Arms = Mapping[str, Runs]
Cell = Callable[[str], str]


def read(directory: Path) -> dict[tuple[str, float], dict[str, Runs]]:
    """Return the runs by protocol and load, then arm, then seed."""
    found: dict[tuple[str, float], dict[str, Runs]] = defaultdict(lambda: defaultdict(dict))
    for key, row in read_rows(directory / "runs.csv").items():
        joules = per_core_second(float(row["it_kwh"]) * JOULES_PER_KWH, float(row["core_hours"]) * SECONDS_PER_HOUR)
        found[key.protocol, key.load][key.arm][str(key.seed)] = row | {"joules_per_core_second": str(joules)}
    return found


def of_protocol(runs: Mapping[tuple[str, float], dict[str, Runs]], wanted: str) -> dict[float, dict[str, Runs]]:
    """Return the runs of one protocol by load."""
    return {load: arms for (protocol, load), arms in runs.items() if protocol == wanted}


def shown_load(loads: Iterable[float]) -> float:
    """Return the load of which a table over all loads shows who pays."""
    return min(loads, key=lambda load: (load != _SHOWN_LOAD, load))


def paired(runs: Runs, baseline: Runs, figure: Callable[[Row, Row], float]) -> Interval:
    """Return the mean over the seeds of what a function makes of each run and its baseline."""
    return Interval.of([figure(row, baseline[seed]) for seed, row in runs.items()])


def less_pct(name: str) -> Callable[[Row, Row], float]:
    """Return a function of a run and its baseline: how many percent less of a figure the run has."""
    return less_pct_of(name, name)


def less_pct_of(name: str, base_name: str) -> Callable[[Row, Row], float]:
    """Return a function of a run and its baseline: by how many percent its figure is below the baseline's."""
    return lambda row, base: 100.0 * (1.0 - float(row[name]) / float(base[base_name]))


def of_possible_pct(runs: Runs, baseline: Runs) -> Interval:
    """Return how many percent of the most that could be saved is saved, see `joulie_sim.engine.oracle`.

    It is the ratio of both means, as single seeds at high loads have next to nothing that could be saved; the interval
    is that of the ratio's linearisation.
    """
    saved, possible = [], []
    for seed, row in runs.items():
        base_kwh = float(baseline[seed]["it_kwh"])
        saved.append(base_kwh - float(row["it_kwh"]))
        possible.append(base_kwh - float(row["oracle_kwh"]))
    ratio, mean_possible = sum(saved) / sum(possible), fmean(possible)
    return Interval.of(
        [100.0 * (ratio + (own - ratio * most) / mean_possible) for own, most in zip(saved, possible, strict=True)]
    )


def more_pct(name: str) -> Callable[[Row, Row], float]:
    """Return a function of a run and its baseline: how many percent more of a figure; 0 where there are no jobs."""
    return lambda row, base: 100.0 * (float(row[name]) / float(base[name]) - 1.0) if float(base[name]) else 0.0


def change_pct(runs: Runs, baseline: Runs, name: str) -> tuple[float, float, float] | None:
    """Return the change of a stretch in percent, and both ends of its interval; None where there are no jobs.

    The mean is the geometric one: a few long waits decide about the mean of ratios; that of their logarithms shows what
    most seeds have.
    """
    ratios = [float(row[name]) / float(baseline[seed][name]) for seed, row in runs.items() if float(row[name])]
    if not ratios:
        return None
    logs = Interval.of([math.log(ratio) for ratio in ratios])
    width = logs.half_width or 0.0
    middle, low, high = (100.0 * math.expm1(value) for value in (logs.mean, logs.mean - width, logs.mean + width))
    return middle, low, high


def interval_text(interval: Interval, digits: int = 1) -> str:
    """Return a mean with half of the width of its confidence interval."""
    width = "" if interval.half_width is None else f" ±{interval.half_width:.{digits}f}"
    return f"{interval.mean:.{digits}f}{width}"


def mean_of(runs: Runs, name: str) -> Interval:
    """Return the mean of a figure over the seeds."""
    return Interval.of([float(row[name]) for row in runs.values()])


def groups_of(arms: Arms) -> list[str]:
    """Return the classes and pools of which there are jobs."""
    return [group for group in TITLES if any(float(row[f"{group}_done"]) for row in arms[BASELINE].values())]


def arm_table(arms: Iterable[str], columns: Mapping[str, Cell]) -> str:
    """Return a table in Markdown with a line for each arm."""
    rows = [(f"`{arm}`", *(cell(arm) for cell in columns.values())) for arm in arms]
    return TextTable(("arm", *columns), rows).markdown()


def less(arms: Arms, name: str, digits: int = 2, *, baseline: str = BASELINE) -> Cell:
    """Return cells with how many percent less of a figure an arm has."""
    return lambda arm: interval_text(paired(arms[arm], arms[baseline], less_pct(name)), digits)


def more(arms: Arms, name: str, digits: int = 1) -> Cell:
    """Return cells with how many percent more of a figure an arm has."""
    return lambda arm: interval_text(paired(arms[arm], arms[BASELINE], more_pct(name)), digits)


def mean(arms: Arms, name: str, digits: int = 2) -> Cell:
    """Return cells with the mean of a figure and its interval."""
    return lambda arm: interval_text(mean_of(arms[arm], name), digits)


def count(arms: Arms, name: str) -> Cell:
    """Return cells with the mean of a count."""
    return lambda arm: f"{mean_of(arms[arm], name).mean:.0f}"


def change(arms: Arms, name: str) -> Cell:
    """Return cells with the change of a stretch in percent."""

    def cell(arm: str) -> str:
        found = change_pct(arms[arm], arms[BASELINE], name)
        return "-" if found is None else f"{found[0]:+.1f} [{found[1]:+.1f}, {found[2]:+.1f}]"

    return cell


def delivered(arms: Arms) -> dict[str, Cell]:
    """Return the columns of the work that arms deliver, by class and pool."""
    return {f"work, {TITLES[group]}, % more": more(arms, f"{group}_device_hours") for group in groups_of(arms)}
