import itertools
from dataclasses import replace

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.labels import POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.pod import Container, Pod
from joulie_sim.annotations import CPU_UTILIZATION, DURATION
from joulie_sim.server.control import Action, ControlRequest
from joulie_sim.server.render import cluster_state
from joulie_sim.server.simulator import Simulator
from joulie_sim.testing import CPU_NODE, GPU_NODE
from joulie_sim.workload.item import NVIDIA_GPU


class Cluster:
    """A simulator with a manual clock and a list of the pods that it reported as done."""

    def __init__(self):
        self.now_s = 0.0
        self.finished = []
        self.simulator = Simulator(
            clock=lambda: self.now_s, hardware_of=lambda _node: GPU_NODE, on_finished=self.finished.append
        )

    def at(self, now_s):
        self.now_s = now_s
        self.simulator.complete_due()
        return self


@pytest.fixture
def cluster():
    return Cluster()


def node(name="n1", **labels):
    return Node(name=NodeName(name), labels={key.replace("_", "."): value for key, value in labels.items()})


def pod(name="p", *, uid="1", on="n1", phase="Running", work_s=10.0, cores="32", used="1", **annotations):
    marks = {CPU_UTILIZATION: used, **annotations}
    if work_s is not None:
        marks[DURATION] = str(work_s)
    return Pod(
        name=name,
        uid=uid,
        node_name=NodeName(on) if on else None,
        phase=phase,
        annotations=marks,
        containers=(Container(requests={"cpu": cores}),),
    )


def test_the_state_has_the_gpus_that_each_job_holds(cluster):
    cluster.simulator.node_changed("n1", None, node())
    for name, gpus in (("two", 2), ("none", 0), ("one", 1)):
        requests = {"cpu": "1", NVIDIA_GPU: str(gpus)}
        cluster.simulator.pod_changed(name, None, replace(pod(name), containers=(Container(requests=requests),)))
    jobs = cluster_state(cluster.simulator, speed=1.0)["nodes"]["n1"]["jobs"]
    assert {each["pod"]: each["gpus"] for each in jobs} == {
        "default/two": (0, 1),
        "default/none": (),
        "default/one": (2,),
    }


def test_a_running_pod_completes_after_its_work(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    assert cluster.at(9.9).finished == []
    (done,) = cluster.at(12.0).finished
    assert (done.namespace, done.name, done.uid, done.completion.completed_s) == ("default", "p", "1", 10.0)


def test_a_pod_seen_before_its_node_starts_when_the_node_is_added(cluster):
    cluster.simulator.pod_changed("default/p", None, pod())
    cluster.at(5.0).simulator.node_changed("n1", None, node())
    assert [done.completion.completed_s for done in cluster.at(20.0).finished] == [15.0]


def test_a_bound_pod_draws_nothing_until_it_runs(cluster):
    cluster.simulator.node_changed("n1", None, node())
    waiting = pod(phase="Pending")
    cluster.simulator.pod_changed("default/p", None, waiting)
    assert cluster.simulator.read("n1").point.cpu_watts == 100.0
    cluster.simulator.pod_changed("default/p", waiting, pod())
    assert cluster.simulator.read("n1").point.cpu_watts == 500.0


def test_a_completed_pod_still_seen_running_is_not_started_again(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    cluster.at(11.0).simulator.pod_changed("default/p", pod(), pod())
    assert len(cluster.at(50.0).finished) == 1
    assert cluster.simulator.read("n1").point.cpu_watts == 100.0


def test_a_new_pod_of_the_same_name_is_started(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    cluster.at(11.0).simulator.pod_changed("default/p", pod(), pod(uid="2"))
    assert [done.uid for done in cluster.at(50.0).finished] == ["1", "2"]


def test_a_deleted_pod_does_not_complete(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    cluster.at(5.0).simulator.pod_changed("default/p", pod(), None)
    assert cluster.at(50.0).finished == []


def test_a_pod_deleted_at_the_moment_it_completes_is_reported_once(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    cluster.now_s = 10.0
    cluster.simulator.pod_changed("default/p", pod(), None)
    assert len(cluster.at(50.0).finished) == 1


def test_a_deleted_node_loses_its_jobs_and_its_energy_is_kept(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod(work_s=100.0))
    cluster.at(10.0).simulator.node_changed("n1", node(), None)
    assert cluster.at(200.0).finished == []
    assert cluster.simulator.read("n1") is None
    assert sum(cluster.simulator.energy.joules.values()) == pytest.approx((500.0 + 160.0) * 10)


def test_a_control_slows_the_pod_and_an_unknown_node_has_none(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    request = ControlRequest(Action.CPU_CAP, 100.0)
    assert cluster.simulator.control("n1", request).controls.cpu_cap_watts == 100.0
    assert cluster.simulator.control("n2", request) is None
    assert [done.completion.completed_s for done in cluster.at(30.0).finished] == [pytest.approx(20.0)]
    assert cluster.simulator.work[WorkloadClass.STANDARD].mean_slowdown == pytest.approx(2.0)


def test_work_is_accounted_to_the_class_of_the_pod(cluster):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod(**{WORKLOAD_CLASS: "performance"}))
    cluster.at(30.0)
    assert cluster.simulator.work[WorkloadClass.PERFORMANCE].jobs == 1
    assert cluster.simulator.work[WorkloadClass.STANDARD].jobs == 0


def test_energy_is_accounted_to_the_class_of_the_node_when_it_was_drawn(cluster):
    fast = Node(name=NodeName("n1"), labels={POWER_PROFILE: "performance"})
    slow = Node(name=NodeName("n1"), labels={POWER_PROFILE: "eco"})
    cluster.simulator.node_changed("n1", None, fast)
    cluster.at(10.0).simulator.node_changed("n1", fast, slow)
    list(cluster.at(40.0).simulator.read_all())
    joules = cluster.simulator.energy.joules
    assert joules["performance"] == pytest.approx(2600.0)
    assert joules["eco"] == pytest.approx(7800.0)
    assert joules["draining"] == joules["unknown"] == 0.0


def test_a_label_change_does_not_disturb_the_work():
    cluster = Cluster()
    cluster.simulator = Simulator(
        clock=lambda: cluster.now_s, hardware_of=lambda _node: CPU_NODE, on_finished=cluster.finished.append
    )
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod())
    cluster.at(5.0).simulator.node_changed("n1", node(), node(zone="a"))
    assert [done.completion.completed_s for done in cluster.at(30.0).finished] == [10.0]


@pytest.mark.parametrize("written", ["soon", "-1", "nan", "inf"])
def test_an_invalid_duration_counts_as_absent(cluster, written):
    cluster.simulator.node_changed("n1", None, node())
    cluster.simulator.pod_changed("default/p", None, pod(work_s=written))
    assert cluster.at(1e6).finished == []
    assert cluster.simulator.read("n1").point.cpu_watts == 500.0


def test_joules_of_the_state_belong_to_its_simulated_seconds():
    seconds = itertools.accumulate(itertools.count())  # the clock goes on while a state is read, each time further
    simulator = Simulator(
        clock=lambda: float(next(seconds)), hardware_of=lambda _node: GPU_NODE, on_finished=lambda _done: None
    )
    simulator.node_changed("n1", None, node())
    first, second = (cluster_state(simulator, speed=1.0) for _ in range(2))
    drawn = second["nodes"]["n1"]["energyJoules"] - first["nodes"]["n1"]["energyJoules"]
    assert drawn == pytest.approx(first["watts"] * (second["simulatedSeconds"] - first["simulatedSeconds"]))
