"""Output files of a run: samples and pods as CSV, the summary as JSON, watts over time as a picture."""

import csv
import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_devcluster.host.paths import cache_home
from joulie_sim.demo.record import PodTrack, RunRecord, Sample
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.demo.summary import Summary, as_json


def make_directory(out: Path, kind: str) -> Path:
    """Make a new directory `out/KIND-TIME` for the results of a run, and return it."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    directory = out / f"{kind}-{stamp}"
    directory.mkdir(parents=True)
    return directory


def write_all(directory: Path, record: RunRecord, summary: Summary, *, title: str) -> tuple[Path, ...]:
    """Write all files into an existing directory, and return their paths."""
    # Imported late: matplotlib creates its directory at import, which has to be in Joulie's cache directory.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_home() / "matplotlib"))
    from joulie_sim.demo.picture import write_picture  # noqa: PLC0415

    samples, pods = directory / "samples.csv", directory / "pods.csv"
    write_csv(samples, _sample_header(), (_sample_row(sample) for sample in record.samples))
    write_csv(pods, _POD_HEADER, (_pod_row(track) for track in record.pods.values()))
    figures = directory / "summary.json"
    figures.write_text(json.dumps(as_json(summary), indent=2) + "\n")
    picture = directory / "watts.png"
    compared, sleeps = summary.without_joulie, summary.power_offs is not None
    # Without sleep a run takes too few minutes for a curve of their means.
    without = compared.without_watts if compared is not None and sleeps else ()
    write_picture(picture, record.samples, title=title, sleeps=sleeps, without=without)
    return samples, pods, figures, picture


_POD_HEADER: Final = (
    *("pod", "class", "node", "placed_on", "created_s", "bound_s", "running_s", "finished_s", "work_s"),
    *("wait_s", "slowdown"),
)


def _pod_row(track: PodTrack) -> tuple[Any, ...]:
    placed = "|".join(sorted(node_class.value for node_class in track.placed_on))
    moments = (track.created_s, track.bound_s, track.running_s, track.finished_s, track.work_s)
    figures = (_rounded(value) for value in (*moments, track.wait_s, track.slowdown))
    return (track.name, track.workload_class.value, track.node or "", placed, *figures)


def _sample_header() -> tuple[str, ...]:
    nodes = tuple(
        f"{node_class.value}_{figure}" for node_class in SchedulableClass for figure in ("nodes", "watts", "cap_watts")
    )
    servers = tuple(f"{power.value}_{figure}" for power in Power for figure in ("nodes", "watts"))
    pods = tuple(
        f"{workload.value}_{figure}" for workload in WorkloadClass for figure in ("pending", "running", "finished")
    )
    return ("t_s", *nodes, *servers, *pods)


def _sample_row(sample: Sample) -> tuple[Any, ...]:
    nodes = (
        value
        for node_class in SchedulableClass
        for found in (sample.by_class[node_class],)
        for value in (found.nodes, _rounded(found.watts), _rounded(found.cap_watts))
    )
    pods = (
        value
        for workload in WorkloadClass
        for found in (sample.pods[workload],)
        for value in (found.pending, found.running, found.finished)
    )
    servers = (
        value
        for power in Power
        for found in (sample.by_power[power],)
        for value in (found.nodes, _rounded(found.watts))
    )
    return (_rounded(sample.at_s), *nodes, *servers, *pods)


def _rounded(value: float | None) -> float | str:
    return "" if value is None else round(value, 3)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a file of comma-separated values."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
