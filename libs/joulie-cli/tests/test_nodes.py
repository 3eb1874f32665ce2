import json

import yaml

from joulie_testing.api import Respond, make_node, make_node_power_profile
from joulie_testing.cli import managed_node


async def test_every_managed_node_is_a_row(fake_api, cli):
    fake_api.put_all(managed_node("n1", watts=312.4, cap=600, headroom=48))
    fake_api.put_all(managed_node("n2", "eco", draining=True, quality="modelled"))
    fake_api.put(make_node("other", managed=False))
    result = await cli("nodes")
    assert result.code == 0
    heading, *rows = [line.split() for line in result.out.splitlines()]
    assert heading == ["NODE", "PROFILE", "HEADROOM", "WATTS", "CAP", "QUALITY", "BACKEND", "AGE"]
    assert rows[0][:-1] == ["n1", "performance", "48%", "312", "600", "measured", "rapl"]
    assert rows[1][:2] == ["n2", "eco/draining"]
    assert len(rows) == 2


async def test_what_is_unknown_is_a_dash_and_never_zero(fake_api, cli):
    fake_api.put_all(managed_node("silent", watts=None, headroom=None, quality="unknown", cap=0))
    fake_api.put(make_node("bare"))
    rows = [line.split() for line in (await cli("nodes")).out.splitlines()[1:]]
    assert rows[0] == ["bare", *"-------"]
    assert rows[1][2:6] == ["-", "-", "-", "unknown"]
    data = json.loads((await cli("nodes", "-o", "json")).out)["nodes"]
    assert (data[0]["watts"], data[1]["watts"], data[1]["capWatts"], data[1]["headroomPct"]) == (None,) * 4


