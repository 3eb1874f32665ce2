"""Servers that Joulie switched off, while they shut down and whatever becomes of their Nodes: awake, woken or named."""

import json

import pytest
from services.operator.tests.sleep.sleep_objects import (
    MAINTENANCE,
    RECORD,
    REQUESTED,
    STATE,
    SWITCHED_OFF,
)

from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.left_off import OffReason

NODES = ("n1", "n2", "n3", "n4")
N1 = NodeName("n1")
#: Passes that no shutdown takes by the defaults of the out-of-band service.
LONG = 31


async def asleep(world, **spec):
    """Return one of two nodes that are asleep."""
    for name in NODES:
        world.add(name)
    world.policy(**spec)
    await world.until(lambda: len(world.in_state("asleep")) == 2)
    return world.in_state("asleep")[0]


async def shutting_down(world, *, takes=8, **spec):
    """Return a node whose shutdown has begun."""
    for name in NODES:
        world.add(name)
        world.servers[name].takes = takes
    world.policy(**{"bootTimeoutSeconds": 600} | spec)
    await world.until(lambda: any(each.shuts_down for each in world.servers.values()))
    return next(name for name, each in world.servers.items() if each.shuts_down)


async def stays_tainted_until_it_has_booted(world, name):
    """Follow the node until it is awake: never without the taint before its server has gone off and booted."""
    server = world.servers[name]
    for _ in range(100):
        await world.step()
        if world.state(name) == "awake":
            break
        assert world.tainted(name)
    assert (server.boots, server.on, world.tainted(name)) == (1, True, False)
    assert server.cut_under in ([], ["tolerates"])


def mark(world, name):
    """Return the mark of a NodeBMC."""
    return world.api.get("NodeBMC", name)["metadata"].get("annotations", {}).get(SWITCHED_OFF)


def left_off(world, name):
    """Return status and reason of the condition at the NodeBMC; None without it."""
    conditions = world.api.get("NodeBMC", name).get("status", {}).get("conditions", ())
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "LeftOff"), None)


def take_back(world, name):
    """Remove everything from a Node that says that it sleeps, as the page does."""
    meta = {"annotations": {RECORD: None}, "labels": {STATE: None}}
    world.api.patch("Node", name, {"metadata": meta, "spec": {"taints": None}})


def annotate(world, name, **annotations):
    values = {key.replace("_", "-"): value for key, value in annotations.items()}
    body = {"metadata": {"annotations": {f"joulie.io/{key}": value for key, value in values.items()}}}
    world.api.patch("Node", name, body)


# --- a server that shuts down looks awake -----------------------------------------------------------------------------


async def test_a_pod_that_tolerates_everything_does_not_make_a_server_awake_that_shuts_down(world):
    name = await shutting_down(world)
    world.pod("tolerates", name, owner="Job")
    await stays_tainted_until_it_has_booted(world, name)


async def test_an_off_time_shorter_than_the_shutdown_does_not_make_a_server_awake(world):
    name = await shutting_down(world, takes=20, offTimeoutSeconds=20)
    await world.until(lambda: world.state(name) == "waking")
    annotate(world, name, awake_until="2100-01-01T00:00:00Z")
    await stays_tainted_until_it_has_booted(world, name)


async def test_a_node_that_people_take_back_while_its_server_shuts_down_gets_its_taint_back(world):
    name = await shutting_down(world)
    world.api.patch("NodeBMC", name, {"spec": {"desiredPower": "On"}})
    take_back(world, name)
    await world.step()
    assert (world.state(name), world.tainted(name)) == ("waking", True)
    await stays_tainted_until_it_has_booted(world, name)


async def test_a_controller_that_is_killed_while_a_server_shuts_down_knows_of_it(world):
    name = await shutting_down(world)
    world.pod("tolerates", name, owner="Job")
    await world.until(lambda: world.state(name) == "waking")
    world.restart()
    await stays_tainted_until_it_has_booted(world, name)


