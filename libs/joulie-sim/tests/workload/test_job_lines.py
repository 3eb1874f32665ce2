"""Workloads as JSON lines."""

from dataclasses import replace

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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("arrives_s", -1.0), ("cpu_milli", 0), ("work_s", 0.0), ("memory_mib", -1), ("gpus", -1)),
        *(("cpu_utilization", 1.5), ("gpu_utilization", -0.1)),
    ],
)
def test_a_value_that_cannot_be_simulated_is_named_with_its_line_and_field(tmp_path, field, value) -> None:
    path = tmp_path / "jobs.jsonl"
    write_job_lines(path, [_ITEM, replace(_ITEM, **{field: value})])
    with pytest.raises(TraceError, match=rf"jobs\.jsonl, line 2: field '{field}' = {value}"):
        read_job_lines(path)
