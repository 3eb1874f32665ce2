"""Workloads as JSON lines."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.power.draw import WorkKind
from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.job_lines import read_job_lines, write_job_lines
from joulie_sim.workload.openb_csv import TraceError

_ITEM = WorkItem(
    name="a",
    arrives_s=1.5,
    workload_class=WorkloadClass.PERFORMANCE,
    cpu_milli=500,
    memory_mib=64,
    gpus=1,
    work_s=3.25,
    cpu_utilization=0.5,
    gpu_utilization=0.75,
    kind=WorkKind.IO,
)


def test_what_is_written_is_read(tmp_path) -> None:
    write_job_lines(tmp_path / "jobs.jsonl", [_ITEM])
    assert read_job_lines(tmp_path / "jobs.jsonl") == (_ITEM,)


def test_a_wrong_line_is_named(tmp_path) -> None:
    path = tmp_path / "jobs.jsonl"
    write_job_lines(path, [_ITEM])
    path.write_bytes(path.read_bytes() + b'{"name": "b"}\n')
    with pytest.raises(TraceError, match="line 2"):
        read_job_lines(path)
