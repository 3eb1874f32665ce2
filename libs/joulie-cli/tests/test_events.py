import asyncio
import json

from joulie_cli.__main__ import perform
from joulie_cli.arguments import make_parser
from joulie_testing.cli import ago, make_event


async def test_events_of_joulie_are_shown_newest_last(fake_api, cli):
    fake_api.put(make_event("Node", "n1", "EcoAllowed", "second", at=ago(60)))
    fake_api.put(make_event("Node", "n2", "EcoDeferred", "first", at=ago(3700)))
    fake_api.put(make_event("Pod", "p", "Bad", "third", component="joulie-agent", namespace="ml", at=ago(2)))
    fake_api.put(make_event("Pod", "p", "Pulled", "not of Joulie", component="kubelet", at=ago(1)))
    heading, *rows = (await cli("events")).out.splitlines()
    assert heading.split() == ["AGE", "REASON", "OBJECT", "MESSAGE"]
    assert [row.split()[1:] for row in rows] == [
        ["EcoDeferred", "node/n2", "first"],
        ["EcoAllowed", "node/n1", "second"],
        ["Bad", "pod/p", "third"],
    ]


async def test_a_namespace_limits_them_unless_all_are_requested(fake_api, cli):
    fake_api.put(make_event("Node", "n1", "EcoAllowed", "of nodes", at=ago(60)))
    fake_api.put(make_event("Pod", "p", "Bad", "of pods", component="joulie-agent", namespace="ml", at=ago(2)))
    assert "of nodes" not in (await cli("events", "-n", "ml")).out
    assert "of nodes" in (await cli("events", "-n", "ml", "-A")).out


async def test_events_are_also_data(fake_api, cli):
    fake_api.put(make_event("Node", "n1", "EcoAllowed", "message", at=ago(60), count=3))
    (event,) = json.loads((await cli("events", "-o", "json")).out)["events"]
    assert (event["reason"], event["count"], event["object"]["name"]) == ("EcoAllowed", 3, "n1")


async def test_following_prints_each_new_event_once(fake_api, tmp_path, capsys):
    fake_api.put(make_event("Node", "n1", "EcoAllowed", "old", at=ago(60)))
    arguments = ["events", "-w", "--kubeconfig", str(fake_api.kubeconfig(tmp_path))]
    task = asyncio.create_task(perform(make_parser().parse_args(arguments)))
    await fake_api.wait_for(lambda: fake_api.watches("Event") == 2)
    fake_api.put(make_event("Node", "n2", "EcoUnblocked", "new", at=ago(0)))
    written = ""
    async with asyncio.timeout(10):
        while "EcoUnblocked" not in written:
            await asyncio.sleep(0)
            written += capsys.readouterr().out
    task.cancel()
    assert (written.count("EcoAllowed"), written.count("EcoUnblocked")) == (1, 1)
