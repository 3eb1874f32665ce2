import json
import re

from joulie_testing.api import make_node, make_node_power_profile
from joulie_testing.cli import ago, make_event, managed_node


async def test_target_result_conditions_and_events_are_shown(fake_api, cli):
    condition = {
        "type": "Enforced",
        "status": "False",
        "reason": "FirmwareLocked",
        "message": "cpu: rapl blocked",
        "lastTransitionTime": ago(600),
    }
    cpu = {"result": "blocked", "reason": "FirmwareLocked", "message": "package-0", "requestedWatts": 180}
    fake_api.put_all(managed_node("n1", "eco", cpu=cpu, conditions=(condition,)))
    policy = {"name": "queue_aware_v1", "reason": "2 of 4 nodes"}
    fake_api.patch("NodePowerProfile", "n1", {"spec": {"cpu": {"packagePowerCapPctOfMax": 60}, "policy": policy}})
    fake_api.put(make_event("Node", "n1", "EcoAllowed", "ActivePerformance -> ActiveEco: planned eco", at=ago(700)))
    fake_api.put(make_event("Node", "n1", "Rebooted", "by the kubelet", component="kubelet", at=ago(10)))
    result = await cli("profile", "n1")
    text = " ".join(result.out.split())
    assert result.code == 0
    assert "queue_aware_v1: 2 of 4 nodes" in text
    assert "CPU cap 60% of the maximum of each package" in text
    assert "blocked by rapl, 300 W per package in force, 180 W requested, FirmwareLocked, package-0" in text
    assert "Enforced is False since 10m: FirmwareLocked: cpu: rapl blocked" in text
    assert "EcoAllowed" in text
    assert "Rebooted" not in text


async def test_what_the_agent_has_not_reported_is_unknown(fake_api, cli):
    fake_api.put(make_node("n1"))
    fake_api.put(make_node_power_profile("n1", "eco", cpu={"packagePowerCapWatts": 150}))
    text = " ".join((await cli("profile", "n1")).out.split())
    assert "CPU cap 150 W per package" in text
    assert "CPU unknown: the agent has not reported" in text
    assert "Twin none" in text


async def test_a_node_without_a_target_is_explained(fake_api, cli):
    fake_api.put(make_node("n1", managed=False))
    result = await cli("profile", "n1")
    assert result.code == 3
    assert "has no NodePowerProfile" in result.err
    assert "kubectl label node n1 joulie.io/managed=true" in result.err


async def test_an_unknown_node_is_an_error(fake_api, cli):
    result = await cli("profile", "nix")
    assert result.code == 3
    assert "no node 'nix'" in result.err


async def test_the_profile_is_also_data(fake_api, cli):
    fake_api.put_all(managed_node("n1", "eco"))
    data = json.loads((await cli("profile", "n1", "-o", "json")).out)
    assert data["target"]["profile"] == "eco"
    assert data["node"]["controls"]["cpu"]["result"] == "applied"


async def test_the_power_of_the_whole_server_is_shown_with_its_source_and_age(fake_api, cli):
    fake_api.put_all(managed_node("n1", server_watts=412))
    assert re.search(r"Whole server +412 W, measured \(redfish, 4\ds old\)", (await cli("profile", "n1")).out)
