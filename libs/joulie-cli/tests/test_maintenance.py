"""`kubectl joulie maintenance`: the annotation with who and why, and nothing else."""

import getpass
import json

import pytest

from joulie_core.labels import MAINTENANCE
from joulie_testing.api import Respond, make_node


@pytest.fixture(autouse=True)
def _user(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")


def maintenance(fake_api, name):
    return fake_api.get("Node", name)["metadata"].get("annotations", {}).get(MAINTENANCE)


async def test_a_maintenance_begins_with_who_and_why_and_ends(fake_api, cli):
    for name in ("n1", "n2", "n3"):
        fake_api.put(make_node(name))
    result = await cli("maintenance", "n1", "n2", "--reason", " new\x1b fan ")
    assert (result.code, result.err) == (0, "")
    text = "ada: new\N{REPLACEMENT CHARACTER} fan"
    assert result.out.splitlines() == [f"{name} (awake): in maintenance, {text}" for name in ("n1", "n2")]
    assert [maintenance(fake_api, name) for name in ("n1", "n2", "n3")] == [text, text, None]
    (first, _) = fake_api.requests.find(verb="patch")
    assert json.loads(first.body) == {"metadata": {"annotations": {MAINTENANCE: text}}}
    ended = await cli("maintenance", "n1", "--end", "-o", "json")
    assert json.loads(ended.out) == {"nodes": [{"name": "n1", "state": "awake", "maintenance": None}]}
    assert maintenance(fake_api, "n1") is None


async def test_where_a_node_does_not_exist_nothing_is_changed(fake_api, cli):
    fake_api.put(make_node("n1"))
    result = await cli("maintenance", "n1", "nodes-typo", "--reason", "new fan")
    assert result.code == 3
    assert "nodes-typo" in result.err
    assert not fake_api.requests.find(verb="patch")


async def test_a_permission_that_is_missing_is_named(fake_api, cli):
    fake_api.put(make_node("n1"))
    fake_api.faults.add(Respond(403), verb="patch", path="/nodes", times=None)
    result = await cli("maintenance", "n1", "--end")
    assert result.code == 3
    assert "maintenance needs get and patch on nodes" in result.err


@pytest.mark.parametrize("arguments", [[], ["--reason", " "], ["--reason", "a", "--end"]])
async def test_a_reason_or_an_end_is_needed_and_not_both(cli, arguments):
    with pytest.raises(SystemExit) as ended:
        await cli("maintenance", "n1", *arguments)
    assert ended.value.code == 2
