"""`kubectl joulie power`: the tree, with unknown apart from zero, and nothing that looks like protection."""

import json

import pytest

from joulie_cli.verbs import power_oversubscribed
from joulie_core.budget import oversubscription
from joulie_testing.api import make_node_power_budget, make_power_domain
from joulie_testing.cli import ago

ACCEPTED = {"type": "Accepted", "status": "True", "reason": "Valid"}
WITHIN = {"type": "Held", "status": "True", "reason": "WithinLimit"}
ABOVE = {"type": "Held", "status": "False", "reason": "AboveLimit"}


def put(fake_api, name, parent=None, *, limit_watts=1_000, age_s=5, held=WITHIN, drawn=None, **status):
    spec = {} if parent is None else {"parent": parent}
    found = {"mode": "Observe", "nodes": 2, "lastUpdated": ago(age_s), "conditions": [ACCEPTED, held], **status}
    if drawn is not None:
        found["drawn"] = drawn
    fake_api.put(make_power_domain(name, limit_watts=limit_watts, status=found, **spec))


async def rows(cli):
    result = await cli("power")
    assert (result.code, result.err) == (0, "")
    return [each.split() for each in result.out.splitlines()[1:]]


async def test_children_are_below_their_parent_and_indented(fake_api, cli):
    for name, parent in (("b", "feed"), ("a", "feed"), ("a1", "a"), ("feed", None), ("other", None)):
        put(fake_api, name, parent)
    result = await cli("power")
    names = [each[: each.rindex("1000")].rstrip() for each in result.out.splitlines()[1:6]]
    assert names == ["feed", "  a", "    a1", "  b", "other"]


async def test_it_says_that_nothing_is_lowered(fake_api, cli):
    put(fake_api, "feed")
    for arguments in (("power",), ("power", "feed")):
        result = await cli(*arguments)
        assert "Mode Observe: nothing is lowered, and no breaker is protected." in " ".join(result.out.split())


async def test_bars_tell_measured_from_modelled_and_from_what_is_left(fake_api, cli):
    put(fake_api, "a", drawn={"measuredWatts": 400, "modelledWatts": 200}, inForceWatts=900, allocatedWatts=900)
    assert (await rows(cli))[0] == ["a", "1000", "████▒▒····", "600", "900", "900", "2", "Observe", "WithinLimit"]


async def test_zero_and_unknown_are_not_the_same(fake_api, cli):
    put(fake_api, "none", drawn={"unknownNodes": 2}, unknownNodes=2)
    put(fake_api, "part", drawn={"measuredWatts": 100, "unknownNodes": 1}, unknownNodes=1)
    put(fake_api, "zero", drawn={"measuredWatts": 0, "measuredNodes": 2}, inForceWatts=0, allocatedWatts=0)
    none, part, zero, *_ = await rows(cli)
    assert none == ["none", "1000", "-", "-", "-", "-", "0+2", "Observe", "WithinLimit"]
    assert part[2:5] == ["█·········?", "100?", "-"]
    assert zero[2:7] == ["··········", "0", "0", "0", "2"]


async def test_an_oversubscribed_domain_tells_how_far_its_limits_are_raised_and_how_warm_its_breaker_is(fake_api, cli):
    over = {"raised": True, "permittedWatts": 1_300, "fallbackWatts": 990, "breakerDamagePercent": 12.4, "reason": "ok"}
    put(fake_api, "a", mode="Enforce", oversubscription=over)
    for name, falls in (("n1", True), ("n2", False)):
        status = {"sequence": 1, "inForceWatts": 400, "oversubscription": {"sample": 1, "fallingBack": falls}}
        fake_api.put(make_node_power_budget(name, status=status, powerDomain="a"))
    result = await cli("power", "a")
    text = " ".join(result.out.split())
    assert "Oversubscribed raised up to 1300 W: ok; nodes fall back to 990 W; 12 % of what trips the breaker" in text
    assert [each.split()[:4] for each in result.out.splitlines()[-2:]] == [
        ["n1", "400", "400", "falling"],
        ["n2", "400", "400", "confirmed"],
    ]
    put(fake_api, "a", oversubscription=over | {"raised": False, "fallbackWatts": None})
    text = " ".join((await cli("power", "a")).out.split())
    assert "not raised up to 1300 W: ok; nodes fall back to -; 12 %" in text


HELD_ABOVE = {"type": "Held", "status": "True", "reason": "Oversubscribed"}


