"""Figures of an experiment: its runs, compared with kube_default on the same seed and then averaged."""

import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from experiments.rows import Row, read_rows
from joulie_sim.engine.comparison import Interval

BASELINE: Final = "kube_default"
#: Classes and pools, as columns of `runs.csv` and as titles.
TITLES: Final = {
    "performance_cpu": "performance, CPU",
    "performance_gpu": "performance, GPU",
    "standard_cpu": "standard, CPU",
    "standard_gpu": "standard, GPU",
}
_SECONDS_PER_HOUR: Final = 3600.0
_JOULES_PER_KWH: Final = 3.6e6
#: Power of idle nodes by the energy that it is added to.
_IDLE: Final = {"it": "idle_kw", "facility": "idle_facility_kw"}
#: By seed, of one arm at one load.
Runs = dict[str, Row]


def read(directory: Path) -> dict[tuple[str, float], dict[str, Runs]]:
    """Return the runs by protocol and load, then arm, then seed; energies up to the end of the last arm of the seed."""
    found: dict[tuple[str, float], dict[str, Runs]] = defaultdict(lambda: defaultdict(dict))
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


def paired(runs: Runs, baseline: Runs, figure: Callable[[Row, Row], float]) -> Interval:
    """Return the mean over the seeds of what a function makes of each run and its baseline."""
    return Interval.of([figure(row, baseline[seed]) for seed, row in runs.items()])


def less_pct(name: str) -> Callable[[Row, Row], float]:
    """Return a function of a run and its baseline: how many percent less of a figure the run has."""
    return lambda row, base: 100.0 * (1.0 - float(row[name]) / float(base[name]))


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


def change_text(runs: Runs, baseline: Runs, name: str) -> str:
    """Return `change_pct` as text."""
    found = change_pct(runs, baseline, name)
    return "-" if found is None else f"{found[0]:+.1f} [{found[1]:+.1f}, {found[2]:+.1f}]"


def interval_text(interval: Interval, digits: int = 1) -> str:
    """Return a mean with half of the width of its confidence interval."""
    width = "" if interval.half_width is None else f" ±{interval.half_width:.{digits}f}"
    return f"{interval.mean:.{digits}f}{width}"


def own(runs: Runs, name: str) -> Interval:
    """Return the mean of a figure over the seeds."""
    return Interval.of([float(row[name]) for row in runs.values()])


def groups_of(baseline: Runs) -> list[str]:
    """Return the classes and pools of which there are jobs."""
    return [group for group in TITLES if any(float(row[f"{group}_done"]) for row in baseline.values())]
