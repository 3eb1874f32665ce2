"""What the resource manager reports is published; the power profile is pushed to it."""

import asyncio
import json

import pytest

from joulie_containers.node_agent import published
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.kinds.base import Profile
from joulie_testing.api import Respond

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "noderesourcetopologies.topology.node.k8s.io"},
    "spec": {
        "group": "topology.node.k8s.io",
        "scope": "Cluster",
        "names": {"plural": "noderesourcetopologies", "kind": "NodeResourceTopology"},
        "versions": [{"name": "v1alpha2", "served": True}],
    },
}
ZONE = pb.Zone(
    name="balloon0",
    kind="balloon",
    parent="socket0",
    cpus="0-3",
    shared_idle="6-7",
    memory="0",
    capacity_milli=8000,
    allocatable_milli=4000,
    available_milli=2500,
    containers=[pb.ZoneContainer(namespace="ns", pod="p", name="main", cpus="0-3", request_milli=1500)],
    attributes={"balloon type": "eco"},
)


def status(*zones, agent=True, **spec):
    manifest = json.dumps({"spec": {"agent": {"nodeResourceTopology": agent}, **spec}})
    return pb.ManagerStatus(
        zones=zones, configuration=pb.ActiveConfiguration(policy="balloons", source="cluster", manifest=manifest)
    )


async def test_the_profile_is_pushed_at_the_start_after_a_change_and_after_a_restart(stage):
    stage.profile = Profile.ECO
    async with stage.agent() as agent:
        await stage.manager.until(lambda: stage.manager.profiles == ["eco"])
        stage.profile = Profile.PERFORMANCE
        agent.wake()
        await stage.manager.until(lambda: stage.manager.profiles == ["eco", "performance"])
        await stage.manager.restart()
        await stage.manager.until(lambda: stage.manager.profiles == ["eco", "performance", "performance"])


async def test_extended_resources_are_published_changed_and_removed(stage):
    capacity = lambda: stage.api.get("Node", "n1")["status"]["capacity"]  # noqa: E731
    before = dict(capacity())
    stage.manager.status = pb.ManagerStatus(extended_resources={"cpuclass.joulie.io/eco-milli": 4000, "nodot/x": 1})
    async with stage.agent() as agent:
        await stage.api.wait_for(lambda: capacity() == before | {"cpuclass.joulie.io/eco-milli": "4000"})
        stage.manager.status = pb.ManagerStatus(extended_resources={"example.com/part": 3})
        await stage.api.wait_for(lambda: capacity() == before | {"example.com/part": "3"})
        stage.api.patch("Node", "n1", {"status": {"capacity": {"example.com/part": "0"}}})
        agent.wake()
        await stage.api.wait_for(lambda: capacity() == before | {"example.com/part": "3"})
        stage.manager.status = pb.ManagerStatus()
        await stage.api.wait_for(lambda: capacity() == before)


async def test_capacity_stays_while_the_resource_manager_cannot_be_reached(stage):
    stage.manager.status = pb.ManagerStatus(extended_resources={"cpuclass.joulie.io/eco-milli": 4000})
    async with stage.agent() as agent:
        capacity = lambda: stage.api.get("Node", "n1")["status"]["capacity"]  # noqa: E731
        await stage.api.wait_for(lambda: "cpuclass.joulie.io/eco-milli" in capacity())
        await stage.manager.stop()
        stage.manager.status = pb.ManagerStatus()
        agent.wake()
        stage.api.patch("Node", "n1", {"metadata": {"labels": {"x": "y"}}})
        assert "cpuclass.joulie.io/eco-milli" in capacity()


async def test_zones_are_published_where_the_configuration_wants_it_and_the_kind_exists(stage):
    stage.api.put(DEFINITION)
    stage.manager.status = status(ZONE)
    async with stage.agent():
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1"))
    found = stage.api.get("NodeResourceTopology", "n1")
    assert found["attributes"] == [{"name": "TopologyPolicy", "value": "balloons"}]
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert found["zones"] == [
        {
            "name": "balloon0",
            "type": "balloon",
            "parent": "socket0",
            "attributes": [
                {"name": "balloon type", "value": "eco"},
                {"name": "cpuset", "value": "0-3"},
                {"name": "memory set", "value": "0"},
                {"name": "shared cpuset", "value": "6-7"},
            ],
            "resources": [{"name": "cpu", "capacity": "8", "allocatable": "4", "available": "2500m"}],
        }
    ]