async def test_limits_that_are_raised_are_no_violation_in_the_tree(fake_api, cli):
    over = {"raised": True, "permittedWatts": 1_300, "breakerDamagePercent": 12.0, "assumedDamagePercent": 2.0}
    put(fake_api, "a", mode="Enforce", held=HELD_ABOVE, inForceWatts=1_250, oversubscription=over)
    put(fake_api, "b", mode="Enforce", inForceWatts=1_000, oversubscription=over)
    put(fake_api, "c", mode="Enforce", inForceWatts=900, oversubscription=over | {"raised": False})
    put(fake_api, "d", mode="Enforce", held=ABOVE, inForceWatts=1_250)
    text = (await cli("power")).out
    table = [each.split() for each in text.splitlines()[1:5]]
    assert [each[4:] for each in table] == [
        ["1250", "of", "1300", "-", "2", "Enforce", "Oversubscribed"],
        ["1000", "-", "2", "Enforce", "WithinLimit,", "raised"],
        ["900", "-", "2", "Enforce", "WithinLimit,", "not", "raised"],
        ["1250", "-", "2", "Enforce", "AboveLimit"],
    ]
    legend = "may be above LIMIT, up to the watts behind it, while what its nodes draw is measured"
    assert legend in " ".join(text.split())


async def test_without_limits_above_an_oversubscribed_domain_nothing_is_said_of_them(fake_api, cli):
    over = {"raised": True, "permittedWatts": 1_300}
    put(fake_api, "a", mode="Enforce", inForceWatts=1_000, oversubscription=over)
    put(fake_api, "b", mode="Enforce", held=ABOVE, inForceWatts=1_250)
    assert "may be above LIMIT" not in " ".join((await cli("power")).out.split())


@pytest.mark.parametrize(
    ("damage", "assumed", "state"),
    [
        (24.9, 0, "Oversubscribed"),
        (100, 75.1, "Oversubscribed"),
        (25, 0, "Oversubscribed, breaker at 25 %"),
        (100, 40, "Oversubscribed, breaker at 60 %"),
    ],
)
async def test_a_breaker_that_is_counted_as_warm_is_in_the_tree(fake_api, cli, damage, assumed, state):
    over = {"raised": False, "permittedWatts": 1_300, "breakerDamagePercent": damage, "assumedDamagePercent": assumed}
    put(fake_api, "a", mode="Enforce", held=HELD_ABOVE, oversubscription=over)
    assert (await cli("power")).out.splitlines()[1].endswith(f"  {state}")


async def test_damage_that_is_assumed_is_told_from_what_was_counted(fake_api, cli):
    over = {"raised": False, "permittedWatts": 1_300, "breakerDamagePercent": 90.0, "assumedDamagePercent": 80.0}
    put(fake_api, "a", mode="Enforce", oversubscription=over)
    text = " ".join((await cli("power", "a")).out.split())
    assert "90 % of what trips the breaker (10 % counted, 80 % assumed of a time that was not seen)" in text


async def test_the_rest_of_servers_tells_how_it_is_known(fake_api, cli):
    rest = {"watts": 900, "measuredNodes": 2, "modelledNodes": 1, "modelledWatts": 500, "modelledLeastWatts": 200}
    put(fake_api, "a", rest=rest)
    text = " ".join((await cli("power", "a")).out.split())
    assert "900 W beyond CPU packages and GPUs: of 2 nodes by their BMCs, of 1 node by models, 200 W to 500 W" in text
    put(fake_api, "a", rest={"watts": 0, "unknownNodes": 3})
    text = " ".join((await cli("power", "a")).out.split())
    assert "0 W beyond CPU packages and GPUs: of 0 nodes by their BMCs, unknown of 3 nodes" in text


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"held": ABOVE}, "AboveLimit"),
        ({"age_s": 601}, "10m old"),
        ({"lastUpdated": None}, "not observed"),
        ({"conditions": [{"type": "Accepted", "status": "False", "reason": "Cycle"}]}, "Cycle"),
    ],
)
async def test_the_state_is_the_first_thing_that_is_wrong(fake_api, cli, status, state):
    put(fake_api, "a", **status)
    assert (await cli("power")).out.splitlines()[1].endswith(f"  {state}")


