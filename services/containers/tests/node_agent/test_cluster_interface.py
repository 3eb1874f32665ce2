"""Labels, annotations, taints, capacity and Events, through the socket of the node agent."""

import pytest

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ResourceApiError
from joulie_testing.api import Respond

NO_SCHEDULE = pb.Taint(key="joulie.io/eco", value="yes", effect="NoSchedule")


def node(stage):
    return stage.api.get("Node", "n1")


def taints(stage):
    return node(stage).get("spec", {}).get("taints", [])


async def test_labels_are_set_and_removed_and_others_stay(stage, cluster_client):
    stage.api.patch("Node", "n1", {"metadata": {"labels": {"theirs": "x"}}})
    await cluster_client.set_labels({"joulie.io/a": "1", "joulie.io/empty": ""})
    await cluster_client.set_labels({"joulie.io/a": "2"})
    assert await cluster_client.labels() == {**node(stage)["metadata"]["labels"]}
    assert (
        node(stage)["metadata"]["labels"].items()
        >= {
            "theirs": "x",
            "joulie.io/a": "2",
            "joulie.io/empty": "",
        }.items()
    )
    await cluster_client.remove_labels(["joulie.io/a", "joulie.io/empty", "joulie.io/never-set"])
    assert "joulie.io/a" not in await cluster_client.labels()
    assert node(stage)["metadata"]["labels"]["theirs"] == "x"


async def test_annotations_are_set_and_removed(stage, cluster_client):
    await cluster_client.set_annotations({"joulie.io/note": 'any "text", with ~ and /'})
    assert (await cluster_client.annotations())["joulie.io/note"] == 'any "text", with ~ and /'
    await cluster_client.remove_annotations(["joulie.io/note"])
    assert "joulie.io/note" not in await cluster_client.annotations()


async def test_capacity_is_set_and_removed_and_that_of_the_kubelet_stays(stage, cluster_client):
    before = await cluster_client.capacity()
    await cluster_client.set_capacity({"example.com/part": "4"})
    assert await cluster_client.capacity() == before | {"example.com/part": "4"}
    await cluster_client.remove_capacity(["example.com/part"])
    assert await cluster_client.capacity() == before


