"""Picture of a day: watts by what the servers do, and pods that wait, of both arms beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from joulie_sim.demo.day.accounts import ArmDay
from joulie_sim.demo.picture import plot_power

_HOUR_S: Final = 3600.0


def write_picture(path: Path, arms: Sequence[ArmDay], *, title: str) -> None:
    """Plot watts, nodes and pending pods over the day, an arm in each column."""
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(12, 7.5), layout="constrained")
        rows = figure.subplots(3, len(arms), sharex=True, sharey="row", height_ratios=(3, 1.3, 1.3), squeeze=False)
        for column, arm in enumerate(arms):
            watts, nodes, pods = (row[column] for row in rows)
            hours = [sample.at_s / _HOUR_S for sample in arm.samples]
            plot_power(watts, nodes, hours, arm.samples)
            pods.plot(
                hours, [sample.counts.running for sample in arm.samples], color="#888888", linewidth=1, label="running"
            )
            pods.plot(
                hours, [sample.counts.pending for sample in arm.samples], color="black", linewidth=1, label="pending"
            )
            watts.set(title=arm.title, ylim=(0, None), xlim=(0, 24))
            pods.set(xlabel="hour of the day", ylim=(0, None), xticks=range(0, 25, 3))
            for axes in (watts, nodes, pods):
                axes.grid(visible=True, alpha=0.3)
            if column == 0:
                watts.set(ylabel="power at the wall [kW]")
                nodes.set(ylabel="nodes")
                pods.set(ylabel="pods")
            if column == len(arms) - 1:
                for axes in (watts, nodes, pods):
                    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        figure.suptitle(title)
        figure.savefig(path, dpi=110)