async def test_domains_in_a_cycle_without_parent_or_that_cannot_be_read_hide_no_other(fake_api, cli):
    for name, parent in (("x", "y"), ("y", "x"), ("lost", "gone"), ("good", None)):
        put(fake_api, name, parent)
    fake_api.put(make_power_domain("bad", limit_watts="many"))
    found = [each[0] for each in await rows(cli) if each]
    assert found[:5] == ["bad", "good", "lost", "x", "y"]
    assert (await rows(cli))[0] == ["bad", "-", "-", "-", "-", "-", "-", "-", "Unreadable"]


async def test_one_domain_is_shown_with_its_conditions_and_the_nodes_that_would_be_lowered(fake_api, cli):
    lowered = [
        {"node": f"n{index}", "wantedWatts": 500, "allocatedWatts": 300, "reason": "limit of a"} for index in range(25)
    ]
    put(fake_api, "a", "feed", lowered=lowered, loweredNodes=40, limitedNodes=50, shortfallWatts=20, held=ABOVE)
    result = await cli("power", "a")
    text = result.out
    assert "a, below feed" in text
    assert "False, AboveLimit" in text
    assert "20 W that no lowering could help" in text
    assert "40 below what they want, of 50 limited" in text
    assert [line.split()[0] for line in text.splitlines() if "limit of a" in line] == [f"n{i}" for i in range(20)]
    assert "and 20 nodes more" in text


async def test_a_domain_that_does_not_exist_and_none_at_all(fake_api, cli):
    result = await cli("power", "gone")
    assert (result.code, result.err.splitlines()[0]) == (3, "error: there is no PowerDomain 'gone'")
    assert (await cli("power")).out == "There is no PowerDomain: docs/power-budgets.md has an example.\n"


async def test_data_has_null_for_what_is_not_known(fake_api, cli):
    put(fake_api, "a", drawn={"unknownNodes": 2})
    (found,) = json.loads((await cli("power", "-o", "json")).out)["domains"]
    assert (found["name"], found["limitWatts"], found["parent"]) == ("a", 1_000, None)
    assert (found["status"]["inForceWatts"], found["status"]["drawn"]["measuredWatts"]) == (None, None)


def limited(fake_api, node, domain, *, limit_watts=400, **status):
    spec = {"powerDomain": domain, "sequence": 3}
    fake_api.put(make_node_power_budget(node, limit_watts=limit_watts, status=status or None, **spec))


async def test_an_enforced_domain_names_the_limit_of_each_node_below_it_and_what_is_in_force(fake_api, cli):
    put(fake_api, "feed", mode="Enforce", unconfirmedNodes=1, refusedNodes=1, silentNodes=0, largestInForceWatts=980)
    put(fake_api, "a", "feed", mode="Enforce")
    put(fake_api, "other", mode="Enforce")
    limited(fake_api, "n1", "a", sequence=3, inForceWatts=410)
    limited(fake_api, "n2", "feed", sequence=3, inForceWatts=300, refused=True)
    limited(fake_api, "n3", "a", limit_watts=None, sequence=2)
    limited(fake_api, "n4", "other")
    text = (await cli("power", "feed")).out
    assert "nothing is lowered" not in text
    assert "1 unconfirmed, 1 refused, 0 silent" in text
    assert "980 W since it was first within this limit" in text
    table = [each.split() for each in text.splitlines() if each.startswith("n")]
    assert table == [
        ["n2", "400", "300", "refused"],
        ["n3", "-", "-", "unconfirmed"],
        ["n1", "400", "410", "confirmed"],
    ]
    data = json.loads((await cli("power", "feed", "-o", "json")).out)
    assert data["limits"][0] == {
        "node": "n1", "powerDomain": "a", "askedWatts": 400, "inForceWatts": 410, "state": "confirmed",
    }  # fmt: skip
    feed = next(each for each in await rows(cli) if each and each[0] == "feed")
    assert feed[-3:] == ["Enforce", "1", "refused"]


async def test_a_limit_that_cannot_be_read_hides_no_other(fake_api, cli):
    put(fake_api, "a", mode="Enforce")
    limited(fake_api, "n1", "a")
    limited(fake_api, "n2", "a", limit_watts="many")
    assert [each.split()[0] for each in (await cli("power", "a")).out.splitlines() if each.startswith("n")] == ["n1"]


def test_a_breaker_is_warm_from_the_damage_on_that_the_operator_withdraws_limits_at():
    assert 100 * oversubscription.WARM == power_oversubscribed._WARM_PCT