# --- the mark ---------------------------------------------------------------------------------------------------------


async def test_a_server_is_marked_in_the_request_that_powers_it_off_and_until_it_is_on_again(world):
    name = await asleep(world)
    (off,) = (
        json.loads(each.body)
        for each in world.api.requests.writes(kind="NodeBMC", name=name)
        if b'"Off"' in each.body and b"desiredPower" in each.body
    )
    assert off["spec"] == {"desiredPower": "Off"}
    assert off["metadata"]["annotations"].keys() == {REQUESTED, SWITCHED_OFF}
    annotate(world, name, awake_until="2100-01-01T00:00:00Z")
    await world.until(lambda: world.state(name) == "waking")
    assert mark(world, name) is not None
    await world.until(lambda: world.state(name) == "awake" and mark(world, name) is None)
    assert world.servers[name].boots == 1


# --- whatever becomes of the objects ----------------------------------------------------------------------------------


async def test_a_sleeping_server_whose_node_is_taken_back_is_woken(world):
    name = await asleep(world)
    world.api.patch("NodeBMC", name, {"spec": {"desiredPower": None}})
    take_back(world, name)
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on)
    assert world.servers[name].boots == 1


@pytest.mark.parametrize("mode", ["Observe", "Recommend"])
async def test_a_server_that_was_left_off_is_woken_in_every_mode(world, mode):
    name = await asleep(world)
    world.api.patch("NodeSleepPolicy", "all", {"spec": {"mode": mode}})
    take_back(world, name)
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on)


async def test_a_sleeping_server_whose_node_is_deleted_is_named_and_powered_on(world):
    name = await asleep(world)
    node = world.api.get("Node", name)
    world.api.remove("Node", name)
    await world.step()
    assert world.controller.off[name] is OffReason.NODE_MISSING
    assert left_off(world, name) == ("True", "NodeMissing")
    assert world.desired(name) == "On"
    # Its kubelet registers the Node anew.
    world.api.put({**node, "metadata": {"name": name, "labels": {**node["metadata"]["labels"], STATE: None}}})
    take_back(world, name)
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on and mark(world, name) is None)
    assert left_off(world, name) == ("False", "Handled")
    assert name not in world.controller.off


async def test_a_server_without_a_node_is_on_once_its_bmc_says_so_for_longer_than_a_shutdown_takes(world):
    name = await asleep(world)
    world.api.remove("Node", name)
    del world.servers[name]
    await world.step(LONG + 1)
    assert (world.desired(name), mark(world, name) is None) == ("On", False), "its BMC reads Off"
    status = {"powerState": "On", "sampledAt": rfc3339(world.now, "seconds")}
    world.api.patch("NodeBMC", name, {"status": status})
    await world.step(2)
    assert (world.desired(name), mark(world, name)) == ("Unmanaged", None)


async def test_a_persons_off_leaves_a_server_without_a_node_off(world):
    name = await asleep(world)
    world.api.remove("Node", name)
    annotations = {REQUESTED: None}
    world.api.patch("NodeBMC", name, {"metadata": {"annotations": annotations}, "spec": {"desiredPower": "Off"}})
    await world.step(3)
    assert world.desired(name) == "Off"
    assert left_off(world, name) == ("True", "NodeMissing"), "and it is named all the same"


def written_anew(bmc, **status):
    """Return a NodeBMC as a person's tools write it: without annotations and without a request."""
    spec = {key: value for key, value in bmc["spec"].items() if key != "desiredPower"}
    meta = {"name": bmc["metadata"]["name"]}
    return {**bmc, "metadata": meta, "spec": spec, "status": bmc["status"] | status}


def write_again(world, name):
    """Delete the NodeBMC and write it again."""
    bmc = world.api.get("NodeBMC", name)
    world.api.remove("NodeBMC", name)
    world.api.put(written_anew(bmc))


