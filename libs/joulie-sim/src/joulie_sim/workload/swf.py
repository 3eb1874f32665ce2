"""Reading of logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

One line is one job of a batch system, in 18 fields; -1 stands for an unknown value, and a line with a semicolon is a
comment. A job of more processors than `cores_per_pod` becomes several pods that arrive together: pods of one job do not
wait for each other here. A processor is one hardware thread, as fast as the reference model's, since a log names no
model. SWF has no class of jobs: those of the queues that are named are performance pods. Source: Feitelson et al.,
"Standard Workload Format", https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.openb_csv import TraceError

#: As the definition of the format names them.
_FIELDS: Final = (
    *("job number", "submit time", "wait time", "run time", "number of allocated processors", "average CPU time used"),
    *("used memory", "requested number of processors", "requested time", "requested memory", "status", "user ID"),
    *("group ID", "executable number", "queue number", "partition number", "preceding job number", "think time"),
)
_SUBMIT, _RUN, _ALLOCATED, _USED_KB, _REQUESTED, _REQUESTED_KB, _QUEUE = 1, 3, 4, 6, 7, 9, 14
_KIB_PER_MIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfOptions:
    """Options for turning jobs into pods."""

    cores_per_pod: int = 16
    performance_queues: frozenset[int] = frozenset()
    #: Of each processor, where the log has none.
    memory_mib: int = 2048
    cpu_utilization: float = 0.9


def read_swf(path: Path, options: SwfOptions) -> tuple[WorkItem, ...]:
    """Read the jobs that ran, in order of arrival; times count from the first one.

    Raises:
        TraceError: the file cannot be read, a line is no SWF, or no job ran.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error
    rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip() and not line.startswith(";")]
    jobs = [fields for number, line in rows if (fields := _fields(path, number, line))[_RUN] > 0]
    if not jobs:
        raise TraceError(f"{path}: no job ran")
    start_s = min(fields[_SUBMIT] for fields in jobs)
    items = [item for fields in jobs for item in _pods(fields, start_s, options)]
    return tuple(sorted(items, key=lambda item: item.arrives_s))


def _fields(path: Path, number: int, line: str) -> list[float]:
    texts = line.split()
    if len(texts) != len(_FIELDS):
        raise TraceError(f"{path}, line {number}: {len(texts)} fields instead of {len(_FIELDS)}")
    return [_number(path, number, name, text) for name, text in zip(_FIELDS, texts, strict=True)]


def _number(path: Path, line: int, field: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(f"{path}, line {line}: field {field!r} = {text!r} is not a number")
    return value


def _pods(fields: list[float], start_s: float, options: SwfOptions) -> Iterator[WorkItem]:
    processors = int(fields[_REQUESTED] if fields[_REQUESTED] > 0 else max(1.0, fields[_ALLOCATED]))
    kib = fields[_REQUESTED_KB] if fields[_REQUESTED_KB] > 0 else fields[_USED_KB]
    memory_mib = kib / _KIB_PER_MIB if kib > 0 else options.memory_mib
    performance = int(fields[_QUEUE]) in options.performance_queues
    for part, first in enumerate(range(0, processors, options.cores_per_pod)):
        cores = min(options.cores_per_pod, processors - first)
        yield WorkItem(
            name=f"job-{int(fields[0])}-{part}",
            arrives_s=fields[_SUBMIT] - start_s,
            workload_class=WorkloadClass.PERFORMANCE if performance else WorkloadClass.STANDARD,
            cpu_milli=1000 * cores,
            memory_mib=max(1, round(memory_mib * cores)),
            work_s=fields[_RUN],
            cpu_utilization=options.cpu_utilization,
        )
