"""Recording of an API server: what is requested of it, what is written, and what an outage leaves."""

import json

import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.recording.files import RecordingExistsError, RecordingFiles
from joulie_sim.recording.lines import PodBegin, PodEnd
from joulie_sim.recording.node_recorder import recorded_labels
from joulie_sim.recording.reading import RecordingError, read_recording
from joulie_sim.recording.recorder import READ, RecorderError, role_manifest
from joulie_testing.api.builders import make_node, make_pod
from joulie_testing.api.faults import Respond

CREATED = "2023-11-14T22:13:20Z"  # START_S


def put_pod(api, name, **options):
    """Put a pod of a Job; `node` is where it runs."""
    made = make_pod(name, **options)
    made["metadata"] |= {"ownerReferences": [{"kind": "Job", "name": "secret-job", "controller": True}]}
    return api.put(made)


def finish(api, name, at):
    state = {"terminated": {"startedAt": CREATED, "finishedAt": at}}
    api.patch("Pod", name, {"status": {"phase": "Succeeded", "containerStatuses": [{"state": state}]}}, "default")


def pods_of(directory):
    return {line.name: line for line in read_recording(directory).pods}


async def test_pods_are_recorded_from_before_the_start_to_after_the_end(fake_api, record, clock, tmp_path) -> None:
    fake_api.put(make_node("n1", gpus=4, gpu_model="NVIDIA-A10"))
    put_pod(fake_api, "old", node="n1", cpu="2", memory="1Gi")
    async with record(keep_names=True) as recorder:
        put_pod(fake_api, "new", cpu="500m", gpu=2, workload_class="performance")
        await recorder.until(lambda progress: progress.waiting == 1)
        clock.now_s += 10.0
        fake_api.patch("Pod", "new", {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, "default")
        put_pod(fake_api, "late")
        await recorder.until(lambda progress: (progress.running, progress.waiting) == (2, 1))
        finish(fake_api, "new", "2023-11-14T22:13:50Z")
        await recorder.until(lambda progress: progress.running == 1)
        clock.now_s += 90.0
    recording = read_recording(tmp_path / "recording")
    assert (recording.ended, recording.end_s, recording.gaps) == (True, 100.0, ())
    pods = pods_of(tmp_path / "recording")
    old, new, late = (pods[f"default/{name}"] for name in ("old", "new", "late"))
    assert (old.begin, old.end, old.cpu_milli, old.memory_mib) == (PodBegin.BEFORE, PodEnd.OPEN, 2000, 1024)
    assert (new.begin, new.end, new.bound_s, new.ended_s) == (PodBegin.SEEN, PodEnd.ENDED, 10.0, 30.0)
    assert (new.gpus, new.gpu_model, new.owner, new.workload_class) == (2, "NVIDIA A10", "Job", "performance")
    assert (late.node, late.end, late.bound_s) == (None, PodEnd.OPEN, None)


async def test_no_name_is_written_unless_names_are_kept(fake_api, record, tmp_path) -> None:
    fake_api.put(make_node("secret-node", labels={"team": "secret-team", "nvidia.com/gpu.product": "NVIDIA-A10"}))
    put_pod(fake_api, "secret-pod", node="secret-node", namespace="secret-space", labels={"app": "secret-app"})
    async with record() as recorder:
        await recorder.until(lambda progress: progress.running == 1)
    files = {path.name: path.read_text() for path in (tmp_path / "recording").iterdir()}
    assert set(files) == {"recording.jsonl", "nodes.jsonl", "pods.jsonl"}
    assert "NVIDIA-A10" in files["nodes.jsonl"]
    assert "secret" not in "".join(files.values())


async def test_only_what_the_printed_role_permits_is_requested(fake_api, record) -> None:
    async with record() as recorder:
        await recorder.until(lambda progress: fake_api.watches() == 2)
    (rule,) = json.loads(role_manifest())["rules"]
    assert (
        rule
        == READ.rule()
        == {
            "apiGroups": [""],
            "resources": ["nodes", "pods"],
            "verbs": ["get", "list", "watch"],
        }
    )
    assert {(request.verb, request.path) for request in fake_api.requests} == {
        (verb, f"/api/v1/{plural}") for verb in ("list", "watch") for plural in ("nodes", "pods")
    }


async def test_an_outage_is_a_gap_and_ends_within_it_are_unknown(fake_api, record, clock, tmp_path) -> None:
    fake_api.put(make_node("n1"))
    for name in ("deleted", "finished", "stays"):
        put_pod(fake_api, name, node="n1")
    async with record(keep_names=True) as recorder:
        await recorder.until(lambda progress: progress.running == 3 and fake_api.watches() == 2)
        await fake_api.stop()
        await recorder.until(lambda progress: progress.problem is not None)
        clock.now_s += 40.0
        fake_api.remove("Pod", "deleted", "default")
        finish(fake_api, "finished", "2023-11-14T22:13:50Z")
        await fake_api.start()
        await recorder.until(lambda progress: progress.problem is None and progress.running == 1)
        await recorder.until(lambda progress: progress.gaps == 2)
        clock.now_s += 5.0
    recording = read_recording(tmp_path / "recording")
    assert {gap.resource: (gap.from_s, gap.to_s) for gap in recording.gaps} == {"nodes": (0, 40.0), "pods": (0, 40.0)}
    pods = pods_of(tmp_path / "recording")
    deleted, finished, stays = (pods[f"default/{name}"] for name in ("deleted", "finished", "stays"))
    assert (deleted.end, deleted.ended_s, deleted.seen_s) == (PodEnd.UNKNOWN, None, 0.0)
    assert (finished.end, finished.ended_s) == (PodEnd.ENDED, 30.0)
    assert stays.end is PodEnd.OPEN


async def test_a_gap_at_the_end_is_written_and_not_part_of_the_recording(fake_api, record, clock, tmp_path) -> None:
    fake_api.put(make_node("n1"))
    async with record() as recorder:
        await recorder.until(lambda progress: fake_api.watches() == 2)
        await fake_api.stop()
        await recorder.until(lambda progress: progress.problem is not None)
        clock.now_s += 40.0
    recording = read_recording(tmp_path / "recording")
    assert [(gap.resource, gap.to_s) for gap in recording.gaps] == [("nodes", 40.0), ("pods", 40.0)]
    assert recording.end_s == 0.0


async def test_a_node_that_offers_less_for_a_while_counts_with_the_most(fake_api, record, tmp_path) -> None:
    fake_api.put(make_node("n1", gpus=8))
    async with record(keep_names=True) as recorder:
        for gpus in ("0", "8"):
            fake_api.patch("Node", "n1", {"status": {"allocatable": {"nvidia.com/gpu": gpus}}})
        fake_api.put(make_node("n2"))
        await recorder.until(lambda progress: progress.nodes == 2)
        fake_api.patch("Node", "n1", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}})
        fake_api.remove("Node", "n2")
        await recorder.until(lambda progress: progress.nodes == 1)
    recording = read_recording(tmp_path / "recording")
    assert {node.name: node.allocatable.get("nvidia.com/gpu") for node in recording.nodes} == {"n1": "8", "n2": None}
    assert [(change.node, change.removed) for change in recording.node_changes] == [("n2", False), ("n2", True)]