@pytest.mark.parametrize("record", ["kept", "lost"])
async def test_a_server_that_is_woken_is_marked_again_after_its_nodebmc_was_written_again(world, record):
    name = await asleep(world)
    world.servers[name].busy = True
    annotate(world, name, awake_until="2100-01-01T00:00:00Z")
    await world.until(lambda: world.desired(name) == "On")
    if record == "lost":
        world.api.patch("Node", name, {"metadata": {"annotations": {RECORD: "broken"}}})
    write_again(world, name)
    await world.step()
    assert world.desired(name) == "On"
    assert mark(world, name) is not None
    world.api.remove("Node", name)
    await world.step()
    assert world.desired(name) == "On"
    assert left_off(world, name) == ("True", "NodeMissing")


@pytest.mark.parametrize(("key", "value"), [("maintenance", "ada: new fan"), (None, None)])
async def test_a_server_that_stays_off_is_marked_again_after_its_nodebmc_was_written_again(world, key, value):
    name = await asleep(world)
    if key:
        annotate(world, name, **{key: value})
    await world.step()
    write_again(world, name)
    await world.step()
    assert mark(world, name) is not None


async def test_a_server_that_a_pod_keeps_from_being_asked_to_go_off_is_marked_again_all_the_same(world):
    """A cordoned node is not woken by the pod, and a NodeBMC that was just written says nothing of the power."""
    name = await asleep(world)
    world.api.patch("Node", name, {"spec": {"unschedulable": True}})
    world.pod("bound", name, owner=None)
    write_again(world, name)
    world.hide(name, "")
    world.api.patch("NodeBMC", name, {"status": None})
    await world.step()
    assert (mark(world, name) is None, world.desired(name)) == (False, "Unmanaged")
    world.api.remove("Node", name)
    await world.step()
    assert (world.desired(name), left_off(world, name)) == ("On", ("True", "NodeMissing"))


async def test_a_server_without_a_nodebmc_is_named_by_its_node_though_people_write_that_it_is_awake(world):
    name = await asleep(world)
    world.api.remove("NodeBMC", name)
    await world.step()
    awake = {"annotations": {RECORD: '{"state":"Awake","since":0,"reason":"initial"}'}}
    world.api.patch("Node", name, {"metadata": awake})
    await world.step(3)
    assert (world.state(name), world.tainted(name)) == ("waking", True)
    world.servers[name].on = True
    world.ready(name, "True")
    await world.step(2)
    assert (world.state(name), world.tainted(name)) == ("awake", False)


@pytest.mark.parametrize("node", ["taken back", "deleted"])
async def test_a_server_of_which_people_have_removed_everything_is_marked_and_woken_with_its_next_nodebmc(world, node):
    name = await asleep(world)
    bmc = world.api.get("NodeBMC", name)
    world.api.remove("NodeBMC", name)
    await world.step()
    if node == "deleted":
        world.api.remove("Node", name)
    else:
        take_back(world, name)
    await world.step()
    world.api.put(written_anew(bmc))
    await world.step(2)
    assert mark(world, name) is not None
    assert world.desired(name) == "On" or world.state(name) == "asleep"
    if node == "taken back":
        await world.until(lambda: world.state(name) == "awake" and world.servers[name].on and mark(world, name) is None)


async def test_a_server_that_was_switched_on_while_it_had_no_nodebmc_is_not_marked(world):
    name = await asleep(world)
    bmc = world.api.get("NodeBMC", name)
    world.api.remove("NodeBMC", name)
    await world.step()
    world.servers[name].on = True
    world.api.patch("Node", name, {"status": {"nodeInfo": {"bootID": "another"}}})
    world.ready(name, "True")
    await world.until(lambda: world.state(name) == "awake")
    world.api.put(written_anew(bmc, powerState="On", sampledAt=rfc3339(world.now, "seconds")))
    await world.step(2)
    assert (world.state(name), mark(world, name)) == ("awake", None)


