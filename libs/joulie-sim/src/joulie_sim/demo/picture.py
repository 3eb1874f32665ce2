"""Plot of watts over time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.record import Sample
from joulie_sim.demo.sleeping.power import Power

#: Stacked from below; colours that differ in black and white.
_COLOURS: Final = {
    SchedulableClass.PERFORMANCE: "#b2182b",
    SchedulableClass.DRAINING: "#fdae61",
    SchedulableClass.ECO: "#4d9221",
    SchedulableClass.UNKNOWN: "#bbbbbb",
}
POWER_COLOURS: Final[Mapping[Power, str]] = {
    Power.AWAKE: "#b2182b",
    Power.WAKING: "#fdae61",
    Power.ASLEEP: "#2166ac",
}
_KILO: Final = 1000.0
_MINUTE_S: Final = 60.0


def write_picture(
    path: Path, samples: Sequence[Sample], *, title: str, sleeps: bool, without: Sequence[tuple[float, float]] = ()
) -> None:
    """Plot watts over time and pods below: watts by class with the sum of all caps, or by power state with the nodes.

    Args:
        path: of the PNG.
        samples: of the run.
        title: of the plot.
        sleeps: nodes are powered off; times are simulated.
        without: seconds since the start, and watts of the same pods under kube-scheduler alone.
    """
    # No display and no global figure: the demo may run in a test, in a thread, or over ssh.
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(10, 7 if sleeps else 6), layout="constrained")
        rows = (2, 1, 1) if sleeps else (2, 1)
        upper, *between, lower = figure.subplots(len(rows), 1, sharex=True, height_ratios=rows)
        unit_s = _MINUTE_S if sleeps else 1.0
        times = [sample.at_s / unit_s for sample in samples]
        if sleeps:
            plot_power(upper, between[0], times, samples)
            between[0].set(ylabel="nodes", ylim=(0, None))
        else:
            _plot_classes(upper, times, samples)
        if without:
            upper.plot(
                [at_s / unit_s for at_s, _ in without],
                [watts / _KILO for _, watts in without],
                color="black",
                linewidth=1.2,
                label="kube-scheduler\nalone, simulated",
            )
        for workload, style in ((WorkloadClass.PERFORMANCE, "-"), (WorkloadClass.STANDARD, ":")):
            running = [sample.pods[workload].running for sample in samples]
            pending = [sample.pods[workload].pending for sample in samples]
            lower.plot(times, running, style, color="black", label=f"{workload.value} running")
            lower.plot(times, pending, style, color="#2166ac", label=f"{workload.value} pending")
        upper.set(title=title, ylabel=f"power{' at the wall' if sleeps else ''} [kW]", ylim=(0, None))
        unit = "simulated min" if sleeps else "s"
        lower.set(xlabel=f"time since the start of the workload [{unit}]", ylabel="pods", ylim=(0, None))
        for axes in (upper, *between, lower):
            axes.grid(visible=True, alpha=0.3)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        figure.savefig(path, dpi=120)


def plot_power(watts: Axes, nodes: Axes, times: Sequence[float], samples: Sequence[Sample]) -> None:
    """Plot kilowatts and numbers of nodes, stacked by what the servers do."""
    colours, labels = list(POWER_COLOURS.values()), [power.value for power in POWER_COLOURS]
    kilowatts = [[sample.by_power[power].watts / _KILO for sample in samples] for power in POWER_COLOURS]
    counts = [[sample.by_power[power].nodes for sample in samples] for power in POWER_COLOURS]
    for axes, stacks in ((watts, kilowatts), (nodes, counts)):
        axes.stackplot(times, stacks, labels=labels, colors=colours, alpha=0.85)


def _plot_classes(axes: Axes, times: Sequence[float], samples: Sequence[Sample]) -> None:
    shown = [node_class for node_class in _COLOURS if any(sample.by_class[node_class].nodes for sample in samples)]
    if not shown:
        return
    stacks = [[sample.by_class[node_class].watts / _KILO for sample in samples] for node_class in shown]
    colours = [_COLOURS[node_class] for node_class in shown]
    axes.stackplot(times, stacks, labels=[f"{each.value} nodes" for each in shown], colors=colours, alpha=0.85)
    caps = [sum(found.cap_watts for found in sample.by_class.values()) / _KILO for sample in samples]
    axes.plot(times, caps, color="black", linestyle="--", linewidth=1, label="all caps")
