"""What the resource manager does with calls of its config interface, and replies."""

import pytest
from services.containers.tests.resources.manager.manager_bench import (
    GROUP,
    balloons,
    set_adjustments,
    set_config,
    template,
)

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import InvalidCallError
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import PowerProfileChanged


async def test_a_manifest_of_the_cluster_is_applied_and_without_one_the_last_stays(managers, node):
    async with managers.started("template") as manager:
        await node.add(node.container("a"))
        assert await set_config(manager, template("0-3", other=1)) == pb.SetConfigReply(ignored=["spec.other"])
        await managers.until(lambda: managers.cpus() == {"a": "0-3"})
        assert await set_config(manager, "") == pb.SetConfigReply()
        assert manager.configuration.active.source == "cluster"
        refused = await set_config(manager, template("99"))
        assert "cpuset:99" in refused.error
        assert list(refused.ignored) == []
        assert manager.configuration_problem == refused.error
        assert managers.cpus() == {"a": "0-3"}


@pytest.mark.parametrize(
    ("call", "ask"),
    [
        ("set_config", pb.SetConfigRequest),
        ("set_adjustments", pb.SetAdjustmentsRequest),
        ("set_pod_consents", pb.SetPodConsentsRequest),
    ],
)
async def test_a_call_for_another_node_is_refused_where_the_nodes_name_is_known(managers, call, ask):
    async with managers.started() as manager:
        with pytest.raises(InvalidCallError, match="node_name: 'n2' is not this node, 'n1'"):
            await getattr(manager, call)(ask(node_name="n2"))
        await getattr(manager, call)(ask(node_name="n1"))
        manager._settings = manager._settings.model_copy(update={"node_name": ""})
        await getattr(manager, call)(ask(node_name="n2"))


async def test_the_policy_learns_the_power_profile_and_another_word_is_refused(managers, monkeypatch):
    async with managers.started() as manager:
        events = []

        async def handle(event):
            events.append(event)

        monkeypatch.setattr(manager.engine, "handle", handle)
        for profile in ("eco", "performance"):
            assert await manager.set_power_profile(pb.SetPowerProfileRequest(profile=profile)) == pb.Nothing()
        with pytest.raises(InvalidCallError, match="profile: 'fast' is not one of performance, eco"):
            await manager.set_power_profile(pb.SetPowerProfileRequest(profile="fast"))
        assert events == [PowerProfileChanged("eco"), PowerProfileChanged("performance")]


async def test_the_status_has_the_configuration_and_each_zone_with_its_containers(managers, node):
    async with managers.started() as manager:
        await set_config(manager, balloons())
        await node.add(node.container("a", milli=1500, cpus="0-7"))
        status = await manager.get_status(pb.Nothing())
        assert (status.node_name, status.registered, status.problem) == ("n1", True, "")
        assert (status.configuration.policy, status.configuration.source) == ("balloons", "cluster")
        assert (status.configuration.error, status.configuration.manifest) == (
            "",
            balloons().replace(", ", ",").replace(": ", ":"),
        )
        assert (status.extended_resources, status.cpu_classes_problem, status.interrupts_problem) == ({}, "", "")
        zones = manager.engine.zones
        assert [zone.name for zone in status.zones] == [zone.name for zone in zones]
        (zone,) = (zone for zone in status.zones if zone.containers)
        (expected,) = (zone for zone in zones if zone.containers)
        placement = manager.engine.placements["a"]
        assert (zone.kind, zone.parent, zone.show_containers) == ("balloon", expected.parent, True)
        assert Cpus.parse(zone.cpus) == expected.cpus == placement.cpus
        assert (zone.shared_idle, zone.memory) == (str(expected.shared_idle), str(expected.memory))
        amounts = zone.capacity_milli, zone.allocatable_milli, zone.available_milli
        assert amounts == (expected.capacity_milli, expected.allocatable_milli, expected.available_milli)
        assert len(set(amounts)) == 3, "equal amounts would not show which is which"
        assert dict(zone.attributes) == dict(expected.attributes) != {}
        assert list(zone.containers) == [
            pb.ZoneContainer(
                id="a",
                namespace="default",
                pod="pod",
                name="a",
                cpus=str(placement.cpus),
                memory=str(placement.memory or ""),
                request_milli=1500,
            )
        ]
        await set_config(manager, template("0-3"))
        assert "TemplatePolicy" in (await manager.get_status(pb.Nothing())).configuration.error


async def test_the_status_before_the_start_and_the_first_registration_says_what_is_missing(managers):
    manager = managers.make()
    status = await manager.get_status(pb.Nothing())
    assert (status.registered, status.problem) == (False, "not registered with the container runtime")
    assert status.configuration == pb.ActiveConfiguration(policy="topology-aware")
    assert list(status.zones) == []


async def test_adjustments_that_cannot_be_carried_out_are_told_by_name_and_container(managers, node):
    async with managers.started("template") as manager:
        await node.add(node.container("a", milli=500), node.container("b", milli=500))
        good = {"resources": {"requests": {"cpu": 1}}}
        assert await set_adjustments(manager, good=good) == {}
        assert manager.engine.containers["a"].resources.cpu_request_milli == 1000
        wrong = {"resources": {"requests": {"memory": "2Gi"}}}
        limited = {"resources": {"limits": {"memory": "1Gi"}}}
        text = "conflicts with limited: the container is not changed"
        errors = await set_adjustments(manager, wrong=wrong, limited=limited)
        assert errors["wrong"] == {"default/pod/a": text, "default/pod/b": text}
        assert errors.keys() == {"wrong", "limited"}
        assert manager.engine.containers["a"].resources.cpu_request_milli == 500
        errors = await set_adjustments(manager, bad={"resources": {"requests": {"cpu": "many"}}})
        assert (errors.keys(), errors["bad"].keys()) == ({"bad"}, {""})


async def test_an_adjustment_that_the_policy_has_no_room_for_is_told_by_name_and_container(managers, node, monkeypatch):
    async with managers.started() as manager:
        await set_config(manager, balloons(balloonTypes=[{**GROUP, "maxBalloons": 1}]))
        await node.add(node.container("a", milli=500), node.container("b", milli=500))
        large = {
            "scope": [{"containers": [{"key": "name", "operator": "Equals", "values": ["a"]}]}],
            "resources": {"requests": {"cpu": 7}},
        }
        errors = await set_adjustments(manager, large=large)
        assert errors.keys() == {"large"}
        assert errors["large"].keys() == {"default/pod/a"}
        assert errors["large"]["default/pod/a"]
        assert manager.engine.containers["a"].resources.cpu_request_milli == 500


async def test_an_adjustment_of_other_nodes_changes_nothing_here(managers, node):
    async with managers.started("template") as manager:
        await node.add(node.container("a", milli=500))
        requests = {}
        for name in ("n1", "n2"):
            spec = {"scope": [{"nodes": [name]}], "resources": {"requests": {"cpu": 1}}}
            assert await set_adjustments(manager, x=spec) == {}
            requests[name] = manager.engine.containers["a"].resources.cpu_request_milli
        assert requests == {"n1": 1000, "n2": 500}
