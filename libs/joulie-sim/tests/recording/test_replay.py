"""What a simulation is given of a recording."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.placement import PlacementRequests
from joulie_sim.recording.lines import FORMAT, GapLine, PodBegin, PodEnd, PodLine, StartLine
from joulie_sim.recording.reading import Recording
from joulie_sim.recording.replay import AssumedUse, replay_recording

END_S = 3600.0
START = StartLine(format=FORMAT, started_at="2026-01-01T00:00:00Z", version="1", names_kept=False, under_joulie=False)


def node(name, gpus=0, gpu_model=None, cpu="AMD-EPYC-7763"):
    labels = {"joulie.io/hw.cpu-model": cpu, "joulie.io/hw.cpu-sockets": "2"}
    offered = {"cpu": "128", "memory": "256Gi", "pods": "110"}
    if gpus:
        labels |= {"nvidia.com/gpu.product": gpu_model}
        offered |= {"nvidia.com/gpu": str(gpus)}
    return Node(NodeName(name), labels=labels, allocatable=offered, capacity=offered)


def pod(**changes):
    fields = {
        "id": "1",
        "name": "p",
        "owner": "Job",
        "workload_class": WorkloadClass.STANDARD,
        "cpu_milli": 4000,
        "memory_mib": 1024,
        "gpus": 0,
        "gpu_resource": "",
        "gpu_model": None,
        "claims": False,
        "constrained": False,
        "node": "n1",
        "begin": PodBegin.SEEN,
        "end": PodEnd.ENDED,
        "arrives_s": 60.0,
        "bound_s": 70.0,
        "started_s": 72.0,
        "ended_s": 170.0,
        "seen_s": 170.0,
    }
    return PodLine(**(fields | changes))


def replayed(*pods, nodes=None, use=None, **changes):
    fields = {"gaps": (), "node_changes": (), "ended": True, "start": START} | changes
    recording = Recording(nodes=nodes or (node("n1"),), pods=pods, end_s=END_S, **fields)
    return replay_recording(recording, use or AssumedUse())


def test_a_pod_arrives_when_it_was_created_and_works_while_it_was_bound() -> None:
    (item,) = replayed(pod(), use=AssumedUse(cpu=0.3)).items
    assert (item.arrives_s, item.work_s, item.cpu_milli, item.cpu_utilization) == (60.0, 100.0, 4000, 0.3)


def test_time_on_a_fast_model_is_more_work() -> None:
    nodes = (node("n1", cpu="AMD-EPYC-7543"), node("n2", gpus=2, gpu_model="NVIDIA-H100-80GB-HBM3"))
    gpu_pod = pod(node="n2", gpus=1, gpu_resource="nvidia.com/gpu", gpu_model="NVIDIA H100 SXM")
    items = replayed(pod(), gpu_pod, pod(node="not recorded"), nodes=nodes).items
    assert sorted(item.work_s for item in items) == pytest.approx([100.0, 132.0, 195.0])


@pytest.mark.parametrize(
    ("changes", "arrives_s", "work_s"),
    [
        ({"arrives_s": -500.0, "bound_s": -490.0, "ended_s": 90.0}, 0.0, 90.0),
        ({"arrives_s": -500.0, "bound_s": 20.0, "ended_s": 90.0}, 0.0, 70.0),
        ({"arrives_s": None, "bound_s": 20.0, "ended_s": 90.0}, 20.0, 70.0),
        ({"end": PodEnd.OPEN, "ended_s": None}, 60.0, END_S - 70.0),
        ({"end": PodEnd.UNKNOWN, "ended_s": None, "seen_s": 100.0}, 60.0, 30.0),
        ({"bound_s": None}, 60.0, 98.0),
        ({"ended_s": 70.0}, 60.0, 1.0),
    ],
    ids=["bound before", "created before", "unknown arrival", "still running", "ended unseen", "started", "short"],
)
def test_only_the_recorded_part_of_a_pod_is_work(changes, arrives_s, work_s) -> None:
    (item,) = replayed(pod(**changes)).items
    assert (item.arrives_s, item.work_s) == (arrives_s, work_s)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"node": None, "bound_s": None}, "never bound"),
        ({"bound_s": None, "started_s": None}, "unknown time"),
        ({"claims": True}, "claims devices"),
        ({"gpus": 1, "gpu_resource": "nvidia.com/mig-1g.5gb", "gpu_model": "NVIDIA-A100"}, "parts of GPUs"),
        ({"gpus": 1, "gpu_resource": "nvidia.com/gpu"}, "unknown model"),
    ],
)
def test_pods_that_cannot_be_simulated_are_left_out_and_counted(changes, reason) -> None:
    made = replayed(pod(**changes), pod(id="2"))
    assert len(made.items) == 1
    assert any(note.startswith("left out: 1 ") and reason in note for note in made.notes)


def test_pods_with_gpus_stay_on_the_model_that_they_ran_on() -> None:
    nodes = (node("a", 4, "NVIDIA-A10"), node("h", 8, "NVIDIA-H100-80GB-HBM3"))
    (model,) = {
        view.view.gpu.model for view in machines_of(nodes[1:], Inventory.load()).groups if view.view.gpu is not None
    }
    made = replayed(pod(gpus=2, gpu_resource="nvidia.com/gpu", gpu_model=model, node="h"), nodes=nodes)
    machines = machines_of(made.nodes, Inventory.load())
    (request,) = PlacementRequests(Jobs.of(made.items), machines.gpu_resources).requests
    offered = dict(zip(machines.names, machines.gpus[request.gpu_row], strict=True))
    assert offered == {"a": 0, "h": 8}
    assert [group.hardware.gpu.count for group in machines.groups] == [4, 8]


def test_pods_that_belong_to_a_node_are_taken_off_what_it_offers() -> None:
    half = {"owner": "DaemonSet", "arrives_s": 0.0, "bound_s": 0.0, "ended_s": END_S / 2}
    made = replayed(pod(**half), pod(id="2", owner="Node", end=PodEnd.OPEN, arrives_s=-9.0, bound_s=-9.0))
    assert made.items == ()
    offered = machines_of(made.nodes, Inventory.load()).allocatable[:, 0]
    assert offered[0] == 128_000 - 2000 - 4000
    assert offered[1] == (256 * 1024 - 512 - 1024) * 1024**2


def test_what_a_recording_does_not_show_is_stated() -> None:
    made = replayed(
        pod(constrained=True),
        gaps=(GapLine(resource="pods", from_s=10.0, to_s=52.0),),
        ended=False,
        start=StartLine(
            format=FORMAT, started_at="2026-01-01T00:00:00Z", version="1", names_kept=False, under_joulie=True
        ),
    )
    notes = "\n".join(made.notes)
    for part in ("1 pods were restricted", "1 gaps of together 42 s", "killed", "caps cost", "60 % of the CPUs"):
        assert part in notes