async def test_nodes_are_listed_without_their_spec_and_status(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    await cli("nodes")
    (request,) = fake_api.requests.find(verb="list", kind="Node")
    assert "as=PartialObjectMetadataList" in request.accept
    assert request.query["labelSelector"] == "joulie.io/managed=true"


async def test_a_target_without_a_managed_node_is_shown_too(fake_api, cli):
    fake_api.put(make_node_power_profile("gone", "eco"))
    assert "gone" in (await cli("nodes")).out


async def test_rows_are_ordered_with_unknown_values_last(fake_api, cli):
    for name, watts in (("a", None), ("b", 100.0), ("c", 300.0)):
        fake_api.put_all(managed_node(name, watts=watts))
    result = await cli("nodes", "--sort", "watts")
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == ["c", "b", "a"]


async def test_wide_output_has_every_column_and_the_reason_of_a_blocked_cap(fake_api, cli):
    fake_api.put_all(managed_node("n1", cpu={"result": "blocked", "reason": "FirmwareLocked"}))
    result = await cli("nodes", "-o", "wide")
    assert {"DRAINING", "CLASS", "TREND", "COOLING", "RACK", "CPU", "GPU"} < set(result.out.splitlines()[0].split())
    assert "blocked:FirmwareLocked" in result.out
    assert "rapl!" in (await cli("nodes")).out


async def test_yaml_has_the_same_data_as_json(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    data = json.loads((await cli("nodes", "-o", "json")).out)
    other = yaml.safe_load((await cli("nodes", "-o", "yaml")).out)
    for each in (data, other):
        each["nodes"][0].pop("twinAgeSeconds")
    assert data == other


async def test_only_named_nodes_are_shown_and_an_unknown_name_is_an_error(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    fake_api.put_all(managed_node("n2"))
    assert "n1" not in (await cli("nodes", "n2")).out
    result = await cli("nodes", "n3")
    assert (result.code, result.out) == (3, "")
    assert "'n3' is not managed" in result.err


async def test_a_cluster_without_managed_nodes_is_explained(fake_api, cli):
    result = await cli("nodes")
    assert result.code == 3
    assert "kubectl label node NODE joulie.io/managed=true" in result.err


async def test_a_kind_that_is_not_installed_is_named_with_the_way_out(fake_api, cli):
    fake_api.faults.add(Respond(404), verb="list", path="/nodetwins", times=None)
    result = await cli("nodes")
    assert result.code == 3
    assert "no nodetwins.joulie.io: Joulie's CRDs are not installed" in result.err
    assert "helm install" in result.err


async def test_a_forbidden_list_names_the_verb_and_the_role(fake_api, cli):
    message = 'nodetwins.joulie.io is forbidden: User "eve" cannot list resource "nodetwins"'
    fake_api.faults.add(Respond(403, message=message), verb="list", path="/nodetwins")
    result = await cli("nodes")
    assert result.code == 3
    assert 'User "eve" cannot list resource "nodetwins"' in result.err
    assert "joulie-viewer" in result.err


async def test_an_api_server_that_is_down_is_named(fake_api, cli):
    await fake_api.stop()
    result = await cli("nodes")
    assert result.code == 3
    assert f"cannot reach the API server {fake_api.url}" in result.err


async def test_a_context_that_does_not_exist_is_an_error(fake_api, cli):
    result = await cli("nodes", "--context", "elsewhere")
    assert result.code == 3
    assert "elsewhere" in result.err
    assert "--context" in result.err


async def test_a_kubeconfig_that_does_not_exist_is_an_error(fake_api, cli):
    result = await cli("nodes", "--kubeconfig", "/nowhere/config")
    assert result.code == 3
    assert "/nowhere/config does not exist" in result.err


async def test_many_nodes_are_read_in_pages(fake_api, cli):
    for number in range(1200):
        fake_api.put_all(managed_node(f"n{number:04}"))
    result = await cli("nodes")
    assert len(result.out.splitlines()) == 1201
    assert len(fake_api.requests.find(verb="list", kind="NodeTwin")) == 3


async def test_watts_of_whole_servers_have_columns_of_their_own_with_their_source(fake_api, cli):
    fake_api.put_all(managed_node("n1", watts=300, server_watts=412.4))
    fake_api.put_all(managed_node("n2"))
    fake_api.put_all(managed_node("old", server_watts=412.4, age_s=400))
    heading, *rows = [line.split() for line in (await cli("nodes")).out.splitlines()]
    assert heading[-4:] == ["SERVER", "BY", "BACKEND", "AGE"]
    assert [row[6:8] for row in rows] == [["412", "redfish"], ["-", "-"], ["-", "-"]]
    assert [row[3] for row in rows] == ["300"] * 3
    (wide, *_) = (await cli("nodes", "-o", "wide")).out.splitlines()
    assert {"SOURCE", "SERVER"} <= set(wide.split())
    data = json.loads((await cli("nodes", "-o", "json")).out)["nodes"]
    assert (data[0]["watts"], data[0]["source"], data[1]["server"]) == (300, "agent", None)
    server = data[0]["server"]
    assert (server["watts"], server["source"], server["intervalSeconds"]) == (412.4, "redfish", 60)
    assert 45 <= server["ageSeconds"] < 60


async def test_the_state_of_a_node_that_is_not_awake_stands_for_its_profile(fake_api, cli):
    for name, state in (("n1", "asleep"), ("n2", "quarantined"), ("n3", None)):
        fake_api.put_all(managed_node(name, "eco"))
        fake_api.patch("Node", name, {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
    fake_api.put(make_node_power_profile("gone", "eco"))
    rows = [line.split()[:2] for line in (await cli("nodes")).out.splitlines()[1:]]
    assert rows == [["gone", "eco"], ["n1", "asleep"], ["n2", "quarantined"], ["n3", "eco"]]
    wide = [line.split()[:3] for line in (await cli("nodes", "-o", "wide")).out.splitlines()]
    assert wide[0] == ["NODE", "PROFILE", "SLEEP"]
    assert wide[1:] == [
        ["gone", "eco", "-"],
        ["n1", "eco", "asleep"],
        ["n2", "eco", "quarantined"],
        ["n3", "eco", "awake"],
    ]
    data = json.loads((await cli("nodes", "-o", "json")).out)["nodes"]
    assert [each["sleepState"] for each in data] == [None, "asleep", "quarantined", "awake"]


async def test_a_node_that_is_asleep_does_not_draw_what_its_model_says(fake_api, cli):
    fake_api.put_all(managed_node("n1", watts=180, quality="modelled", cap=600, server_watts=12))
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": "asleep"}}})
    (row,) = [line.split() for line in (await cli("nodes")).out.splitlines()[1:]]
    assert row[:8] == ["n1", "asleep", "-", "-", "600", "-", "12", "redfish"]
    (node,) = json.loads((await cli("nodes", "-o", "json")).out)["nodes"]
    assert (node["watts"], node["quality"], node["server"]["watts"]) == (None, None, 12)
