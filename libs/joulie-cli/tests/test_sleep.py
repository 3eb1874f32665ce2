"""`kubectl joulie sleep`: who sleeps, since when, why, power cycles, watts, and what policies say."""

import json
import time

import pytest

from joulie_core.labels import MAINTENANCE, SLEEP_RECORD, SLEEP_STATE
from joulie_testing.api import make_node, make_node_bmc
from joulie_testing.cli import ago

STATES = {"asleep": "Asleep", "waking": "Waking", "quarantined": "Quarantined", "powering-off": "PoweringOff"}


def put_node(fake_api, name, state, *, record=None, text=None, pool="a", since_s=7205, reason="off confirmed"):
    known = {"sleeps": 17, "cycles": [time.time() - 90_000, time.time() - 3600, time.time() - 60]} | (record or {})
    annotations = {SLEEP_RECORD: json.dumps(known) if text is None else text}
    node = make_node(name, labels={"pool": pool} | ({SLEEP_STATE: state} if state else {}), annotations=annotations)
    if state:
        message = f"{STATES[state]}: {reason}"
        condition = {"type": "joulie.io/Asleep", "reason": STATES[state], "message": message}
        node["status"]["conditions"] = [condition | {"lastTransitionTime": ago(since_s)}]
    fake_api.put(node)


def put_bmc(fake_api, name, power="Off", watts=None, reachable="True"):
    status = {"powerState": power, "conditions": [{"type": "Reachable", "status": reachable}]}
    status |= {"sampledAt": ago(5), "intervalSeconds": 60}
    fake_api.put(make_node_bmc(name, status=status | ({} if watts is None else {"powerWatts": watts})))


def put_policy(fake_api, name="night", *, pool="a", status=None, **spec):
    body = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeSleepPolicy", "metadata": {"name": name}}
    fake_api.put(body | {"spec": {"nodeSelector": {"pool": pool}, "mode": "Act", **spec}, "status": status or {}})


async def data(cli, *arguments):
    result = await cli("sleep", "-o", "json", *arguments)
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


async def test_a_node_that_sleeps_has_a_row_with_its_time_reason_cycles_watts_and_bmc(fake_api, cli):
    put_policy(fake_api)
    put_node(fake_api, "n1", "asleep", record={"idleWatts": 212.0, "idleMeasured": True})
    put_bmc(fake_api, "n1", watts=12.0)
    result = await cli("sleep")
    assert (result.code, result.err) == (0, "")
    heading, row, *_ = result.out.splitlines()
    assert heading.split() == [
        "NODE",
        "STATE",
        "FOR",
        "WHY",
        "TODAY",
        "EVER",
        "NOT",
        "DRAWN",
        "SOURCE",
        "BMC",
        "POLICY",
    ]
    assert row.split() == ["n1", "asleep", "2h", "off", "confirmed", "2", "17", "200", "measured", "Off", "night"]
    (node,) = (await data(cli))["nodes"]
    assert node["since"] is not None
    assert {key: node[key] for key in node if key != "since"} == {
        "name": "n1",
        "policy": "night",
        "state": "asleep",
        "reason": "off confirmed",
        "maintenance": None,
        "wokenBy": ["pending_pods", "min_awake", "spare", "schedule", "rollout", "request"],
        "powerCycles": {"today": 2, "total": 17},
        "notDrawnWatts": 200.0,
        "source": "measured",
        "bmc": {"power": "Off", "reachable": True, "watts": 12.0},
    }


async def test_watts_are_summed_by_source_and_those_that_are_unknown_are_counted_and_not_zero(fake_api, cli):
    put_policy(fake_api)
    put_node(fake_api, "measured", "asleep", record={"idleWatts": 212.0, "idleMeasured": True})
    put_node(fake_api, "modelled", "asleep", record={"idleWatts": 150.0})
    put_node(fake_api, "unknown", "asleep")
    put_node(fake_api, "booting", "waking", record={"idleWatts": 500.0, "idleMeasured": True})
    found = await data(cli)
    assert {each["name"]: (each["notDrawnWatts"], each["source"]) for each in found["nodes"]} == {
        "booting": (None, None),
        "measured": (212.0, "measured"),
        "modelled": (150.0, "modelled"),
        "unknown": (None, None),
    }
    assert found["sums"] == {
        "asleep": 3,
        "otherStates": 1,
        "powerCyclesToday": 8,
        "notDrawnWatts": {"measured": 212.0, "modelled": 150.0, "unknownNodes": 1},
    }
    text = (await cli("sleep")).out
    assert "212 W measured before, 150 W modelled, unknown of 1 node" in text
    assert "3 asleep, 1 in other states" in text


