"""A real kube-scheduler judges which pods wake a node: it places those that did, and none of those that did not."""

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.sleep_site import CORES, NODE, OTHERS, SleepSite, sleep_site
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_SLEEP_POLICIES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from joulie_devcluster.fixtures import Starter
from joulie_testing.api.builders import make_pod

pytestmark = pytest.mark.e2e

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
async def site(start_cluster: Starter, tmp_path: Path):
    async with sleep_site(start_cluster, tmp_path / "bmc") as found:
        for node in (NODE, *OTHERS):
            await found.view.label(node, {_ZONE: "one"})
        await found.prove()
        await found.put_policy()
        await found.reaches("asleep")
        yield found


def _selected(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


async def _create(site: SleepSite, name: str, *, cpu: int = 1, **spec: Any) -> None:
    app = name.partition("-")[0]
    body = make_pod(name, site.view.namespace, cpu=cpu, labels={"app": app})
    body["spec"] |= spec
    await site.view.client.create(PODS, body, site.view.namespace)


def _apart(app: str, key: str) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [_selected(app, key)]}}}


def _mounting(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


async def _put_local_volume(site: SleepSite, name: str, node: str) -> None:
    """Put a local volume on a node, and a claim that is bound to it."""
    namespace = site.view.namespace
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    requirement = {"key": _HOST, "operator": "In", "values": [node]}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "claimRef": {"namespace": namespace, "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
    }
    claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    for resource, spec, where in (
        (PERSISTENT_VOLUMES, volume, None),
        (PERSISTENT_VOLUME_CLAIMS, claim, namespace),
    ):
        body = {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
        await site.view.client.create(resource, body, where)


async def _refused(site: SleepSite, *names: str) -> None:
    """Wait until kube-scheduler has found no node for pods."""

    async def said() -> None:
        pods = await site.view.pods()
        for name in names:
            conditions = {each["type"]: each for each in pods[name]["status"].get("conditions", ())}
            assert conditions.get("PodScheduled", {}).get("reason") == "Unschedulable", (name, conditions)

    await eventually(said, within_s=20)


async def _decided_twice(site: SleepSite) -> None:
    """Wait until the operator has decided twice; the second decision is about all that was seen before the first."""
    for seconds in (2, 3):
        await site.change_policy(idleSeconds=seconds)
        policy = (await site.view.objects(NODE_SLEEP_POLICIES))["night"]
        generation = policy["metadata"]["generation"]

        async def followed(generation: int = generation) -> None:
            assert (await site.status())["observedGeneration"] == generation

        await eventually(followed, within_s=20)


async def test_a_pod_that_may_not_be_beside_the_others_wakes_a_node_and_is_placed_there(site: SleepSite) -> None:
    names = [f"apart-{number}" for number in range(3)]
    for name in names:
        await _create(site, name, **_apart("apart", _HOST))
    await eventually(lambda: site.view.placed(names), within_s=60)
    assert set((await site.view.placed(names)).values()) == {NODE, *OTHERS}


async def test_a_spread_over_nodes_wakes_the_node_that_it_needs(site: SleepSite) -> None:
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_selected("even", _HOST)}
    names = [f"even-{number}" for number in range(3)]
    for name in names:
        await _create(site, name, topologySpreadConstraints=[spread])
    await eventually(lambda: site.view.placed(names), within_s=60)
    assert set((await site.view.placed(names)).values()) == {NODE, *OTHERS}


async def test_a_pod_with_a_volume_on_a_sleeping_node_wakes_that_node(site: SleepSite) -> None:
    await _put_local_volume(site, "here", NODE)
    await _create(site, "data-0", **_mounting("here"))
    await eventually(lambda: site.view.placed(["data-0"]), within_s=60)
    assert await site.view.placed(["data-0"]) == {"data-0": NODE}


async def test_pods_that_kube_scheduler_would_not_place_wake_nothing(site: SleepSite) -> None:
    await _put_local_volume(site, "elsewhere", "no-such-node")
    named = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}
    hopeless = {
        "alone-1": _apart("alone", _ZONE),
        "beside-0": {"affinity": {"podAffinity": {_REQUIRED: [_selected("nothing", _ZONE)]}}},
        "claim-0": _mounting("missing"),
        "device-0": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]},
        "volume-0": _mounting("elsewhere"),
        "named-0": {"affinity": {"nodeAffinity": {_REQUIRED: named}}},
    }
    # Only the sleeping node has as much room as they request.
    await _create(site, "fill-0", cpu=CORES - 10)
    await _create(site, "fill-1", cpu=CORES - 10)
    await _create(site, "alone-0", **_apart("alone", _ZONE))
    await eventually(lambda: site.view.placed(["alone-0", "fill-0", "fill-1"]), within_s=20)
    for name, spec in hopeless.items():
        await _create(site, name, cpu=20, **spec)
    # kube-scheduler says nothing of a pod whose resource claim does not exist.
    await _refused(site, *(name for name in hopeless if name != "device-0"))
    await _decided_twice(site)
    assert await site.state() == "asleep"
    assert site.machine.server.power_state == "Off"
    assert set((await site.view.placements(hopeless)).values()) == {None}
    # kube-scheduler agrees: on the node that is awake none of them finds a place either.
    until = {"metadata": {"annotations": {"joulie.io/awake-until": "2100-01-01T00:00:00Z"}}}
    await site.view.client.merge_patch(NODES, NODE, until)
    await site.reaches("awake")
    await _create(site, "plain-0", nodeSelector={_HOST: NODE})
    await eventually(lambda: site.view.placed(["plain-0"]), within_s=20)
    assert set((await site.view.placements(hopeless)).values()) == {None}
