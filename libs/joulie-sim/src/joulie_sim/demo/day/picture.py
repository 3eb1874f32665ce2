"""Picture of a day: watts by what the servers do, and pods that wait, of both arms beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from joulie_sim.demo.day.accounts import ArmDay, Power

#: Stacked from below; colours that differ in black and white.
_COLOURS: Final = {Power.AWAKE: "#b2182b", Power.WAKING: "#fdae61", Power.ASLEEP: "#2166ac"}
_HOUR_S: Final = 3600.0
_KILO: Final = 1000.0


def write_picture(path: Path, arms: Sequence[ArmDay], *, title: str) -> None:
    """Plot watts, nodes and pending pods over the day, an arm in each column."""
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(12, 7.5), layout="constrained")
        rows = figure.subplots(3, len(arms), sharex=True, sharey="row", height_ratios=(3, 1.3, 1.3), squeeze=False)
        for column, arm in enumerate(arms):
            watts, nodes, pods = (row[column] for row in rows)
            hours = [sample.at_s / _HOUR_S for sample in arm.samples]
            colours = list(_COLOURS.values())
            stacks = [[sample.watts[power] / _KILO for sample in arm.samples] for power in _COLOURS]
            watts.stackplot(hours, stacks, labels=[power.value for power in _COLOURS], colors=colours, alpha=0.85)
            counts = [[sample.nodes[power] for sample in arm.samples] for power in _COLOURS]
            nodes.stackplot(hours, counts, labels=[power.value for power in _COLOURS], colors=colours, alpha=0.85)
            pods.plot(hours, [sample.running for sample in arm.samples], color="#888888", linewidth=1, label="running")
            pods.plot(hours, [sample.pending for sample in arm.samples], color="black", linewidth=1, label="pending")
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
