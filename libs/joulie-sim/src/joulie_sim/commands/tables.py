"""Tables of results."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from joulie_sim.engine.comparison import ArmComparison, Interval
from joulie_sim.engine.summary import SimulationSummary
from joulie_sim.recording.replay import Replay

#: Width of tables in a file or a pipe: that of the widest table with intervals.
_WIDTH: Final = 180


def table_console() -> Console:
    """Return a console that is as wide as the terminal, or wide enough for all tables where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def summary_table(arm: str, summary: SimulationSummary) -> Table:
    """Return the figures of one arm, by class and pool."""
    facts = (
        f"{summary.it_kwh:,.1f} kWh IT",
        f"{summary.facility_kwh:,.1f} kWh facility",
        f"peak {summary.peak_kw:,.1f} kW",
        f"ramp p99 {summary.ramp_p99_kw:,.2f} kW",
        f"{summary.joules_per_core_second:,.2f} J per core-second of work",
        f"{summary.done:,} of {summary.jobs:,} jobs done",
        f"{summary.dropped:,} dropped",
        f"{summary.cores_held:.0%} of the cores and {summary.gpus_held:.0%} of the GPUs held on average",
        f"{summary.transitions:,} transitions",
        *(f"{nodes:,} {model} taken as fast as the reference" for model, nodes in summary.unrated.items()),
    )
    table = Table(title=arm, caption="; ".join(facts))
    columns = ("jobs", "done", "device hours", "stretch mean", "p50", "p95", "p99", "slowdown mean")
    for title in ("class", "pool", *columns):
        table.add_column(title, justify="right" if title in columns else "left")
    for group in (*summary.groups, *summary.hardware):
        stretches = (group.stretch_mean, group.stretch_p50, group.stretch_p95, group.stretch_p99)
        table.add_row(
            *(group.workload_class, group.pool, f"{group.jobs:,}", f"{group.done:,}"),
            f"{group.work_device_hours:,.0f}",
            *(f"{value:.3f}" for value in (*stretches, group.slowdown_mean)),
        )
    return table


def comparison_table(title: str, arms: Sequence[ArmComparison]) -> Table:
    """Return arms beside each other; the first is the baseline."""
    table = Table(
        title=title,
        caption="savings: percent less energy than the first arm with the same seed, up to the later of both ends; J: "
        "IT energy per second of work of a core; +- is half of the 95 % confidence interval over the seeds",
    )
    columns = ("IT kWh", "IT saving %", "facility saving %", "peak kW", "ramp p99 kW", "core hours", "GPU hours", "J")
    for column in ("arm", "seeds", *columns, "missed", "dropped"):
        table.add_column(column, justify="left" if column == "arm" else "right", no_wrap=column == "arm")
    for arm in arms:
        table.add_row(
            arm.arm,
            str(arm.seeds),
            _interval(arm.it_kwh, 1),
            _interval(arm.it_saving_pct, 2),
            _interval(arm.facility_saving_pct, 2),
            _interval(arm.peak_kw, 1),
            _interval(arm.ramp_p99_kw, 2),
            _interval(arm.work_core_hours, 0),
            _interval(arm.work_gpu_hours, 0),
            _interval(arm.joules_per_core_second, 2),
            f"{arm.missed:,}",
            f"{arm.dropped:,}",
        )
    return table


def stretch_table(arms: Sequence[ArmComparison]) -> Table:
    """Return the stretch of each class by pool, then by the hardware family of the nodes on which the jobs ran."""
    table = Table(
        title="stretch",
        caption="time from arrival to completion over the work, of jobs that are done; changes: percent of the first "
        "arm's with the same seed",
    )
    columns = ("mean", "p50", "p95", "p99", "mean change %", "p95 change %")
    for column in ("class", "pool", "arm", *columns):
        table.add_column(column, justify="right" if column in columns else "left", no_wrap=column == "arm")
    rows = [(each, arm.arm) for arm in arms for each in (*arm.pools, *arm.hardware)]
    places = {(each.workload_class, each.pool): place for place, (each, _) in reversed(list(enumerate(rows)))}
    for each, arm_name in sorted(rows, key=lambda row: places[row[0].workload_class, row[0].pool]):
        table.add_row(
            *(each.workload_class, each.pool, arm_name),
            *(_interval(value, 3) for value in (each.mean, each.p50, each.p95, each.p99)),
            *(_interval(value, 2) for value in (each.mean_change_pct, each.p95_change_pct)),
        )
    return table


def replay_notes(replay: Replay) -> Text:
    """Return what is simulated of a recording, and what it does not show."""
    return Text("\n".join(("recording:", *(f"- {note}" for note in replay.notes))))


def _interval(interval: Interval, digits: int) -> str:
    mean = f"{interval.mean:,.{digits}f}"
    return mean if interval.half_width is None else f"{mean} +- {interval.half_width:,.{digits}f}"
