"""The files a run leaves behind: samples and pods as CSV, the summary as JSON, watts over time as a picture."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.record import PodTrack, Record, Sample
from joulie_sim.demo.summary import Summary, as_json

#: Stacked from below; colours that survive a black-and-white print.
_COLOURS: Final = {
    SchedulableClass.PERFORMANCE: "#b2182b",
    SchedulableClass.DRAINING: "#fdae61",
    SchedulableClass.ECO: "#4d9221",
    SchedulableClass.UNKNOWN: "#bbbbbb",
}
_KILO: Final = 1000.0


def write_all(directory: Path, record: Record, summary: Summary, *, title: str) -> tuple[Path, ...]:
    """Write every file into an existing directory; returns their paths."""
    samples, pods = directory / "samples.csv", directory / "pods.csv"
    _write_csv(samples, _sample_header(), (_sample_row(sample) for sample in record.samples))
    _write_csv(pods, _POD_HEADER, (_pod_row(track) for track in record.pods.values()))
    figures = directory / "summary.json"
    figures.write_text(json.dumps(as_json(summary), indent=2) + "\n")
    picture = directory / "watts.png"
    write_picture(picture, record.samples, title=title)
    return samples, pods, figures, picture


def write_picture(path: Path, samples: Sequence[Sample], *, title: str) -> None:
    """Watts over time, stacked by profile, with the sum of all caps above and the pods below."""
    # No display and no global figure: the demo may run in a test, in a thread, over ssh.
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(10, 6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        times = [sample.at_s for sample in samples]
        shown = [supply for supply in _COLOURS if any(sample.supplies[supply].nodes for sample in samples)]
        if shown:
            stacks = [[sample.supplies[supply].watts / _KILO for sample in samples] for supply in shown]
            labels = [f"{supply.value} nodes" for supply in shown]
            upper.stackplot(times, stacks, labels=labels, colors=[_COLOURS[supply] for supply in shown], alpha=0.85)
            caps = [sum(found.cap_watts for found in sample.supplies.values()) / _KILO for sample in samples]
            upper.plot(times, caps, color="black", linestyle="--", linewidth=1, label="all caps")
        for workload, style in ((WorkloadClass.PERFORMANCE, "-"), (WorkloadClass.STANDARD, ":")):
            running = [sample.pods[workload].running for sample in samples]
            pending = [sample.pods[workload].pending for sample in samples]
            lower.plot(times, running, style, color="black", label=f"{workload.value} running")
            lower.plot(times, pending, style, color="#2166ac", label=f"{workload.value} pending")
        upper.set(title=title, ylabel="power [kW]", ylim=(0, None))
        lower.set(xlabel="time since the workload began [s]", ylabel="pods", ylim=(0, None))
        for axes in (upper, lower):
            axes.grid(visible=True, alpha=0.3)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        figure.savefig(path, dpi=120)


_POD_HEADER: Final = (
    *("pod", "class", "node", "placed_on", "created_s", "bound_s", "running_s", "finished_s", "work_s"),
    *("wait_s", "slowdown"),
)


def _pod_row(track: PodTrack) -> tuple[Any, ...]:
    placed = "|".join(sorted(supply.value for supply in track.placed_on))
    moments = (track.created_s, track.bound_s, track.running_s, track.finished_s, track.work_s)
    figures = (_rounded(value) for value in (*moments, track.wait_s, track.slowdown))
    return (track.name, track.workload_class.value, track.node or "", placed, *figures)


def _sample_header() -> tuple[str, ...]:
    nodes = tuple(
        f"{supply.value}_{figure}" for supply in SchedulableClass for figure in ("nodes", "watts", "cap_watts")
    )
    pods = tuple(
        f"{workload.value}_{figure}" for workload in WorkloadClass for figure in ("pending", "running", "finished")
    )
    return ("t_s", *nodes, *pods)


def _sample_row(sample: Sample) -> tuple[Any, ...]:
    nodes = (
        value
        for supply in SchedulableClass
        for found in (sample.supplies[supply],)
        for value in (found.nodes, _rounded(found.watts), _rounded(found.cap_watts))
    )
    pods = (
        value
        for workload in WorkloadClass
        for found in (sample.pods[workload],)
        for value in (found.pending, found.running, found.finished)
    )
    return (_rounded(sample.at_s), *nodes, *pods)


def _rounded(value: float | None) -> float | str:
    return "" if value is None else round(value, 3)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
