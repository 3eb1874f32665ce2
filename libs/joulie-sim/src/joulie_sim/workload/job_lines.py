"""Workloads as JSON lines, one pod each: the format that imported and recorded workloads are kept in.

The fields of a line are those of `WorkItem`.
"""

from collections.abc import Iterator, Sequence
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
        TraceError: the file cannot be read, or a line is no pod; the message has the line and the field.
    """
    decoder = msgspec.json.Decoder(WorkItem)
    items = []
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                item = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise TraceError(f"{path}, line {number}: {error}") from error
            for field, problem in _problems(item):
                raise TraceError(f"{path}, line {number}: field {field!r} = {getattr(item, field)!r} {problem}")
            items.append(item)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    return tuple(items)


def _problems(item: WorkItem) -> Iterator[tuple[str, str]]:
    """Yield the fields of a pod that cannot be simulated."""
    if item.arrives_s < 0.0:
        yield "arrives_s", "is before the start"
    for field in ("cpu_milli", "work_s"):
        if getattr(item, field) <= 0:
            yield field, "is not above 0"
    for field in ("memory_mib", "gpus"):
        if getattr(item, field) < 0:
            yield field, "is below 0"
    for field in ("cpu_utilization", "gpu_utilization"):
        if not 0.0 <= getattr(item, field) <= 1.0:
            yield field, "is not between 0 and 1"