async def test_taints_are_added_replaced_and_removed_and_others_stay_as_they_are(stage, cluster_client):
    theirs = {"key": "theirs", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    stage.api.patch("Node", "n1", {"spec": {"taints": [theirs]}})
    await cluster_client.set_taints([NO_SCHEDULE])
    assert taints(stage) == [theirs, {"key": "joulie.io/eco", "value": "yes", "effect": "NoSchedule"}]
    await cluster_client.set_taints([pb.Taint(key="joulie.io/eco", value="no", effect="NoSchedule")])
    assert taints(stage) == [theirs, {"key": "joulie.io/eco", "value": "no", "effect": "NoSchedule"}]
    await cluster_client.remove_taints([NO_SCHEDULE])
    assert len(taints(stage)) == 2, "a taint of another value is another taint"
    await cluster_client.remove_taints([pb.Taint(key="joulie.io/eco", value="no", effect="NoSchedule")])
    assert taints(stage) == [theirs]


async def test_several_taints_are_removed_at_once(stage, cluster_client):
    all_effects = [pb.Taint(key="k", effect=each) for each in ("NoSchedule", "PreferNoSchedule", "NoExecute")]
    await cluster_client.set_taints(all_effects)
    assert len(await cluster_client.taints()) == 3
    await cluster_client.remove_taints([all_effects[0], all_effects[2]])
    assert list(await cluster_client.taints()) == [all_effects[1]]


async def test_a_taint_that_is_there_is_not_written_again(stage, cluster_client):
    await cluster_client.set_taints([NO_SCHEDULE])
    version = node(stage)["metadata"]["resourceVersion"]
    await cluster_client.set_taints([NO_SCHEDULE])
    assert node(stage)["metadata"]["resourceVersion"] == version


async def test_taints_survive_a_concurrent_writer(stage, cluster_client):
    stage.api.faults.add(Respond(409), verb="patch", path="/nodes/n1", times=3)
    await cluster_client.set_taints([NO_SCHEDULE])
    assert len(taints(stage)) == 1


async def test_a_change_between_reading_and_writing_taints_is_not_lost(stage, cluster_client, monkeypatch):
    client, theirs = stage.client, {"key": "theirs", "effect": "NoExecute"}
    get = client.get

    async def and_then_another_writes(*args, **kwargs):
        raw = await get(*args, **kwargs)
        monkeypatch.setattr(client, "get", get)
        stage.api.patch("Node", "n1", {"spec": {"taints": [theirs]}})
        return raw

    monkeypatch.setattr(client, "get", and_then_another_writes)
    await cluster_client.set_taints([NO_SCHEDULE])
    assert [each["key"] for each in taints(stage)] == ["theirs", "joulie.io/eco"]


async def test_taints_that_always_conflict_fail_with_the_reason(stage, cluster_client):
    stage.api.faults.add(Respond(409), verb="patch", path="/nodes/n1", times=None)
    with pytest.raises(ResourceApiError, match="changed during each of 10 attempts"):
        await cluster_client.set_taints([NO_SCHEDULE])


async def test_a_refusal_of_the_api_server_reaches_the_resource_manager(stage, cluster_client):
    stage.api.faults.add(Respond(403), path="/nodes/n1", times=None)
    for change in (
        cluster_client.labels(),
        cluster_client.set_labels({"x": "y"}),
        cluster_client.set_taints([NO_SCHEDULE]),
        cluster_client.set_capacity({"example.com/part": "4"}),
    ):
        with pytest.raises(ResourceApiError, match="403"):
            await change


@pytest.mark.parametrize(
    ("method", "argument", "error"),
    [
        ("set_labels", {"joulie.io/x": "two words"}, "'two words'.*letters, digits"),
        ("set_labels", {"joulie.io/x": "v" * 64}, "up to 63"),
        ("set_labels", {"joulie.io/x/y": "v"}, "before the slash"),
        ("set_labels", {"/x": "v"}, "before the slash"),
        ("set_labels", {"joulie.io/": "v"}, "a name has 1 to 63"),
        ("set_labels", {"x": "a b", "y": "c d"}, r"'a b'.*'c d'"),
        ("remove_labels", ["-x"], "a name has 1 to 63"),
        ("set_annotations", {"UPPER.io/x": "v"}, "lower case"),
        ("set_annotations", {"x": "v" * 262144}, "262145 bytes are more than 262144"),
        ("set_taints", [pb.Taint(key="x", value="a b", effect="NoExecute")], "'a b'"),
        ("set_taints", [pb.Taint(key="x", effect="Sometimes")], "not one of NoSchedule, PreferNoSchedule, NoExecute"),
        ("set_capacity", {"cpu": "4"}, "the kubelet reports it"),
        ("set_capacity", {"memory": "4"}, "the kubelet reports it"),
        ("set_capacity", {"hugepages-2Mi": "4"}, "the kubelet reports it"),
        ("set_capacity", {"part": "4"}, "with a dot in the domain"),
        ("set_capacity", {"example/part": "4"}, "with a dot in the domain"),
        ("set_capacity", {"example.part": "4"}, "with a dot in the domain"),
        ("set_capacity", {"node.kubernetes.io/part": "4"}, "reserved"),
        ("set_capacity", {"example.com/part": "0.5"}, "not a whole number"),
        ("set_capacity", {"example.com/part": "-1"}, "not a whole number"),
        ("set_capacity", {"example.com/part": "many"}, "not a whole number"),
        ("remove_capacity", ["cpu"], "the kubelet reports it"),
    ],
)
async def test_a_value_that_kubernetes_does_not_take_is_refused_before_any_request(
    stage, cluster_client, method, argument, error
):
    with pytest.raises(ResourceApiError, match=error):
        await getattr(cluster_client, method)(argument)
    assert not [each for each in stage.api.requests if "/nodes" in each.path]


async def test_a_warning_becomes_an_event_on_the_pod_once(stage, cluster_client):
    warning = pb.PodEvent(namespace="ns", pod="p", pod_uid="u1", reason="InvalidAnnotation", message="what is wrong")
    other = pb.PodEvent(namespace="ns", pod="p", pod_uid="u2", reason="InvalidAnnotation", message="what is wrong")
    await cluster_client.record_events([warning, warning, pb.PodEvent(message="about no pod")])
    await cluster_client.record_events([warning, other])
    await stage.api.wait_for(lambda: stage.api.count("Event") == 2)
    event, second = sorted(stage.api.objects("Event"), key=lambda each: each["involvedObject"]["uid"])
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "ns",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "InvalidAnnotation", "what is wrong")
    assert event["metadata"]["namespace"] == "ns"
    assert second["involvedObject"]["uid"] == "u2"


async def test_an_event_that_cannot_be_written_does_not_stop_the_next(stage, cluster_client):
    stage.api.faults.add(Respond(500), verb="create", path="/events")
    for number in range(2):
        await cluster_client.record_events(
            [pb.PodEvent(namespace="ns", pod="p", reason="R", message=f"message {number}")]
        )
    await stage.api.wait_for(lambda: stage.api.count("Event") == 1)


async def test_health_names_the_watches_that_are_stale(stage, cluster_client):
    assert await cluster_client.health() is None
    for reflector in stage.agents[0].reflectors:
        reflector.synced.clear()
    assert "watch of templatepolicies.joulie.io: first list not complete" in await cluster_client.health()
