"""Logs in the Standard Workload Format."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_sim.workload.openb_csv import TraceError
from joulie_sim.workload.swf import SwfOptions, read_swf

_LINES = """\
; Version: 2
1 100 5 3600 20 -1 -1 20 7200 -1 1 3 1 -1 2 -1 -1 -1
2 40 0 60 4 -1 1024 -1 90 -1 1 3 1 -1 1 -1 -1 -1
3 50 0 -1 4 -1 -1 4 90 -1 0 3 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(_LINES)
    return path


def test_jobs_become_pods_in_order_of_arrival_and_large_ones_several(log) -> None:
    items = read_swf(log, SwfOptions(performance_queues=frozenset({1})))
    assert [(item.name, item.arrives_s, item.cpu_milli, item.work_s) for item in items] == [
        ("job-2-0", 0.0, 4000, 60.0),
        ("job-1-0", 60.0, 16_000, 3600.0),
        ("job-1-1", 60.0, 4000, 3600.0),
    ]
    assert [item.workload_class for item in items] == [WorkloadClass.PERFORMANCE, *[WorkloadClass.STANDARD] * 2]


def test_memory_is_per_processor_and_assumed_where_the_log_has_none(log) -> None:
    small, large, _ = read_swf(log, SwfOptions(memory_mib=3000))
    assert (small.memory_mib, large.memory_mib) == (4, 48_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 2 3\n", "line 1: 3 fields"),
        ("; nothing\n", "no job ran"),
        ("x " * 18, "line 1: field 'job number' = 'x'"),
        ("1 2 3 nan " + "1 " * 14, "line 1: field 'run time' = 'nan'"),
    ],
)
def test_a_file_of_another_format_is_refused_with_the_line(tmp_path, text, reason) -> None:
    path = tmp_path / "other.swf"
    path.write_text(text)
    with pytest.raises(TraceError, match=reason):
        read_swf(path, SwfOptions())
