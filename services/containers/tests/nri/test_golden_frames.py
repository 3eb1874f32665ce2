"""What is sent and understood, as bytes that were written by hand from the descriptions of the protocols."""

import asyncio

import pytest

from joulie_containers.nri.mux import PLUGIN_CONNECTION, mux_frames
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.registration import PLUGIN_SERVICE, RUNTIME_SERVICE
from joulie_containers.nri.ttrpc import TtrpcClient, TtrpcError, TtrpcServer

#: RegisterPlugin of "joulie" with index "90" and a timeout of 5 s: connection 2, stream 1.
REGISTER = bytes.fromhex(
    "00000002 0000004c 00000042 00000001 0100"
    "0a1c 6e72692e706b672e6170692e7631616c706861312e52756e74696d65 120e 5265676973746572506c7567696e"
    "1a0c 0a066a6f756c6965 12023930 20 80e497d012"
)
#: The reply to Configure with the events 0x6ef: connection 1, stream 1.
CONFIGURED = bytes.fromhex("00000001 0000000f 00000005 00000001 0200 1203 10ef0d")
#: The reply to RunPodSandbox of a plugin without that method: connection 1, stream 7.
UNIMPLEMENTED = bytes.fromhex(
    "00000001 00000024 0000001a 00000007 0200 0a18 080c 1214 6d6574686f642052756e506f6453616e64626f78"
)
#: Configure of runtime "c" with version "2": connection 1, stream 1.
CONFIGURE = bytes.fromhex(
    "00000001 0000003a 00000030 00000001 0100"
    "0a1b 6e72692e706b672e6170692e7631616c706861312e506c7567696e 1209 436f6e666967757265"
    "1a06 120163 1a0132"
)


def test_the_hand_written_request_is_whole():
    assert int.from_bytes(CONFIGURE[4:8]) == len(CONFIGURE) - 8
    assert int.from_bytes(CONFIGURE[8:12]) == len(CONFIGURE) - 18


class Sent:
    """Keeps what is sent on a connection, as frames of the multiplexer."""

    def __init__(self, connection):
        self.connection = connection
        self.data = b""
        self.complete = asyncio.Event()

    async def __call__(self, message):
        self.data += mux_frames(self.connection, message)
        self.complete.set()


async def test_registration_request():
    sent = Sent(2)
    client = TtrpcClient(sent)
    request = nri.RegisterPluginRequest(plugin_name="joulie", plugin_idx="90")
    call = asyncio.create_task(client.call(RUNTIME_SERVICE, "RegisterPlugin", request, nri.Empty, timeout_s=5))
    await sent.complete.wait()
    assert sent.data == REGISTER
    client.close()
    with pytest.raises(ConnectionError):
        await call


async def test_a_plugin_begins_with_its_registration(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        header = await raw.receive(8)
        assert header[:4] == bytes.fromhex("00000002")
        message = await raw.receive(int.from_bytes(header[4:]))
    assert message[4:10] == bytes.fromhex("000000010100")
    assert message[10:].startswith(REGISTER[18:56])
    assert bytes.fromhex("0a066a6f756c6965 12023930") in message


async def test_reply_to_configure(inherited, handler):
    async with inherited(handler) as (raw, connection):
        await _skip_registration(raw)
        await raw.send(CONFIGURE)
        assert await raw.receive(len(CONFIGURED)) == CONFIGURED
        assert (connection.state.runtime.name, connection.state.runtime.version) == ("c", "2")
        # This runtime states no timeouts.
        assert (connection.state.runtime.request_timeout_s, connection.state.runtime.registration_timeout_s) == (2, 5)


async def test_reply_to_a_method_that_does_not_exist():
    sent = Sent(PLUGIN_CONNECTION)
    server = TtrpcServer({PLUGIN_SERVICE: {}}, sent)
    request = bytes.fromhex("0a1b") + PLUGIN_SERVICE.encode() + bytes.fromhex("120d") + b"RunPodSandbox"
    server.feed(bytes.fromhex("0000002c 00000007 0100") + request)
    await sent.complete.wait()
    assert sent.data == UNIMPLEMENTED


@pytest.mark.parametrize(
    "reply",
    ["00000000 00000001 0200", "00000002 00000001 0200 0a00", "00000002 00000001 0200 1200"],
    ids=["empty", "empty status", "empty payload"],
)
async def test_an_ok_reply_may_be_empty(reply):
    sent = Sent(2)
    client = TtrpcClient(sent)
    call = asyncio.create_task(client.call(RUNTIME_SERVICE, "RegisterPlugin", nri.Empty(), nri.Empty, timeout_s=5))
    await sent.complete.wait()
    client.feed(bytes.fromhex(reply))
    assert await call == nri.Empty()


async def test_a_status_is_an_error_of_the_call():
    sent = Sent(2)
    client = TtrpcClient(sent)
    call = asyncio.create_task(client.call(RUNTIME_SERVICE, "RegisterPlugin", nri.Empty(), nri.Empty, timeout_s=5))
    await sent.complete.wait()
    client.feed(bytes.fromhex("0000000b 00000001 0200 0a09 0802 1205 6e6f706521"))
    with pytest.raises(TtrpcError, match="nope!") as raised:
        await call
    assert raised.value.code == 2


async def _skip_registration(raw):
    header = await raw.receive(8)
    await raw.receive(int.from_bytes(header[4:]))
