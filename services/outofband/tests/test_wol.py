"""The packet that wakes a server, without a network."""

import socket

import pytest

from joulie_core.kinds.node_bmc import BmcCapability, PowerState
from joulie_outofband import wol
from joulie_outofband.bmc import BmcReport
from joulie_outofband.endpoint import Endpoint
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.wol import WolServer, magic_packet

MAC = "52:54:00:AB:cd:ef"


class Sockets:
    """Stands for the module `socket`; records what is done with one."""

    AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_BROADCAST = (
        socket.AF_INET,
        socket.SOCK_DGRAM,
        socket.SOL_SOCKET,
        socket.SO_BROADCAST,
    )

    def __init__(self, failure=None):
        self.done = []
        self.failure = failure

    def socket(self, *kind):
        self.done.append(("socket", *kind))
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.append(("close",))

    def setsockopt(self, *option):
        self.done.append(("option", *option))

    def setblocking(self, flag):
        self.done.append(("blocking", flag))

    def sendto(self, packet, target):
        self.done.append(("send", packet, target))
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize(("port", "sent_to"), [(None, 9), (7, 7)])
async def test_one_broadcast_is_sent_to_the_address_without_waiting(monkeypatch, port, sent_to):
    sockets = Sockets()
    monkeypatch.setattr(wol, "socket", sockets)
    await WolServer(Endpoint("wol", "10.0.0.255", port), MAC).reset("On")
    assert sockets.done == [
        ("socket", socket.AF_INET, socket.SOCK_DGRAM),
        ("option", socket.SOL_SOCKET, socket.SO_BROADCAST, 1),
        ("blocking", False),
        ("send", b"\xff" * 6 + bytes.fromhex("525400abcdef") * 16, ("10.0.0.255", sent_to)),
        ("close",),
    ]


async def test_a_packet_that_cannot_be_sent_is_an_error_that_is_named(monkeypatch):
    monkeypatch.setattr(wol, "socket", Sockets(PermissionError("x")))
    with pytest.raises(BmcError, match=r"^Wake-on-LAN: PermissionError$") as caught:
        await WolServer(Endpoint("wol", "10.0.0.255", None), MAC).reset("On")
    assert caught.value.reason is BmcReason.UNREACHABLE


async def test_a_server_can_be_powered_on_and_nothing_else(monkeypatch):
    sockets = Sockets()
    monkeypatch.setattr(wol, "socket", sockets)
    server = WolServer(Endpoint("wol", "10.0.0.255", None), MAC)
    assert await server.report() == BmcReport(
        PowerState.UNKNOWN,
        None,
        None,
        None,
        BmcCapability(readable=False, cappable=False, reset_types=("On",)),
        answers=False,
    )
    assert await server.limit() is None
    with pytest.raises(BmcError, match=r"^no power limit$") as limit:
        await server.set_limit(300)
    with pytest.raises(BmcError, match=r"^ForceOff by Wake-on-LAN$") as reset:
        await server.reset("ForceOff")
    assert (limit.value.reason, reset.value.reason) == (BmcReason.NO_LIMIT, BmcReason.RESET_TYPE_MISSING)
    await server.close()
    assert sockets.done == []


def test_the_packet_has_six_bytes_of_ones_and_the_address_sixteen_times():
    assert magic_packet("00:00:00:00:00:01") == b"\xff" * 6 + b"\0\0\0\0\0\1" * 16
