import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_sim.cli import main
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import read_node_list
from joulie_sim.workload.job_lines import read_job_lines
from joulie_sim.workload.load import offered_load
from joulie_sim.workload.openb import NodeGroup, capacity_of, densest, replay, scaled_groups
from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE, TraceError, TraceNode, read_nodes, read_pods

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,32000,262144,0,
n1,32000,262144,0,
n2,96000,393216,8,G2
"""
POD_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
PODS = f"""{POD_HEADER}
p0,12000,16384,1,1000,,LS,Running,0,1000,0
p1,6000,12288,1,460,,Guaranteed,Running,5000,5100,5010
p2,1000,1024,0,0,,BE,Succeeded,5100,5200,5110
p3,1000,1024,0,0,,Burstable,Failed,5200,9000,5200
p4,1000,1024,0,0,,BE,Pending,5201,9000,
"""


@pytest.fixture
def csv_file(tmp_path):
    def write(text):
        path = tmp_path / "list.csv"
        path.write_text(text)
        return path

    return write


def test_a_node_list_is_read(csv_file):
    nodes = read_nodes(csv_file(NODES))
    assert nodes[2] == TraceNode("n2", 96000, 393216, 8, "G2")
    assert len(nodes) == 3


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (NODES.replace("n1,32000", "n1,many"), ("line 3", "'cpu_milli'", "'many'")),
        (NODES.replace("n1,32000", "n1,-5"), ("line 3", "'cpu_milli'", "'-5'")),
        (NODES.replace("n1,32000", "n1,0"), ("line 3", "'cpu_milli'", "positive")),
        (NODES.replace("8,G2", "8,"), ("line 4", "'model'", "8 GPUs")),
        (NODES.replace("n0,32000,262144,0,", "n0,32000"), ("line 2", "'memory_mib'")),
        ("sn,cpu_milli\nn0,1\n", ("line 1", "memory_mib")),
        ("sn,cpu_milli,memory_mib,gpu,model\n", ("empty",)),
        ("", ("line 1", "no column sn")),
    ],
)
def test_a_bad_node_list_is_refused_with_line_field_and_value(csv_file, bad, expected):
    path = csv_file(bad)
    with pytest.raises(TraceError) as refusal:
        read_nodes(path)
    assert all(part in str(refusal.value) for part in (str(path), *expected))


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (PODS.replace("Guaranteed", "Gold"), ("line 3", "'qos'", "'Gold'", "LS, Guaranteed, Burstable, BE")),
        (PODS.replace("5000,5100", "5000,soon"), ("line 3", "'deletion_time'", "'soon'")),
        (PODS.replace("5000,5100", "5000,4000"), ("line 3", "'deletion_time'", "'4000'", "before")),
    ],
)
def test_a_bad_pod_list_is_refused_with_line_field_and_value(csv_file, bad, expected):
    path = csv_file(bad)
    with pytest.raises(TraceError) as refusal:
        read_pods(path)
    assert all(part in str(refusal.value) for part in expected)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"nothing\.csv: No such file"):
        read_nodes(tmp_path / "nothing.csv")


def test_every_class_of_nodes_survives_the_scale(csv_file):
    groups = scaled_groups(read_nodes(csv_file(NODES)), 0.1)
    assert groups == (NodeGroup("", 0, 32000, 262144, 1), NodeGroup("G2", 8, 96000, 393216, 1))


def test_the_densest_sequence_omits_pods_that_never_ran(csv_file):
    pods = read_pods(csv_file(PODS))
    assert [pod.name for pod in densest(pods, 3)] == ["p1", "p2", "p3"]
    assert len(densest(pods, 100)) == 4


def test_pods_become_items_with_class_whole_gpus_and_compressed_arrival(csv_file):
    groups = scaled_groups(read_nodes(csv_file(NODES)), 1.0)
    pods = densest(read_pods(csv_file(PODS)), 3)
    items = replay(pods, capacity=capacity_of(groups), window_s=60.0, load=0.5, longest_s=40.0)
    assert [item.arrives_s for item in items] == [0.0, 30.0, 60.0]
    assert [item.workload_class for item in items] == [
        WorkloadClass.PERFORMANCE,
        WorkloadClass.STANDARD,
        WorkloadClass.STANDARD,
    ]
    assert (items[0].gpus, items[0].gpu_utilization) == (1, 0.46)
    assert all(5.0 <= item.work_s <= 40.0 for item in items)


def test_the_published_trace_fits_a_tenth_of_its_cluster(public_data):
    nodes, pods = read_nodes(public_data(f"openb-2023/{NODE_FILE}")), read_pods(public_data(f"openb-2023/{POD_FILE}"))
    assert (len(nodes), len(pods)) == (1523, 8152)
    groups = scaled_groups(nodes, 0.1)
    assert len(groups) == 27
    assert 150 <= sum(group.count for group in groups) <= 170
    run = densest(pods, 900)
    items = replay(run, capacity=capacity_of(groups), window_s=240.0, load=0.6, longest_s=90.0)
    assert len(items) == 900
    assert offered_load(items, capacity_of(groups), 240.0) <= 0.6
    for item in items:
        assert any(
            item.gpus <= group.gpus and item.cpu_milli <= group.cpu_milli and item.memory_mib <= group.memory_mib
            for group in groups
        )


def test_a_list_with_gpus_and_sizes_of_its_own_can_be_simulated(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("model,sn,gpu,memory_mib,cpu_milli,rack\nB300,a,8,1048576,256000,r1\n,b,0,65536,12000,r2\n")
    machines = machines_of(read_node_list(path), Inventory.load())
    gpus = {group.hardware.gpu.model: group.hardware.gpu.count for group in machines.groups if group.hardware.gpu}
    assert list(gpus.values()) == [8]
    assert sorted(machines.allocatable[0]) == [12_000.0, 256_000.0]


def test_the_published_lists_are_imported_whole(public_data, tmp_path, capsys):
    nodes, pods = public_data(f"openb-2023/{NODE_FILE}"), public_data(f"openb-2023/{POD_FILE}")
    jobs, lines = tmp_path / "jobs.jsonl", tmp_path / "nodes.jsonl"
    written = ("--out", str(jobs), "--nodes-out", str(lines))
    assert main(["import", "openb", str(pods), "--nodes", str(nodes), *written]) == 0
    scheduled = sum(pod.scheduled_s is not None for pod in read_pods(pods))
    assert len(read_job_lines(jobs)) == scheduled
    machines = machines_of(read_node_list(lines), Inventory.load())
    assert len(machines) == len(read_nodes(nodes))
    assert machines.gpus.sum() == sum(node.gpus for node in read_nodes(nodes))
