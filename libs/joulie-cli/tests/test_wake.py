"""`kubectl joulie wake`, with an API server whose nodes change as under the operator."""

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE

import pytest

from joulie_api.permissions import VIEWER
from joulie_cli.__main__ import main, perform
from joulie_cli.arguments import make_parser
from joulie_cli.verbs import wake
from joulie_core.labels import AWAKE_UNTIL, SLEEP_STATE
from joulie_core.timestamps import epoch_seconds
from joulie_testing.api import Respond, make_node


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(wake, "_POLL_S", 0.005)


def put(fake_api, name, state=None, until=None):
    labels = {SLEEP_STATE: state} if state else {}
    fake_api.put(make_node(name, labels=labels, annotations={AWAKE_UNTIL: until} if until else {}))


def until(fake_api, name):
    return fake_api.get("Node", name)["metadata"].get("annotations", {}).get(AWAKE_UNTIL)


def set_state(fake_api, name, state):
    fake_api.patch("Node", name, {"metadata": {"labels": {SLEEP_STATE: state}}})


async def test_a_named_node_is_requested_to_be_awake_for_the_time(fake_api, cli):
    put(fake_api, "n1", "asleep")
    put(fake_api, "n2", "asleep")
    result = await cli("wake", "n1", "--for", "90m")
    assert (result.code, result.err) == (0, "")
    assert epoch_seconds(until(fake_api, "n1")) == pytest.approx(time.time() + 5400, abs=30)
    assert until(fake_api, "n2") is None
    heading, row, hint, *_ = result.out.splitlines()
    assert heading.split() == ["NODE", "STATE", "CHANGED", "AWAKE", "UNTIL"]
    assert row.split() == ["n1", "asleep", "yes", until(fake_api, "n1")]
    assert "--wait" in hint + result.out


async def test_all_takes_every_node_that_is_not_awake(fake_api, cli):
    for name, state in {"a": "cordoned", "b": "draining", "c": "powering-off", "d": "asleep", "e": "waking"}.items():
        put(fake_api, name, state)
    put(fake_api, "awake")
    data = json.loads((await cli("wake", "--all", "-o", "json")).out)["nodes"]
    assert [(each["name"], each["state"], each["changed"]) for each in data] == [
        ("a", "cordoned", True),
        ("b", "draining", True),
        ("c", "powering-off", True),
        ("d", "asleep", True),
        ("e", "waking", True),
    ]
    assert data[0]["awakeUntil"] == until(fake_api, "a")
    assert until(fake_api, "awake") is None


async def test_without_a_node_that_sleeps_nothing_is_to_do(fake_api, cli):
    put(fake_api, "awake")
    result = await cli("wake", "--all", "--wait")
    assert (result.code, result.out) == (0, "no node sleeps, is going to sleep or is waking\n")
    assert json.loads((await cli("wake", "--all", "-o", "json")).out) == {"nodes": []}
    assert not fake_api.requests.find(verb="patch")


async def test_a_node_that_is_awake_is_kept_awake(fake_api, cli):
    put(fake_api, "n1")
    result = await cli("wake", "n1", "--wait")
    assert result.code == 0
    assert result.out.splitlines()[1].split()[:3] == ["n1", "awake", "yes"]
    assert len(result.out.splitlines()) == 2


async def test_a_longer_request_stays_and_one_that_cannot_be_read_does_not(fake_api, cli):
    put(fake_api, "n1", "asleep", "2999-01-01T00:00:00Z")
    put(fake_api, "n2", "asleep", "tomorrow")
    data = json.loads((await cli("wake", "n1", "n2", "-o", "json")).out)["nodes"]
    assert [each["changed"] for each in data] == [False, True]
    assert until(fake_api, "n1") == "2999-01-01T00:00:00Z"
    assert until(fake_api, "n2") != "tomorrow"


async def test_an_unknown_name_changes_nothing(fake_api, cli):
    put(fake_api, "n1", "asleep")
    result = await cli("wake", "n1", "nix")
    assert result.code == 3
    assert "no node 'nix'; nothing was changed" in result.err
    assert until(fake_api, "n1") is None


async def follow(fake_api, tmp_path, *arguments):
    """Start to wait; return the task once the states have been read."""
    kubeconfig = str(fake_api.kubeconfig(tmp_path))
    options = make_parser().parse_args(["wake", *arguments, "--wait", "--kubeconfig", kubeconfig])
    task = asyncio.create_task(perform(options))
    await fake_api.wait_for(lambda: fake_api.requests.find(verb="list", kind="Node"))
    return task


async def lists(fake_api):
    """Return after another complete list of the nodes: it has begun after this call, since there are two."""
    before = len(fake_api.requests.find(verb="list", kind="Node"))
    await fake_api.wait_for(lambda: len(fake_api.requests.find(verb="list", kind="Node")) >= before + 2)