async def test_what_is_not_known_of_any_node_is_no_zero(fake_api, cli):
    put_node(fake_api, "n1", "asleep")
    text = " ".join((await cli("sleep")).out.split())
    assert "Not drawn unknown of 1 node" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 5000,
        '{"sleeps": -1}',
        '{"cycles": ["noon"]}',
        '{"idleWatts": 1e300, "idleMeasured": true}',
        '{"idleWatts": -5}',
    ],
    ids=["empty", "deep", "negative", "no times", "more than any machine", "less than nothing"],
)
async def test_a_record_that_cannot_be_read_leaves_figures_unknown_and_the_node_listed(fake_api, cli, text):
    put_node(fake_api, "n1", "asleep", text=text)
    (node,) = (await data(cli))["nodes"]
    assert (node["name"], node["powerCycles"]) == ("n1", {"today": None, "total": None})
    assert (node["notDrawnWatts"], node["source"]) == (None, None)


async def test_a_bmc_that_is_silent_is_named_and_its_last_watts_are_none(fake_api, cli):
    put_node(fake_api, "n1", "asleep", record={"idleWatts": 100.0})
    put_bmc(fake_api, "n1", watts=12.0, reachable="False")
    (node,) = (await data(cli))["nodes"]
    assert node["bmc"] == {"power": "Off", "reachable": False, "watts": None}
    assert node["notDrawnWatts"] == 100.0
    assert "no answer" in (await cli("sleep")).out


@pytest.mark.parametrize(
    ("watts", "asleep_s", "not_drawn"),
    [(12.0, 600, 88.0), (12.0, 60, 100.0), (90.0, 100, 100.0), (100.0, 600, 100.0), (344.0, 600, 100.0)],
    ids=["standby", "just off", "kept from before", "as while it was on", "more than while it was on"],
)
async def test_only_a_reading_of_the_server_while_it_is_off_is_standby(fake_api, cli, watts, asleep_s, not_drawn):
    put_node(fake_api, "n1", "asleep", record={"idleWatts": 100.0}, since_s=asleep_s)
    put_bmc(fake_api, "n1", watts=watts)
    assert (await data(cli))["nodes"][0]["notDrawnWatts"] == not_drawn


async def test_watts_of_a_server_that_its_bmc_reports_as_on_are_no_standby(fake_api, cli):
    put_node(fake_api, "n1", "asleep", record={"idleWatts": 100.0})
    put_bmc(fake_api, "n1", power="On", watts=90.0)
    assert (await data(cli))["nodes"][0]["notDrawnWatts"] == 100.0


async def test_a_policy_says_what_wakes_its_nodes_what_is_used_and_why_others_stay_awake(fake_api, cli):
    status = {
        "nodes": {"selected": 40, "awake": 30, "asleep": 9, "waking": 1},
        "powerCycles": {"limit": 4, "used": 4, "total": 31, "exhausted": 2},
        "rackBoots": {"limit": 10, "used": 1, "full": 0, "withoutRack": 0},
        "refusals": [{"reason": "bmc_unknown", "nodes": 3}, {"reason": "power_cycles", "nodes": 2}],
        "consolidation": {"nodes": 9, "pods": 14, "watts": 1800, "names": [f"n{number}" for number in range(9)]},
    }
    window = {"days": ["Mon"], "start": "07:30", "end": "19:00", "minAwake": 10}
    put_policy(fake_api, status=status, minAwake={"count": 2, "spare": 1}, schedules=[window])
    result = await cli("sleep")
    text = " ".join(result.out.split())
    assert "no node sleeps, is going to sleep or is waking" in text
    for part in (
        "Policy night, mode Act",
        "40, 30 awake and 9 asleep",
        "31 within 24 hours, 4 of 4 of one node; 2 nodes at the limit",
        "1 of 10 in one rack",
        "3 by bmc_unknown, 2 by power_cycles",
        "n0, n1, n2, n3, n4, n5, n6, n7 and 1 more, 1800 W, by moving 14 pods; spec.consolidation.mode Act does it",
        "2 of each hardware family, 1 without pods, 1 schedule",
        "pods that kube-scheduler finds no node for",
    ):
        assert part in text
    (policy,) = (await data(cli))["policies"]
    assert policy["refusals"] == {"bmc_unknown": 3, "power_cycles": 2}
    assert policy["powerCycles"] == status["powerCycles"]
    assert policy["rackBoots"] == status["rackBoots"]
    assert policy["consolidation"] == {"mode": "Recommend", **status["consolidation"]}


