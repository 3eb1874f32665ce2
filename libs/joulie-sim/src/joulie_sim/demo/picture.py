"""Plot of watts over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.record import Sample

#: Stacked from below; colours that differ in black and white.
_COLOURS: Final = {
    SchedulableClass.PERFORMANCE: "#b2182b",
    SchedulableClass.DRAINING: "#fdae61",
    SchedulableClass.ECO: "#4d9221",
    SchedulableClass.UNKNOWN: "#bbbbbb",
}
_KILO: Final = 1000.0


def write_picture(path: Path, samples: Sequence[Sample], *, title: str) -> None:
    """Plot watts over time, stacked by class, with the sum of all caps, and pods below."""
    # No display and no global figure: the demo may run in a test, in a thread, or over ssh.
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(10, 6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        times = [sample.at_s for sample in samples]
        shown = [node_class for node_class in _COLOURS if any(sample.by_class[node_class].nodes for sample in samples)]
        if shown:
            stacks = [[sample.by_class[node_class].watts / _KILO for sample in samples] for node_class in shown]
            labels = [f"{node_class.value} nodes" for node_class in shown]
            upper.stackplot(
                times, stacks, labels=labels, colors=[_COLOURS[node_class] for node_class in shown], alpha=0.85
            )
            caps = [sum(found.cap_watts for found in sample.by_class.values()) / _KILO for sample in samples]
            upper.plot(times, caps, color="black", linestyle="--", linewidth=1, label="all caps")
        for workload, style in ((WorkloadClass.PERFORMANCE, "-"), (WorkloadClass.STANDARD, ":")):
            running = [sample.pods[workload].running for sample in samples]
            pending = [sample.pods[workload].pending for sample in samples]
            lower.plot(times, running, style, color="black", label=f"{workload.value} running")
            lower.plot(times, pending, style, color="#2166ac", label=f"{workload.value} pending")
        upper.set(title=title, ylabel="power [kW]", ylim=(0, None))
        lower.set(xlabel="time since the start of the workload [s]", ylabel="pods", ylim=(0, None))
        for axes in (upper, lower):
            axes.grid(visible=True, alpha=0.3)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        figure.savefig(path, dpi=120)