def test_recorded_labels_describe_the_same_hardware() -> None:
    inventory = Inventory.load()
    for node in nodes_of_classes(scale(default_node_classes(), 40)):
        kept = type(node)(
            node.name, labels=recorded_labels(node.labels), allocatable=node.allocatable, capacity=node.capacity
        )
        assert view_from_node(kept, inventory) == view_from_node(node, inventory)


async def test_a_refused_list_ends_the_recording_at_its_start_with_the_reason(fake_api, record) -> None:
    fake_api.faults.add(Respond(403, message="pods is forbidden"), verb="list", path="/pods", times=None)
    with pytest.RaisesGroup(pytest.RaisesExc(RecorderError, match="pods cannot be read: .*forbidden")):
        async with record():
            pass


def test_a_directory_that_is_not_empty_is_not_used(tmp_path) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(RecordingExistsError, match="is not empty"):
        RecordingFiles(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


async def test_a_recording_that_was_killed_is_read_without_its_half_line(fake_api, record, tmp_path) -> None:
    fake_api.put(make_node("n1"))
    put_pod(fake_api, "p", node="n1")
    async with record() as recorder:
        await recorder.until(lambda progress: progress.running == 1)
    directory = tmp_path / "recording"
    log, pods = directory / "recording.jsonl", directory / "pods.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]) + '{"type":"contact","at_s":60.0}\n{"ty')
    pods.write_text(pods.read_text() + '{"id":"hal')
    recording = read_recording(directory)
    assert (recording.ended, recording.end_s, len(recording.pods)) == (False, 60.0, 1)


async def test_a_wrong_line_is_named_with_its_field(fake_api, record, tmp_path) -> None:
    fake_api.put(make_node("n1"))
    put_pod(fake_api, "p", node="n1", cpu="1")
    async with record() as recorder:
        await recorder.until(lambda progress: progress.running == 1)
    pods = tmp_path / "recording" / "pods.jsonl"
    pods.write_text(pods.read_text().replace('"cpu_milli":1000', '"cpu_milli":"1"'))
    with pytest.raises(RecordingError, match=r"pods\.jsonl, line 1: .*cpu_milli"):
        read_recording(tmp_path / "recording")
