"""The live page of running operators: what the leader and a standby show. `cluster` is in the operator's conftest."""

import asyncio
import json
import socket

import aiohttp
import pytest

from joulie_api.settings import SettingsError, read_settings
from joulie_devcluster.host.ports import free_port
from joulie_operator.settings import settings_model
from joulie_testing.api import make_node, make_pod, make_telemetry_profile

NODES = [make_node(f"node-{index}", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256) for index in range(4)]


class Shown:
    """What an open page shows."""

    def __init__(self):
        self.classes, self.state, self.history = {}, None, []

    def complete(self, classes):
        return self.classes == classes and self.state is not None and not self.state["staleWatches"]


async def read(port, done):
    """Read the page of an operator until what it shows is `done`."""
    shown = Shown()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/ui/events", timeout=aiohttp.ClientTimeout(total=30)) as answer,
    ):
        while not done(shown):
            name, _, data = (await answer.content.readuntil(b"\n\n")).decode().partition("\ndata: ")
            match name:
                case "event: nodes":
                    shown.classes |= {tile[0]: tile[2] for tile in json.loads(data)["tiles"]}
                case "event: history":
                    shown.history += json.loads(data)
                case "event: state":
                    shown.state = json.loads(data)
    return shown


async def test_leader_and_standby_show_the_same_nodes_and_who_leads(cluster):
    ports = {True: free_port(), False: free_port()}
    cluster.api.put_all(NODES)
    cluster.place("busy", "node-3")
    cluster.api.put(make_pod("waiting", workload_class="performance"))
    cluster.start(UI_ADDR=f"127.0.0.1:{ports[True]}", POD_NAME="one")
    await cluster.until(cluster.settled)
    cluster.start(UI_ADDR=f"127.0.0.1:{ports[False]}", POD_NAME="two")
    classes = {name: {"eco-draining": "draining"}.get(view, view) for name, view in cluster.views().items()}
    assert set(classes.values()) == {"performance", "eco", "draining"}
    for leading, port in ports.items():
        await cluster.until(lambda port=port: listens(port))
        shown = await read(port, lambda shown: shown.complete(classes))
        assert (shown.state["leading"], shown.state["performancePods"]) == (leading, 2)


async def test_a_transition_is_shown_with_its_reason_by_leader_and_standby(cluster):
    ports = [free_port(), free_port()]
    cluster.api.put_all(NODES)
    cluster.place("busy", "node-3")
    for index, port in enumerate(ports):
        cluster.start(UI_ADDR=f"127.0.0.1:{port}", POD_NAME=f"replica-{index}")
        await cluster.until(lambda port=port: listens(port))
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    for port in ports:
        classes = {name: view.replace("eco-", "") for name, view in cluster.views().items()}
        await read(port, lambda shown, classes=classes: shown.complete(classes))
    cluster.api.remove("Pod", "busy", "default")
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco")
    unblocked = ["node-3", "draining", "eco", "EcoUnblocked"]
    for port in ports:
        await read(port, lambda shown: shown.history and shown.history[-1][2:6] == unblocked)


async def test_the_gpus_of_a_node_are_those_of_its_agents_report_on_a_standby_too(cluster):
    cluster.api.put_all(NODES)
    cluster.api.put(
        make_telemetry_profile("node-1", devices=[{"uuid": "GPU-0", "heldAs": "free", "reason": "NotHeld"}])
    )
    cluster.api.put(make_telemetry_profile("node-2"))
    broken = make_telemetry_profile("node-3", devices=[{"uuid": "GPU-0"}])
    broken["spec"]["target"] = {"scope": "nowhere"}
    cluster.api.put(broken)
    port = free_port()
    cluster.start()
    await cluster.until(cluster.settled)
    cluster.start(UI_ADDR=f"127.0.0.1:{port}", POD_NAME="two")
    await cluster.until(lambda: listens(port))
    async with aiohttp.ClientSession() as session:

        async def devices(node):
            async with session.get(f"http://127.0.0.1:{port}/ui/devices/{node}") as answer:
                return (await answer.json())["devices"]

        # The page listens before reports are read; until then nothing is known.
        async with asyncio.timeout(30):
            while await devices("node-1") is None:  # noqa: ASYNC110 - another process reads it
                await asyncio.sleep(0.01)
        found = {node: await devices(node) for node in ("node-1", "node-2", "node-3", "nix")}
    assert [(each["uuid"], each["reason"]) for each in found.pop("node-1")] == [("GPU-0", "NotHeld")]
    assert found == {"node-2": None, "node-3": None, "nix": None}


async def test_without_an_address_no_page_is_served(cluster):
    cluster.api.put_all(NODES)
    operator = cluster.start()
    await cluster.until(cluster.settled)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{operator.app.metrics_port}/ui/") as answer,
    ):
        assert answer.status == 404


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("address", ["8083", "localhost", "::1:80"])
def test_an_address_that_is_none_is_refused_at_the_start(address):
    with pytest.raises(SettingsError, match="UI_ADDR"):
        read_settings(settings_model(), {"UI_ADDR": address})