async def test_waiting_prints_each_change_until_all_are_awake(fake_api, tmp_path, capsys):
    put(fake_api, "n1", "asleep")
    put(fake_api, "n2", "draining")
    task = await follow(fake_api, tmp_path, "n1", "n2")
    set_state(fake_api, "n2", None)
    await lists(fake_api)
    set_state(fake_api, "n1", "waking")
    await lists(fake_api)
    assert not task.done()
    set_state(fake_api, "n1", None)
    assert await task == 0
    written = [line.split()[1:] for line in capsys.readouterr().out.splitlines()[3:]]
    assert written == [
        ["n2", "draining", "->", "awake"],
        ["n1", "asleep", "->", "waking"],
        ["n1", "waking", "->", "awake"],
    ]


async def test_waiting_ends_with_an_error_at_the_timeout(fake_api, cli):
    put(fake_api, "n1", "asleep")
    put(fake_api, "n2")
    result = await cli("wake", "n1", "n2", "--wait", "--timeout", "50ms")
    assert result.code == 1
    assert "not awake after 50ms: n1 (asleep)\n" in result.err
    assert "kubectl joulie doctor" in result.err


async def test_a_node_that_goes_to_quarantine_ends_the_wait_with_the_way_out(fake_api, tmp_path, capsys):
    put(fake_api, "n1", "waking")
    put(fake_api, "n2", "waking")
    task = await follow(fake_api, tmp_path, "--all", "-o", "json")
    set_state(fake_api, "n1", "quarantined")
    await lists(fake_api)
    assert not task.done()
    set_state(fake_api, "n2", None)
    assert await task == 1
    written = capsys.readouterr()
    states = {each["name"]: (each["state"], each["problem"]) for each in json.loads(written.out)["nodes"]}
    assert states == {
        "n1": ("quarantined", "is in quarantine: its boots have failed, and a request does not wake it"),
        "n2": ("awake", None),
    }
    assert "node n1 is in quarantine" in written.err
    assert "kubectl joulie wake n1 --clear-quarantine" in written.err


async def test_nodes_in_quarantine_are_left_as_they_are_and_named(fake_api, cli):
    put(fake_api, "n1", "quarantined")
    put(fake_api, "n2", "quarantined")
    put(fake_api, "n3", "asleep")
    result = await cli("wake", "--all")
    assert result.code == 1
    assert "node n1 is in quarantine" in result.err
    assert "node n2 is in quarantine" in result.err
    assert (until(fake_api, "n1"), until(fake_api, "n3") is not None) == (None, True)


async def test_a_node_that_is_deleted_is_not_taken_for_awake(fake_api, tmp_path, capsys):
    put(fake_api, "n1", "asleep")
    task = await follow(fake_api, tmp_path, "n1")
    fake_api.remove("Node", "n1")
    assert await task == 1
    assert "node n1 was deleted meanwhile" in capsys.readouterr().err


async def test_an_api_server_that_is_away_for_a_moment_does_not_end_the_wait(fake_api, tmp_path):
    put(fake_api, "n1", "asleep")
    task = await follow(fake_api, tmp_path, "n1")
    fake_api.faults.add(Respond(503), verb="list", path="/nodes", times=3)
    await lists(fake_api)
    set_state(fake_api, "n1", None)
    assert await task == 0


async def test_an_api_server_that_stays_away_is_named_at_the_timeout(fake_api, cli):
    put(fake_api, "n1", "asleep")
    fake_api.faults.add(Respond(503, message="too busy"), verb="list", path="/nodes", times=None)
    result = await cli("wake", "n1", "--wait", "--timeout", "50ms")
    assert result.code == 1
    assert "the API server does not answer: too busy" in result.err


async def test_an_interrupted_wait_is_no_success(fake_api, tmp_path, capsys):
    put(fake_api, "n1", "asleep")
    task = await follow(fake_api, tmp_path, "n1")
    task.cancel()
    assert await task == 1
    assert "interrupted before all nodes were awake: n1" in capsys.readouterr().err


