"""Output files of a day: samples and pods of both arms as CSV, the tables in Markdown, a picture."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from joulie_devcluster.host.paths import cache_home
from joulie_sim.demo.day.accounts import ArmDay
from joulie_sim.demo.output import write_csv
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.tables import TextTable

_SAMPLE_HEADER: Final = (
    "arm",
    "t_s",
    *(f"{power.value}_watts" for power in Power),
    *(f"{power.value}_nodes" for power in Power),
    *("pending", "running", "finished", "device_watts", "device_joules"),
)
_POD_HEADER: Final = ("arm", "pod", "wait_s", "work_s", "finished")


def write_all(
    directory: Path, arms: Sequence[ArmDay], tables: Sequence[TextTable], *, title: str, note: str
) -> tuple[Path, ...]:
    """Write all files into an existing directory, and return their paths; times are seconds of the day."""
    # Imported late: matplotlib creates its directory at import, which has to be in Joulie's cache directory.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_home() / "matplotlib"))
    from joulie_sim.demo.day.picture import write_picture  # noqa: PLC0415

    samples, pods, text, picture = (directory / name for name in ("samples.csv", "pods.csv", "day.md", "day.png"))
    write_csv(
        samples,
        _SAMPLE_HEADER,
        (
            (
                arm.title,
                round(sample.at_s),
                *(round(sample.by_power[power].watts, 1) for power in Power),
                *(sample.by_power[power].nodes for power in Power),
                *(sample.counts.pending, sample.counts.running, sample.counts.finished),
                round(sample.device_watts, 1),
                round(sample.device_joules),
            )
            for arm in arms
            for sample in arm.samples
        ),
    )
    write_csv(
        pods,
        _POD_HEADER,
        (
            (
                *(arm.title, pod.name, "" if pod.wait_s is None else round(pod.wait_s, 1)),
                *(round(pod.work_s, 1), pod.finished_s is not None),
            )
            for arm in arms
            for pod in arm.pods.values()
        ),
    )
    parts = [f"# {title}\n", *(f"## {table.title}\n\n{table.markdown()}\n" for table in tables), f"{note}\n"]
    text.write_text("\n".join(parts))
    write_picture(picture, arms, title=title)
    return samples, pods, text, picture