async def test_a_server_that_is_on_is_not_marked_because_its_record_is_lost(world):
    for name in NODES:
        world.add(name)
    world.ready("n1", "False")
    world.api.patch("Node", "n1", {"metadata": {"annotations": {RECORD: "broken"}}})
    await world.step(2)
    assert (world.state("n1"), world.desired("n1")) == ("waking", "On")
    world.ready("n1", "True")
    await world.until(lambda: world.state("n1") == "awake", passes=2)
    assert not [each for each in world.api.requests.writes(kind="NodeBMC", name="n1") if b"switched-off" in each.body]


# --- pods and people --------------------------------------------------------------------------------------------------


async def test_a_pod_that_is_bound_to_a_sleeping_node_wakes_it(world):
    name = await asleep(world)
    world.pod("bound", name, owner=None)
    await world.until(lambda: world.state(name) == "waking", passes=2)
    await world.until(lambda: world.state(name) == "awake" and world.servers[name].on)


async def test_a_node_that_was_cordoned_while_it_slept_stays_off_for_pods_and_the_minimum(world):
    name = await asleep(world)
    other = world.in_state("asleep")[1]
    world.api.patch("Node", name, {"spec": {"unschedulable": True}})
    world.api.patch("NodeSleepPolicy", "all", {"spec": {"minAwake": {"count": 4, "spare": 0}}})
    world.pod("waits", cpu=60, unschedulable=True)
    await world.until(lambda: world.state(other) == "awake")
    await world.step(5)
    assert world.state(name) == "asleep"
    assert left_off(world, name) == ("True", "Cordoned")
    annotate(world, name, awake_until="2100-01-01T00:00:00Z")
    await world.until(lambda: world.state(name) == "awake")


async def test_a_server_in_maintenance_stays_off_whatever_is_requested_and_is_named_everywhere(world):
    name = await asleep(world)
    annotate(world, name, maintenance="ada: new fan", awake_until="2100-01-01T00:00:00Z")
    world.pod("bound", name, owner=None)
    await world.step(5)
    assert (world.state(name), world.desired(name)) == ("asleep", "Unmanaged")
    assert not world.servers[name].on
    assert left_off(world, name) == ("True", "Maintenance")
    maintenance = next(each for each in world.status()["conditions"] if each["type"] == "Maintenance")
    assert (maintenance["status"], name in maintenance["message"]) == ("True", True)
    conditions = world.api.get("Node", name)["status"]["conditions"]
    assert any(each.get("message", "").endswith("; maintenance: ada: new fan") for each in conditions)
    # The person tries whether it starts: no pods come, and nothing switches it off again.
    world.servers[name].on = True
    world.ready(name, "True")
    await world.step(5)
    assert (world.state(name), world.tainted(name), world.desired(name)) == ("asleep", True, "Unmanaged")
    annotate(world, name, maintenance=None)
    await world.until(lambda: world.state(name) == "awake")


async def test_a_node_that_is_awake_and_in_maintenance_is_not_put_to_sleep(world):
    for name in NODES:
        world.add(name, annotations={MAINTENANCE: "ada: new fan"})
    world.policy()
    await world.step(10)
    assert world.in_state("awake") == list(NODES)
    assert world.status()["refusals"] == [{"reason": "maintenance", "nodes": 4}]


# --- outages are no failed boots --------------------------------------------------------------------------------------


@pytest.mark.parametrize("outage", ["bmc", "service", "busy"])
async def test_what_was_asked_to_wake_in_an_outage_is_not_quarantined_and_wakes_when_that_is_over(world, outage):
    name = await asleep(world)
    server = world.servers[name]
    if outage == "busy":
        server.busy = True
    else:
        world.hide(name, "Unreachable" if outage == "bmc" else "")
    annotate(world, name, awake_until="2100-01-01T00:00:00Z")
    await world.step(60)
    assert (world.state(name), server.on) == ("waking", False)
    server.busy = False
    world.show(name)
    await world.until(lambda: world.state(name) == "awake" and server.on, passes=10)
    assert "NodeQuarantined" not in [each.reason for each in world.events]
