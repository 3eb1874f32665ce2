"""Wake-on-LAN: the packet as a real frame between two network namespaces, and what the service makes of it."""

import asyncio
import os
import shutil
import socket
import sys
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest
from services.outofband.tests.objects import ready_node

from joulie_core.kinds.node_bmc import PowerState
from joulie_outofband.endpoint import Endpoint
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.wol import WolServer, magic_packet
from joulie_testing.api import make_node_bmc

MAC = "52:54:00:ab:cd:ef"
MAC_BYTES = bytes.fromhex("525400abcdef")
_LISTEN = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
    wire.bind(("{interface}", 0))
    print("listening", flush=True)
    while True:
        frame = wire.recv(2048)
        if frame[12:14] == b"\\x08\\x00" and frame[23] == 17 and frame[36:38] == (9).to_bytes(2):
            print(frame.hex(), flush=True)
            break
"""
_SEND = """
import asyncio
from joulie_outofband.endpoint import Endpoint
from joulie_outofband.wol import WolServer
asyncio.run(WolServer(Endpoint("wol", "10.77.0.255", None), "{mac}").reset("On"))
"""


async def _run(*command):
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, problem = await process.communicate()
    assert process.returncode == 0, (command, problem)


@pytest.fixture
async def wire():
    """Two network namespaces, connected; return their names and the interface in both."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip (Debian: iproute2)")
    number = uuid4().hex[:6]
    here, there = f"joulie-a-{number}", f"joulie-b-{number}"
    async with AsyncExitStack() as stack:
        for name, address in ((here, "10.77.0.1/24"), (there, "10.77.0.2/24")):
            await _run("ip", "netns", "add", name)
            stack.push_async_callback(_run, "ip", "netns", "del", name)
            if name == there:
                await _run("ip", "-n", here, "link", "add", "wire", "type", "veth", "peer", "wire", "netns", there)
                await _run("ip", "-n", here, "addr", "add", "10.77.0.1/24", "brd", "+", "dev", "wire")
                await _run("ip", "-n", here, "link", "set", "wire", "up")
                await _run("ip", "-n", there, "addr", "add", address, "brd", "+", "dev", "wire")
                await _run("ip", "-n", there, "link", "set", "wire", "up")
        yield here, there


async def test_the_frame_on_the_wire_has_the_mac_address_sixteen_times(wire):
    here, there = wire
    listener = await asyncio.create_subprocess_exec(
        "ip", "netns", "exec", there, sys.executable, "-c", _LISTEN.format(interface="wire"),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        assert await listener.stdout.readline() == b"listening\n"
        await _run("ip", "netns", "exec", here, sys.executable, "-c", _SEND.format(mac=MAC))
        frame = bytes.fromhex((await listener.stdout.readline()).decode().strip())
        await listener.wait()
    assert frame[:6] == b"\xff" * 6, "sent to all stations"
    assert frame[42:] == b"\xff" * 6 + MAC_BYTES * 16
    assert len(frame) == 144


def test_the_packet_is_102_bytes():
    assert len(magic_packet(MAC)) == 102
    assert magic_packet(MAC.upper()) == magic_packet(MAC)


async def test_nothing_is_known_of_the_server_and_it_cannot_be_powered_off():
    server = WolServer(Endpoint("wol", "127.0.0.1", 9), MAC)
    report = await server.report()
    assert (report.power_state, report.watts, report.limit, report.answers) == (PowerState.UNKNOWN, None, None, False)
    for kind in ("ForceOff", "GracefulShutdown"):
        with pytest.raises(BmcError) as caught:
            await server.reset(kind)
        assert caught.value.reason is BmcReason.RESET_TYPE_MISSING


@pytest.fixture
def card():
    """A socket that stands for the network card of a server that is off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


def put(cluster, card, **spec):
    address = f"wol://127.0.0.1:{card.getsockname()[1]}"
    reached = {"protocol": "wol", "address": address, "mac": MAC, "credentialsSecretRef": None}
    cluster.api.put(make_node_bmc("n1", spec=reached | spec))


async def test_a_node_is_woken_by_repeated_packets_and_its_boot_is_timed(cluster, card):
    put(cluster, card, desiredPower="On")
    cluster.start()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        packets = [await loop.sock_recv(card, 2048) for _ in range(2)]
    assert packets == [magic_packet(MAC)] * 2
    assert cluster.status()["powerState"] == "Unknown"
    cluster.api.put(ready_node("woken"))
    await cluster.until(lambda: cluster.condition("WakeProven") == ("True", "Woken"))
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "AsDesired"))
    assert (cluster.status()["powerState"], cluster.condition("Reachable")) == ("Unknown", ("Unknown", "NeverAnswers"))
    assert not {"powerWatts", "sampledAt"} & cluster.status().keys()


async def test_no_packet_is_sent_to_a_node_that_is_ready_or_shall_not_be_on(cluster, card):
    cluster.api.put(ready_node("on"))
    put(cluster, card, desiredPower="On")
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "AsDesired"))
    cluster.api.remove("Node", "n1")
    cluster.change(desiredPower="Off")
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "PowerOffNotAllowed"))
    with pytest.raises(BlockingIOError):
        card.recv(2048)
