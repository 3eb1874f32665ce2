"""What the node agent tells the resource manager about how much longer pods may run."""

import pytest

from joulie_containers.node_agent import consents
from joulie_containers.node_agent.consents import PodConsentsWatch
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.labels import MAX_SLOWDOWN, MIRROR, POWER_PROFILE
from joulie_testing.api import make_pod


def namespace(name, slowdown=None):
    annotations = {} if slowdown is None else {MAX_SLOWDOWN: slowdown}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}


@pytest.fixture
def watching(stage):
    """Let the node agent of the stage tell consents."""

    def watch(default="0%", *, is_consent=False):
        stage.consents = PodConsentsWatch(
            stage.client, "n1", default=AllowedSlowdown(default), default_is_consent=is_consent
        )
        return stage

    return watch


async def told(stage, **expected):
    """Wait until of each pod is told what it allows by whom, and return the last call."""

    def last():
        calls = stage.manager.consents
        return {name: (each.allowed, each.source, each.consents) for name, each in calls[-1].items()} if calls else None

    wanted = {f"ml/{name}": each for name, each in expected.items()}
    try:
        await stage.manager.until(lambda: last() == wanted)
    except TimeoutError:
        pytest.fail(f"told was {last()}, not {wanted}")
    return stage.manager.consents[-1]


def put(stage, name, *, node="n1", slowdown=None, **pod):
    annotations = {**pod.pop("annotations", {}), **({} if slowdown is None else {MAX_SLOWDOWN: slowdown})}
    stage.api.put(make_pod(name, "ml", node=node, annotations=annotations, **pod))


async def test_each_pod_of_the_node_is_told_by_its_own_word_or_its_namespaces_and_by_its_class(watching):
    stage = watching()
    stage.api.put(namespace("ml", "25%"))
    put(stage, "own", slowdown="10%")
    put(stage, "plain")
    put(stage, "fast", workload_class="performance")
    put(stage, "placed", slowdown="50%", workload_class="standard", node_selector={POWER_PROFILE: "performance"})
    put(stage, "odd", slowdown="50%", workload_class="quick")
    put(stage, "static", annotations={MIRROR: "0123456789abcdef"})
    put(stage, "ended", phase="Succeeded")
    put(stage, "elsewhere", node="n2")
    async with stage.agent():
        call = await told(
            stage,
            own=("10%", "pod", True),
            plain=("25%", "namespace", True),
            fast=("0%", "class", False),
            placed=("0%", "class", False),
            odd=("", "", False),
            static=("25%", "namespace", True),
        )
    uid = stage.api.get("Pod", "own", "ml")["metadata"]["uid"]
    assert call["ml/own"] == pb.PodConsent(
        namespace="ml", pod="own", pod_uid=uid, allowed="10%", source="pod", consents=True
    )
    # That of its cgroup, which the container runtime has.
    assert call["ml/static"].pod_uid == "0123456789abcdef"


async def test_a_changed_namespace_is_told_at_once(watching):
    stage = watching()
    stage.api.put(namespace("ml", "25%"))
    put(stage, "plain")
    async with stage.agent():
        await told(stage, plain=("25%", "namespace", True))
        stage.api.put(namespace("ml"))
        await told(stage, plain=("0%", "cluster", False))
        put(stage, "later", slowdown="50%")
        await told(stage, plain=("0%", "cluster", False), later=("50%", "pod", True))
        stage.api.remove("Pod", "plain", "ml")
        await told(stage, later=("50%", "pod", True))


@pytest.mark.parametrize("is_consent", [False, True])
async def test_the_default_of_the_cluster_is_consent_only_if_an_administrator_says_so(watching, is_consent):
    stage = watching("25%", is_consent=is_consent)
    stage.api.put(namespace("ml"))
    put(stage, "plain")
    put(stage, "own", slowdown="10%")
    async with stage.agent():
        await told(stage, plain=("25%", "cluster", is_consent), own=("10%", "pod", True))


async def test_a_namespace_that_was_not_seen_allows_nothing(watching):
    stage = watching("25%", is_consent=True)
    put(stage, "plain")
    async with stage.agent():
        await told(stage, plain=("0%", "namespace", True))


async def test_no_text_of_an_annotation_is_told(watching):
    stage = watching()
    stage.api.put(namespace("ml", "9" * 100_000))
    put(stage, "plain")
    put(stage, "own", slowdown="x" * 100_000)
    async with stage.agent():
        call = await told(stage, plain=("0%", "namespace", True), own=("0%", "pod", True))
    assert sum(each.ByteSize() for each in call.values()) < 200


async def test_what_has_not_changed_is_told_again_and_to_a_new_process_at_once(watching, monkeypatch):
    monkeypatch.setattr(consents, "TOLD_EVERY_S", 0.01)
    stage = watching()
    stage.api.put(namespace("ml", "25%"))
    put(stage, "plain")
    async with stage.agent():
        await stage.manager.until(lambda: len(stage.manager.consents) >= 3)
        monkeypatch.setattr(consents, "TOLD_EVERY_S", 3600.0)
        await stage.manager.restart()
        stage.manager.consents.clear()
        await told(stage, plain=("25%", "namespace", True))


async def test_nothing_is_told_while_the_pods_are_not_known(watching, monkeypatch):
    monkeypatch.setattr(consents, "TOLD_EVERY_S", 0.01)
    stage = watching()
    stage.api.put(namespace("ml", "25%"))
    put(stage, "plain")
    async with stage.agent():
        await told(stage, plain=("25%", "namespace", True))
        turn = stage.consents.turn
        monkeypatch.setattr(consents, "PODS_TOLERANCE_S", -1e6)
        calls = len(stage.manager.consents)
        await stage.manager.until(lambda: stage.consents.turn >= turn + 20)
        # One may have been on its way.
        assert len(stage.manager.consents) <= calls + 1
        monkeypatch.setattr(consents, "PODS_TOLERANCE_S", 30.0)
        await stage.manager.until(lambda: len(stage.manager.consents) > calls + 1)


async def test_a_pod_that_cannot_be_read_says_nothing_and_stops_no_other(watching):
    stage = watching()
    stage.api.put(namespace("ml", "25%"))
    put(stage, "bad")
    put(stage, "plain")
    broken = stage.api.get("Pod", "bad", "ml")
    broken["spec"]["nodeSelector"] = ["x"]
    stage.api.put(broken)
    async with stage.agent():
        await told(stage, plain=("25%", "namespace", True))


async def test_nothing_is_told_where_that_is_off(stage):
    stage.api.put(namespace("ml", "25%"))
    put(stage, "plain")
    async with stage.agent():
        await stage.manager.until(lambda: stage.manager.configs)
    assert stage.manager.consents == []
    assert not [each for each in stage.api.requests if each.path.endswith(("/pods", "/namespaces"))]
