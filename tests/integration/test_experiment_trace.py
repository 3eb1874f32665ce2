"""Parts of a trace that an experiment replays."""

import pytest
from experiments.trace import MissingTraceError, Trace

from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE

_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\n"
_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
#: One pod an hour before the others, which follow each other by a minute.
_CREATED = (0, *range(3600, 3600 + 9 * 60, 60))


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


def test_parts_have_every_nth_pod_of_the_densest_time(trace):
    parts = [[pod.name for pod in trace.part(number, of=3, pods=3)] for number in range(3)]
    assert parts == [["p1", "p4", "p7"], ["p2", "p5", "p8"], ["p3", "p6", "p9"]]
    with pytest.raises(ValueError, match="3 parts"):
        trace.part(3, of=3, pods=3)


def test_the_jobs_of_a_part_offer_the_load_within_the_window(trace):
    jobs = trace.jobs(trace.part(0, of=3, pods=3), node_scale=1.0, window_s=7200.0, load=0.2)
    # An A10, which G2 is taken for, does 0.32 of the reference's work.
    assert float((jobs.gpus * jobs.work_s).sum()) == pytest.approx(0.32 * 0.2 * 8 * 7200.0)
    assert jobs.arrives_s.tolist() == [0.0, 3600.0, 7200.0]


@pytest.mark.parametrize("directory", [None, "elsewhere"])
def test_a_trace_that_is_not_there_is_named(monkeypatch, tmp_path, directory):
    Trace.read.cache_clear()
    if directory is None:
        monkeypatch.delenv("JOULIE_DATA_DIR", raising=False)
    else:
        monkeypatch.setenv("JOULIE_DATA_DIR", str(tmp_path / directory))
    with pytest.raises(MissingTraceError, match=f"absent/{POD_FILE}.*{directory or 'not set'}"):
        Trace.read("absent")
