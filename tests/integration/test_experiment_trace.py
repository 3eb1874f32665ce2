"""Days of a trace that an experiment replays."""

import pytest
from experiments.trace import MissingTraceError, Trace

from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE

_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\n"
_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
_DAY = 86_400
#: One pod on the first day, and two on each of two others, the first at midnight.
_CREATED = (60, 2 * _DAY, 2 * _DAY + 7200, 3 * _DAY, 3 * _DAY + 14_400)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / NODE_FILE).write_text(_NODES)
    pods = (f"p{index},4000,1024,1,500,,LS,Running,{at},{at + 600},{at}" for index, at in enumerate(_CREATED))
    (tmp_path / "small" / POD_FILE).write_text("\n".join([_HEADER, *pods]) + "\n")
    monkeypatch.setenv("JOULIE_DATA_DIR", str(tmp_path))
    Trace.read.cache_clear()
    yield Trace.read("small")
    Trace.read.cache_clear()


def test_pods_of_whole_days_come_at_the_times_of_the_trace_and_offer_the_load(trace):
    jobs = trace.jobs_of_days(2, 2, node_scale=1.0, load=0.02, longest_s=_DAY)
    assert jobs.arrives_s.tolist() == [0.0, 7200.0, _DAY, _DAY + 14_400.0]
    # An A10, which G2 is taken for, does 0.32 of the reference's work.
    assert float((jobs.gpus * jobs.work_s).sum()) == pytest.approx(0.32 * 0.02 * 8 * 2 * _DAY)


def test_work_is_no_longer_than_its_limit(trace):
    jobs = trace.jobs_of_days(2, 2, node_scale=1.0, load=1.0, longest_s=3600.0)
    assert jobs.work_s.tolist() == pytest.approx([0.32 * 3600.0] * 4)


def test_days_without_pods_are_named(trace):
    with pytest.raises(ValueError, match="no pods from day 7 to day 9"):
        trace.jobs_of_days(7, 2, node_scale=1.0, load=0.1, longest_s=3600.0)


@pytest.mark.parametrize("directory", [None, "elsewhere"])
def test_a_trace_that_is_not_there_is_named(monkeypatch, tmp_path, directory):
    Trace.read.cache_clear()
    if directory is None:
        monkeypatch.delenv("JOULIE_DATA_DIR", raising=False)
    else:
        monkeypatch.setenv("JOULIE_DATA_DIR", str(tmp_path / directory))
    with pytest.raises(MissingTraceError, match=f"absent/{POD_FILE}.*{directory or 'not set'}"):
        Trace.read("absent")
