import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.record import NodeSums, PodCounts, RecordedNode, RecordedTransition, RunRecord
from joulie_sim.demo.sleeping.power import Power

PERFORMANCE, ECO, DRAINING = SchedulableClass.PERFORMANCE, SchedulableClass.ECO, SchedulableClass.DRAINING


@pytest.fixture
def record():
    record = RunRecord()
    record.node_seen("fast", PERFORMANCE, 0.0)
    record.node_seen("slow", ECO, 0.0)
    return record


def create(record, name="p", workload=WorkloadClass.PERFORMANCE, *, now_s=0.0, work_s=10.0):
    record.pod_created(name, workload, work_s=work_s, now_s=now_s)


def test_the_first_class_of_a_node_is_not_a_transition(record):
    assert record.transition_count == 0
    record.node_seen("fast", DRAINING, 5.0)
    record.node_seen("fast", DRAINING, 6.0)
    assert list(record.transitions) == [RecordedTransition(5.0, "fast", PERFORMANCE, DRAINING)]
    assert record.transition_count == 1


def test_the_times_of_a_pod_are_those_of_the_first_observation(record):
    create(record, now_s=1.0)
    record.pod_seen("p", node=None, phase="Pending", now_s=1.5)
    record.pod_seen("p", node="fast", phase="Pending", now_s=3.0)
    record.pod_seen("p", node="fast", phase="Running", now_s=4.0)
    record.pod_seen("p", node="fast", phase="Running", now_s=5.0)
    record.pod_seen("p", node="fast", phase="Succeeded", now_s=24.0)
    track = record.pods["p"]
    assert (track.wait_s, track.slowdown) == (2.0, 2.0)
    assert track.placed_on == {PERFORMANCE}
    assert record.unfinished == 0


def test_a_pod_on_a_node_in_transition_counts_for_both_classes(record):
    create(record)
    record.node_seen("fast", DRAINING, 10.0)
    record.pod_seen("p", node="fast", phase="Pending", now_s=11.0)
    assert record.pods["p"].placed_on == {PERFORMANCE, DRAINING}


def test_a_pod_placed_after_the_grace_counts_for_the_current_class_only(record):
    create(record)
    record.node_seen("fast", DRAINING, 10.0)
    record.pod_seen("p", node="fast", phase="Pending", now_s=13.0)
    assert record.pods["p"].placed_on == {DRAINING}


def test_pods_of_other_workloads_are_ignored(record):
    record.pod_seen("stranger", node="fast", phase="Running", now_s=1.0)
    assert record.pods == {}


def test_a_sample_adds_up_nodes_by_class_and_counts_pods(record):
    create(record, "a")
    create(record, "b", WorkloadClass.STANDARD)
    create(record, "c", WorkloadClass.STANDARD)
    record.pod_seen("b", node="slow", phase="Running", now_s=1.0)
    record.pod_seen("c", node="slow", phase="Succeeded", now_s=1.0)
    record.node_seen("other", ECO, 0.0)
    readings = {
        "fast": RecordedNode(300.0, 500.0, 0),
        "slow": RecordedNode(100.0, 250.0, 1),
        "other": RecordedNode(50.0, 250.0, 0),
    }
    sample = record.sample(readings, 2.0)
    assert sample.by_class[PERFORMANCE] == NodeSums(1, 300.0, 500.0, 0)
    assert sample.by_class[ECO] == NodeSums(2, 150.0, 500.0, 1)
    assert sample.pods == {
        WorkloadClass.PERFORMANCE: PodCounts(pending=1),
        WorkloadClass.STANDARD: PodCounts(running=1, finished=1),
    }
    assert sample.counts == PodCounts(pending=1, running=1, finished=1)
    assert sample.watts == 450.0
    assert record.samples == [sample]


def test_a_sample_adds_up_servers_by_what_they_do_and_remembers_the_changes(record):
    awake = {"fast": RecordedNode(300.0, 500.0, 0), "slow": RecordedNode(100.0, 250.0, 1)}
    record.sample(awake, 1.0)
    asleep = {**awake, "fast": RecordedNode(15.0, 500.0, 0, Power.ASLEEP)}
    record.sample(asleep, 2.0)
    sample = record.sample(asleep, 3.0)
    assert sample.by_power == {
        Power.AWAKE: NodeSums(1, 100.0, 250.0, 1),
        Power.WAKING: NodeSums(),
        Power.ASLEEP: NodeSums(1, 15.0, 500.0, 0),
    }
    assert list(record.power_changes) == [RecordedTransition(2.0, "fast", Power.AWAKE, Power.ASLEEP)]


def test_a_deleted_node_is_not_counted(record):
    record.node_gone("fast")
    assert set(record.classes) == {"slow"}