async def test_without_zones_what_is_published_stays(stage):
    found = []
    for state in (None, status(), status(agent=False), status(ZONE)):
        publisher = published.StatePublisher(
            stage.client,
            "n1",
            node=stage._node,
            state=lambda state=state: state,
            failures=stage.failures,
            pace=stage.pace,
        )
        found.append(publisher._topology())
    assert found[:3] == [None, None, {}]
    assert found[3]["zones"]


async def test_containers_are_zones_where_their_zone_says_so(stage):
    stage.api.put(DEFINITION)
    shown = pb.Zone()
    shown.CopyFrom(ZONE)
    shown.name, shown.show_containers = "balloon1", True
    stage.manager.status = status(ZONE, shown)
    async with stage.agent():
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1"))
    zones = stage.api.get("NodeResourceTopology", "n1")["zones"]
    assert [zone["name"] for zone in zones] == ["balloon0", "balloon1", "ns/p/main"]
    assert zones[2] == {
        "name": "ns/p/main",
        "type": "allocation for container",
        "parent": "balloon1",
        "attributes": [{"name": "cpuset", "value": "0-3"}],
        "resources": [{"name": "cpu", "capacity": "4", "allocatable": "1500m", "available": "0"}],
    }


async def test_unchanged_zones_are_not_written_again(stage):
    stage.api.put(DEFINITION)
    stage.manager.status = status(ZONE)
    async with stage.agent() as agent:
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1"))
        agent.wake()
        changed = pb.Zone()
        changed.CopyFrom(ZONE)
        changed.available_milli = 1000
        stage.manager.status = status(changed)
        await stage.api.wait_for(
            lambda: stage.api.get("NodeResourceTopology", "n1")["zones"][0]["resources"][0]["available"] == "1"
        )
    writes = [each for each in stage.api.requests if each.verb == "apply" and "noderesourcetopologies" in each.path]
    assert len(writes) == 2


async def test_zones_go_when_the_configuration_no_longer_wants_them(stage):
    stage.api.put(DEFINITION)
    stage.manager.status = status(ZONE)
    async with stage.agent():
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1"))
        stage.manager.status = status(ZONE, agent=False)
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1") is None)


async def test_an_object_of_another_program_stays(stage):
    stage.api.put(DEFINITION)
    theirs = {"kind": "NodeResourceTopology", "metadata": {"name": "n1"}, "zones": []}
    stage.api.put({"apiVersion": "topology.node.k8s.io/v1alpha2", **theirs})
    async with stage.agent():
        await stage.api.wait_for(lambda: [each for each in stage.api.requests if "noderesource" in each.path])
    assert stage.api.get("NodeResourceTopology", "n1")


async def test_a_cluster_without_the_kind_is_asked_once_in_a_while(stage, monkeypatch):
    stage.manager.status = status(ZONE)
    asked = lambda: [each for each in stage.api.requests if "noderesource" in each.path]  # noqa: E731
    async with stage.agent() as agent:
        await stage.api.wait_for(asked)
        changed = pb.Zone()
        changed.CopyFrom(ZONE)
        changed.available_milli = 1000
        stage.manager.status = status(changed)
        stage.profile = Profile.ECO
        agent.wake()
        await stage.manager.until(lambda: stage.manager.profiles)
        assert len(asked()) == 1
    monkeypatch.setattr(published, "_MISSING_KIND_S", 0)
    stage.api.requests.clear()
    async with stage.agent():
        await stage.api.wait_for(asked)
        stage.manager.status = status(ZONE)
        await stage.api.wait_for(lambda: len(asked()) > 1)


@pytest.mark.parametrize("fault", [Respond(500), Respond(429, retry_after_s=0)])
async def test_a_publication_that_failed_is_repeated(stage, fault):
    stage.api.put(DEFINITION)
    stage.api.faults.add(fault, verb="apply", path="noderesourcetopologies", times=2)
    stage.manager.status = status(ZONE)
    async with stage.agent():
        await stage.api.wait_for(lambda: stage.api.get("NodeResourceTopology", "n1"))


async def test_a_resource_manager_that_starts_later_is_served(stage):
    await stage.manager.stop()
    stage.profile = Profile.ECO
    async with stage.agent():
        await asyncio.wait_for(stage.agents[0]._changes.health_check(pb.Nothing()), 30)
        await stage.manager.start()
        await stage.manager.until(lambda: stage.manager.profiles == ["eco"])
