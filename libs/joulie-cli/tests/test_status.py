import json

from joulie_testing.api import Respond, make_node
from joulie_testing.cli import managed_node, service_pod


async def test_power_is_summed_by_profile_with_its_quality(fake_api, cli):
    fake_api.put_all(managed_node("p1", watts=300, cap=600))
    fake_api.put_all(managed_node("p2", watts=200, cap=600, quality="modelled"))
    fake_api.put_all(managed_node("e1", "eco", watts=100, cap=400))
    fake_api.put_all(managed_node("d1", "eco", draining=True, watts=None))
    result = await cli("status")
    assert result.code == 0
    rows = {line.split()[0]: line.split() for line in result.out.splitlines() if line}
    assert rows["performance"][1:7] == ["2", "500", "W", "1200", "W", "42%"]
    assert rows["all"][1:7] == ["4", "600", "W", "1600", "W", "38%"]
    assert "1 measured, 1 modelled" in result.out
    power = json.loads((await cli("status", "-o", "json")).out)["power"]
    assert power["byProfile"]["eco (draining)"]["watts"] is None
    assert power["total"]["nodesByQuality"] == {"measured": 2, "modelled": 1, "unknown": 1}


async def test_a_stale_twin_is_named_and_adds_no_watts(fake_api, cli):
    fake_api.put_all(managed_node("fresh", watts=100))
    fake_api.put_all(managed_node("old", watts=900, age_s=301))
    fake_api.put(make_node("bare"))
    result = await cli("status")
    assert "Stale twins  2: bare, old" in result.out
    data = json.loads((await cli("status", "-o", "json")).out)
    assert data["power"]["total"]["watts"] == 100
    assert data["nodes"]["staleTwins"] == ["bare", "old"]


async def test_services_are_counted_by_their_pods(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    fake_api.put(service_pod("operator", "n1"))
    fake_api.put(service_pod("agent", "n1", ready=False))
    fake_api.put(service_pod("agent", "n2"))
    result = await cli("status")
    assert "Operator    1 of 1 pod ready in joulie-system, version 0.1.0" in result.out
    assert "Agent       1 of 2 pods ready" in result.out
    assert "Extender    no pod" in result.out
    (request,) = fake_api.requests.find(verb="list", kind="Pod")
    assert request.query["labelSelector"] == "app.kubernetes.io/name=joulie"


async def test_services_are_unknown_where_pods_may_not_be_listed(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    fake_api.faults.add(Respond(403), verb="list", path="/pods", times=None)
    result = await cli("status")
    assert result.code == 0
    assert "unknown: this user may not list pods" in result.out
    assert json.loads((await cli("status", "-o", "json")).out)["services"] is None


async def test_caps_that_are_not_in_force_are_counted_by_reason(fake_api, cli):
    for number in range(7):
        fake_api.put_all(managed_node(f"n{number}", cpu={"result": "blocked", "reason": "FirmwareLocked"}))
    fake_api.put_all(managed_node("n8", cpu={"result": "error", "reason": "IoError"}))
    result = await cli("status")
    assert "7 blocked, 1 error" in result.out
    assert "cpu, FirmwareLocked: n0, n1, n2, n3, n4 and 2 more" in result.out
    assert "cpu, IoError: n8" in result.out


async def test_nodes_that_are_not_awake_are_counted_by_their_state(fake_api, cli):
    for name, state in (("n1", "asleep"), ("n2", "asleep"), ("n3", "waking"), ("n4", None)):
        fake_api.put_all(managed_node(name))
        fake_api.patch("Node", name, {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
    assert "Sleep        2 asleep, 1 waking\n" in (await cli("status")).out
    data = json.loads((await cli("status", "-o", "json")).out)
    assert data["nodes"]["bySleepState"] == {"asleep": 2, "waking": 1}


async def test_nodes_that_are_asleep_draw_nothing_that_is_known_and_miss_no_agent(fake_api, cli):
    for name, state in (("n1", "asleep"), ("n2", "waking"), ("n3", None)):
        fake_api.put_all(managed_node(name, watts=200, cap=500))
        fake_api.patch("Node", name, {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
        fake_api.put(service_pod("agent", name, ready=state is None, owner="DaemonSet"))
    data = json.loads((await cli("status", "-o", "json")).out)
    assert data["power"]["total"] == {
        "nodes": 3,
        "watts": 400,
        "capWatts": 1000,
        "nodesByQuality": {"asleep": 1, "measured": 2},
    }
    assert (data["services"]["agent"]["pods"], data["services"]["agent"]["ready"]) == (1, 1)


async def test_without_such_nodes_there_is_no_line_about_sleep(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    assert "Sleep" not in (await cli("status")).out


async def test_every_line_fits_80_columns(fake_api, cli):
    fake_api.put_all(managed_node("a-node-with-a-name-of-a-cloud.compute.internal", watts=99_999, cap=123_456))
    assert max(len(line) for line in (await cli("status")).out.splitlines()) <= 80