@pytest.mark.parametrize(
    ("spare_of", "told"),
    [
        ("Family", "2 without pods"),
        ("Resources", "2 without pods of all families with the same resources"),
        ("Arrivals", "up to 2 without pods of all families with the same resources"),
    ],
)
async def test_a_policy_says_what_shares_its_spare_nodes(fake_api, cli, spare_of, told):
    put_policy(fake_api, minAwake={"count": 0, "spare": 2, "spareOf": spare_of})
    text = " ".join((await cli("sleep")).out.split())
    assert f"0 of each hardware family, {told}" in text
    assert ("families with" in text) is ("families with" in told)


async def test_one_policy_shows_its_own_nodes_and_the_first_by_name_owns_a_node(fake_api, cli):
    put_policy(fake_api, "b")
    put_policy(fake_api, "a")
    put_policy(fake_api, "other", pool="z")
    put_node(fake_api, "n1", "asleep")
    put_node(fake_api, "n2", "asleep", pool="z")
    put_node(fake_api, "n3", "waking", pool="none")
    owners = {each["name"]: each["policy"] for each in (await data(cli))["nodes"]}
    assert owners == {"n1": "a", "n2": "other", "n3": None}
    found = await data(cli, "--policy", "other")
    assert [each["name"] for each in found["nodes"]] == ["n2"]
    assert [each["name"] for each in found["policies"]] == ["other"]
    assert (await data(cli, "--policy", "b"))["nodes"] == []


async def test_a_policy_that_does_not_exist_is_an_error(fake_api, cli):
    put_policy(fake_api)
    result = await cli("sleep", "--policy", "nihgt")
    assert (result.code, result.out) == (3, "")
    assert "there is no NodeSleepPolicy 'nihgt'" in result.err


async def test_a_node_in_quarantine_is_woken_by_nothing(fake_api, cli):
    put_policy(fake_api)
    put_node(fake_api, "n1", "quarantined", reason="boot timeout")
    (node,) = (await data(cli))["nodes"]
    assert (node["state"], node["reason"], node["wokenBy"]) == ("quarantined", "boot timeout", [])


async def test_a_node_in_maintenance_says_who_works_on_it_and_is_woken_by_nothing(fake_api, cli):
    put_policy(fake_api)
    put_node(fake_api, "n1", "asleep", reason="off confirmed; maintenance: ana: new fan")
    fake_api.patch("Node", "n1", {"metadata": {"annotations": {MAINTENANCE: "ana: new fan"}}})
    (node,) = (await data(cli))["nodes"]
    assert (node["maintenance"], node["wokenBy"]) == ("ana: new fan", [])
    assert "maintenance: ana: new fan" in (await cli("sleep")).out


async def test_texts_of_the_cluster_do_not_control_the_terminal(fake_api, cli):
    put_node(fake_api, "n1", "asleep", reason="\x1b[2Jfine")
    put_bmc(fake_api, "n1", power="\x1b[31mOff")
    for arguments in ((), ("-o", "json"), ("-o", "yaml")):
        result = await cli("sleep", *arguments)
        assert "\x1b" not in result.out
        assert "n1" in result.out
