"""What the decision about sleep asks the API server for, what it makes of the answers, and when it believes them."""

import asyncio
from types import SimpleNamespace

from services.operator.tests.sleep.sleep_objects import owned_pod, seen_bmc

from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_BMCS, NODES, PODS
from joulie_api.wire import decode_kind
from joulie_core.kinds import NodeBMC
from joulie_operator.sleep.nodes import read_node
from joulie_operator.sleep.pods import read_pod
from joulie_operator.sleep.watches import SleepWatches

NAMES = (
    "daemonsets.apps",
    "nodesleeppolicies.joulie.io",
    "persistentvolumeclaims",
    "persistentvolumes",
    "nodes",
    "pods",
    "nodebmcs.joulie.io",
)


def made(api_version, kind, name, **content):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def namespaced(body):
    body["metadata"]["namespace"] = "default"
    return body


def odd_pod(name):
    """Return a pod that cannot be read."""
    pod = owned_pod(name, "n1")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "lots"}}
    return pod


async def test_all_nodes_and_the_pods_that_have_not_ended_are_asked_for(world):
    asked = {
        (request.verb, request.path): request.query.get("fieldSelector")
        for request in world.api.requests
        if request.verb == "list"
    }
    paths = [
        "/api/v1/nodes",
        "/apis/apps/v1/daemonsets",
        "/apis/joulie.io/v1alpha1/nodesleeppolicies",
        "/apis/joulie.io/v1alpha1/nodebmcs",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
    ]
    active = {("list", "/api/v1/pods"): "status.phase!=Succeeded,status.phase!=Failed"}
    assert asked == {("list", path): None for path in paths} | active


async def test_every_kind_is_seen_by_its_key(world):
    world.add("n1", proven=False)
    world.policy("night")
    world.pod("web", "n1")
    world.api.put_all(
        [
            namespaced(made("apps/v1", "DaemonSet", "agent", spec={}, status={"desiredNumberScheduled": 1})),
            namespaced(made("v1", "PersistentVolumeClaim", "data", spec={"volumeName": "pv"})),
            made("v1", "PersistentVolume", "pv", spec={"local": {"path": "/d"}}),
        ]
    )
    async with asyncio.timeout(10):
        await world.until_seen(lambda seen: seen.volumes and seen.claims)
    await world.seen()
    seen = world.watches.seen()
    assert (seen.nodes["n1"].node.name, seen.pods["default/web"].node) == ("n1", "n1")
    assert seen.daemon_sets["default/agent"].rolling_out is True
    assert (seen.bmcs["n1"].model.spec.node_name, seen.policies["night"].name) == ("n1", "night")
    assert (seen.claims["default/data"].volume, seen.volumes["pv"].local) == ("pv", True)
    assert (seen.pods_unknown, seen.unread_bmcs) == (False, frozenset())


async def test_what_was_seen_stays_as_it_was(world):
    before = world.watches.seen()
    world.add("n1")
    world.pod("web", "n1")
    await world.seen()
    assert (before.nodes, before.pods, before.bmcs) == ({}, {}, {})


async def seen_after(world):
    """Return what is seen once every change of a pod until now has arrived."""
    world.pod("last", "n1")
    async with asyncio.timeout(10):
        await world.until_seen(lambda seen: "default/last" in seen.pods)
    world.api.remove("Pod", "last", namespace="default")
    async with asyncio.timeout(10):
        await world.until_seen(lambda seen: "default/last" not in seen.pods)
    return world.watches.seen()


async def test_pods_are_unknown_only_while_there_is_one_of_which_no_version_could_be_read(world):
    world.pod("known", "n1")
    await world.seen()
    world.api.put(odd_pod("known"))
    seen = await seen_after(world)
    assert (list(seen.pods), seen.pods_unknown) == (["default/known"], False)
    world.api.put(odd_pod("new"))
    seen = await seen_after(world)
    assert (list(seen.pods), seen.pods_unknown) == (["default/known"], True)
    world.api.remove("Pod", "new", namespace="default")
    assert (await seen_after(world)).pods_unknown is False


def test_a_nodebmc_is_unread_where_no_version_of_it_could_be_read(fake_client):
    known = seen_bmc("n1")
    bmcs = SimpleNamespace(store={"n1": known}, invalid={"n1": "newer version", "n2": "only version"})
    nodes, pods = Reflector(fake_client, NODES, read_node), Reflector(fake_client, PODS, read_pod)
    seen = SleepWatches(fake_client, nodes, pods, bmcs).seen()
    assert (seen.bmcs, seen.unread_bmcs) == ({"n1": known}, {"n2"})


async def test_a_pod_is_told_of_each_time_that_it_begins_to_wait(world):
    told = []
    world.watches.on_waiting_pod(lambda: told.append(True))
    for waits in (False, True, True, False, True):
        world.pod("p", unschedulable=waits, labels={"changed": str(len(told))})
        await world.seen()
    world.api.remove("Pod", "p", namespace="default")
    await world.seen()
    assert len(told) == 2


async def test_each_watch_that_must_not_be_believed_is_named_with_the_reason(fake_client):
    bmcs = Reflector(fake_client, NODE_BMCS, decode_kind(NodeBMC))
    nodes, pods = Reflector(fake_client, NODES, read_node), Reflector(fake_client, PODS, read_pod)
    watches = SleepWatches(fake_client, nodes, pods, bmcs)
    assert [each.name for each in watches.own] == list(NAMES[:-3]), "the others are of the operator"
    assert watches.stale_reason() == "; ".join(f"{name}: first list not complete" for name in NAMES)
    running = [asyncio.create_task(each.run()) for each in (nodes, pods, *watches.own)]
    try:
        async with asyncio.timeout(10):
            for each in (nodes, pods, *watches.own):
                await each.wait_synced()
        assert watches.stale_reason() == "nodebmcs.joulie.io: first list not complete"
        running.append(asyncio.create_task(bmcs.run()))
        async with asyncio.timeout(10):
            await bmcs.wait_synced()
        assert watches.stale_reason() is None
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
