"""Runs both arms of a day one after the other, shows them, and writes the results.

An interrupted day stops its cluster and writes nothing: one arm alone compares with nothing.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live

from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.day.accounts import ArmDay
from joulie_sim.demo.day.arm import DayArm, DayPlan
from joulie_sim.demo.day.figures import by_the_hour, comparison, scaling_note
from joulie_sim.demo.day.output import write_all
from joulie_sim.demo.day.scale import day_scale
from joulie_sim.demo.day.workload import day_items
from joulie_sim.demo.options import Options
from joulie_sim.demo.output import make_directory
from joulie_sim.demo.record import Sample
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.tables import TextTable

WITHOUT, WITH = "without sleep", "with sleep"
#: Nodes of each hardware family that stay awake without pods: the default of NodeSleepPolicy.
_SPARE: Final = 2
#: Of the day, without a terminal.
_PRINT_EVERY_S: Final = 3600.0


async def run_day(options: Options, *, console: Console, reporter: Reporter) -> Path:
    """Run the day without and with sleep, and return the output directory.

    Raises:
        DemoError: the operator does not plan the nodes in time.
        DevClusterError: a cluster or a service failed; also in groups.
    """
    classes = scale(default_node_classes(), options.nodes)
    time = day_scale(options.duration_s)
    items = day_items(classes, pods=options.pods, seed=options.seed)
    arms: list[ArmDay] = []
    for title, spare in ((WITHOUT, None), (WITH, _SPARE)):
        plan = DayPlan(title=title, classes=classes, items=items, scale=time, spare=spare)
        live = Live(console=console, auto_refresh=False, transient=True)
        with tempfile.TemporaryDirectory(prefix="joulie-bmc-") as certificates:
            try:
                arm = DayArm(plan, reporter=reporter, show=_shown(title, console, live))
                arms.append(await arm.run(Path(certificates)))
            finally:
                live.stop()
    awake, asleep = arms
    title = f"A day of {options.nodes} nodes and {options.pods} pods in {options.duration_s:.0f} s, seed {options.seed}"
    tables = (comparison(awake, asleep, time), by_the_hour(awake, asleep))
    for table in tables:
        console.print(table.rich())
    console.print(scaling_note(time), markup=False)
    directory = make_directory(options.out, "day")
    for path in write_all(directory, arms, tables, title=title, note=scaling_note(time)):
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
    return directory


def _shown(title: str, console: Console, live: Live) -> Callable[[Sample], None]:
    """Return what shows a sample: a table that is renewed, or without a terminal a line for each hour of the day."""
    printed_s = float("-inf")

    def show(sample: Sample) -> None:
        nonlocal printed_s
        if console.is_terminal:
            # Not before the first sample: the start has a progress bar of its own.
            live.start()
            live.update(_now(title, sample).rich(), refresh=True)
        elif sample.at_s - printed_s >= _PRINT_EVERY_S:
            printed_s = sample.at_s
            row = _now(title, sample)
            figures = (f"{name} {value}" for name, value in zip(row.header[1:], row.rows[0][1:], strict=True))
            console.print(f"{title} | {row.rows[0][0]} | {', '.join(figures)}", markup=False, soft_wrap=True)

    return show


def _now(title: str, sample: Sample) -> TextTable:
    """Return a table with one row: the cluster at one moment."""
    header = ("time", *(f"{power.value} kW" for power in Power), *(power.value for power in Power))
    hours, minutes = divmod(round(sample.at_s / 60.0), 60)
    row = (
        f"{hours:02d}:{minutes:02d}",
        *(f"{sample.by_power[power].watts / 1000.0:.2f}" for power in Power),
        *(str(sample.by_power[power].nodes) for power in Power),
        *(str(count) for count in (sample.counts.pending, sample.counts.running, sample.counts.finished)),
    )
    return TextTable((*header, "pending", "running", "done"), (row,), title)