@pytest.fixture
def interruptible():
    """Have started processes take SIGINT: a shell that runs the tests in its background lets all of them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
async def test_ctrl_c_ends_the_program_with_an_error(fake_api, tmp_path):
    """A shell goes on after `&&` where a program ends with 0."""
    put(fake_api, "n1", "asleep")
    argv = [sys.executable, "-m", "joulie_cli", "wake", "--all", "--wait"]
    process = await asyncio.create_subprocess_exec(
        *argv, "--kubeconfig", str(fake_api.kubeconfig(tmp_path)), stdout=PIPE, stderr=PIPE
    )
    # The first list is that of --all.
    await fake_api.wait_for(lambda: len(fake_api.requests.find(verb="list", kind="Node")) > 1)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, err) == (1, b"error: interrupted before all nodes were awake: n1\n")
    assert out.startswith(b"NODE  STATE   CHANGED")


@pytest.mark.parametrize("verb", ["get", "patch"])
async def test_a_missing_permission_is_named_with_the_way_out(fake_api, cli, verb):
    put(fake_api, "n1", "asleep")
    message = f'nodes "n1" is forbidden: User "eve" cannot {verb} resource "nodes"'
    fake_api.faults.add(Respond(403, message=message), verb=verb, path="/nodes/n1")
    result = await cli("wake", "n1")
    assert (result.code, result.out) == (3, "")
    assert f'User "eve" cannot {verb} resource "nodes"' in result.err
    assert "wake needs get, list and patch on nodes" in result.err
    assert "docs/kubectl-joulie.md, Permissions" in result.err


async def test_a_request_that_fails_midway_shows_what_was_changed(fake_api, cli):
    put(fake_api, "n1", "asleep")
    put(fake_api, "n2", "asleep")
    fake_api.faults.add(Respond(403, message="no"), verb="patch", path="/nodes/n2")
    result = await cli("wake", "n1", "n2")
    assert result.code == 3
    assert result.out.splitlines()[1].split()[:3] == ["n1", "asleep", "yes"]


async def test_one_verb_is_needed_beyond_the_role_that_reads(fake_api, tmp_path):
    put(fake_api, "n1", "asleep")
    put(fake_api, "n2", "waking")
    task = await follow(fake_api, tmp_path, "n1")
    set_state(fake_api, "n1", None)
    await task
    used = {(request.verb, request.kind) for request in fake_api.requests if request.kind}
    assert used == {("get", "Node"), ("list", "Node"), ("patch", "Node")}
    reads = {verb for grant in VIEWER.cluster for verb in grant.verbs if "nodes" in grant.names}
    assert {verb for verb, _ in used} - reads == {"patch"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name nodes, or give --all"),
        (["n1", "--all"], "name nodes, or give --all"),
        (["n1", "--wait", "--for", "10m"], "--for is shorter than --timeout"),
    ],
)
async def test_a_wrong_command_line_sends_nothing(fake_api, cli, arguments, text):
    result = await cli("wake", *arguments)
    assert (result.code, text in result.err) == (2, True)
    assert not fake_api.requests.find(kind="Node")


@pytest.mark.parametrize("duration", ["soon", "-1h", "0s", "9000h"])
def test_a_duration_that_cannot_be_used_is_named(capsys, duration):
    with pytest.raises(SystemExit, match="2"):
        main(["wake", "n1", f"--for={duration}"])
    assert duration in capsys.readouterr().err


async def test_the_rows_fit_80_columns_on_a_terminal(fake_api, cli, monkeypatch):
    monkeypatch.setattr(wake, "terminal_width", lambda: 80)
    put(fake_api, "a-node-with-a-very-long-name-of-a-cloud.eu-south-1.compute.internal", "powering-off")
    result = await cli("wake", "--all")
    assert max(len(line) for line in result.out.splitlines()) <= 80


# --- quarantine -------------------------------------------------------------------------------------------------------


async def test_one_command_clears_the_quarantine_of_all_nodes_and_leaves_the_others(fake_api, cli):
    for name, state in (("n1", "quarantined"), ("n2", "asleep"), ("n3", None), ("n4", "quarantined")):
        put(fake_api, name, state)
    data = json.loads((await cli("wake", "--all", "--clear-quarantine", "-o", "json")).out)["nodes"]
    assert [(each["name"], each["state"], each["changed"]) for each in data] == [
        ("n1", "awake", True),
        ("n4", "awake", True),
    ]
    patches = fake_api.requests.find(verb="patch")
    assert [json.loads(each.body) for each in patches] == [{"metadata": {"labels": {SLEEP_STATE: None}}}] * 2
    assert "sleep-state" not in str(fake_api.get("Node", "n1")["metadata"]["labels"])
    assert until(fake_api, "n1") is None
    result = await cli("wake", "--all", "--clear-quarantine")
    assert (result.code, result.out) == (0, "no node is in quarantine\n")


async def test_the_quarantine_of_a_named_node_is_cleared_and_one_that_has_none_is_left(fake_api, cli):
    put(fake_api, "n1", "quarantined")
    put(fake_api, "n2", "asleep")
    result = await cli("wake", "n1", "n2", "--clear-quarantine")
    assert result.code == 0
    assert [row.split()[:3] for row in result.out.splitlines()[1:]] == [["n1", "awake", "yes"], ["n2", "asleep", "no"]]
    assert len(fake_api.requests.find(verb="patch")) == 1


async def test_clearing_does_not_wait(fake_api, cli):
    put(fake_api, "n1", "quarantined")
    assert (await cli("wake", "n1", "--clear-quarantine", "--wait")).code == 2
    assert not fake_api.requests.find(verb="patch")
