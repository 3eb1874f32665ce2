"""Workloads as JSON lines, one pod each: the format that imported and recorded workloads are kept in.

The fields of a line are those of `WorkItem`.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.openb_csv import TraceError


def write_job_lines(path: Path, items: Sequence[WorkItem]) -> None:
    """Write a workload.

    Raises:
        OSError: the file cannot be written.
    """
    path.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in items))


def read_job_lines(path: Path) -> tuple[WorkItem, ...]:
    """Read a workload.

    Raises:
        TraceError: the file cannot be read, or a line is no pod.
    """
    decoder = msgspec.json.Decoder(WorkItem)
    items = []
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                items.append(decoder.decode(line))
            except msgspec.DecodeError as error:
                raise TraceError(f"{path}, line {number}: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    return tuple(items)
