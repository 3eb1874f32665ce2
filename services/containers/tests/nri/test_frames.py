"""Frames at every boundary: of the multiplexer, of ttrpc, and both together at a plugin."""

import asyncio
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joulie_containers.nri.mux import MuxDecoder, MuxError, mux_frames
from joulie_containers.nri.proto.nri_pb2 import Empty, UpdateContainersResponse
from joulie_containers.nri.proto.ttrpc_pb2 import Request, Response
from joulie_containers.nri.registration import EVENTS, PLUGIN_SERVICE
from joulie_containers.nri.ttrpc import TtrpcClient, TtrpcError, TtrpcServer
from joulie_containers.nri.ttrpc_frames import MAX_PAYLOAD_BYTES, FrameType, TtrpcDecoder, TtrpcFrame, ttrpc_frame

#: Around the size of a first frame with its header of 10 bytes, and the longest.
SIZES = [0, 1, 4085, 4086, 4087, 8181, 8182, 8183, 65536, MAX_PAYLOAD_BYTES]


def mux(connection, data):
    return pack(">II", connection, len(data)) + data


def stream_of(parts, connection):
    return b"".join(part for each, part in parts if each == connection)


class RuntimeReader:
    """How the runtime reads a connection: at most one frame per read, through a buffer of 4,096 bytes.

    A read into less than the whole frame breaks the connection.
    """

    def __init__(self, data):
        self._frames = []
        while data:
            length = int.from_bytes(data[4:8])
            self._frames.append(data[8 : 8 + length])
            data = data[8 + length :]
        self._buffer = b""

    def read_exactly(self, count):
        result = b""
        while len(result) < count:
            missing = count - len(result)
            if not self._buffer and missing >= 4096:
                result += self._frame(missing)
                continue
            self._buffer = self._buffer or self._frame(4096)
            result += self._buffer[:missing]
            self._buffer = self._buffer[missing:]
        return result

    def _frame(self, room):
        frame = self._frames.pop(0)
        assert len(frame) <= room, f"a frame of {len(frame)} bytes is read into {room}"
        return frame


@pytest.mark.parametrize("size", SIZES)
def test_the_runtime_can_read_a_message_of_any_size(size):
    payload = bytes(size)
    reader = RuntimeReader(mux_frames(1, ttrpc_frame(1, FrameType.RESPONSE, payload)))
    header = reader.read_exactly(10)
    assert header == pack(">IIBB", size, 1, 2, 0)
    assert reader.read_exactly(size) == payload


def test_the_runtime_can_read_messages_back_to_back():
    messages = [ttrpc_frame(n, FrameType.RESPONSE, bytes([n]) * size) for n, size in enumerate(SIZES)]
    reader = RuntimeReader(b"".join(mux_frames(1, each) for each in messages))
    for message in messages:
        assert reader.read_exactly(10) == message[:10]
        assert reader.read_exactly(len(message) - 10) == message[10:]


@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_any_size_is_decoded(size):
    payload = bytes(size)
    parts = MuxDecoder().feed(mux_frames(1, ttrpc_frame(5, FrameType.REQUEST, payload)))
    assert TtrpcDecoder().feed(stream_of(parts, 1)) == [TtrpcFrame(5, FrameType.REQUEST, payload)]


def test_a_payload_that_is_too_long_is_discarded_and_the_next_message_decoded():
    decoder = TtrpcDecoder()
    frames = decoder.feed(pack(">IIBB", MAX_PAYLOAD_BYTES + 1, 1, 1, 0))
    for _ in range(1024):
        frames += decoder.feed(bytes(4096))
    assert len(decoder._buffer) == 0
    frames += decoder.feed(bytes(1) + ttrpc_frame(3, FrameType.REQUEST, b"x"))
    assert frames == [TtrpcFrame(1, 1, None), TtrpcFrame(3, 1, b"x")]


def test_a_frame_longer_than_any_message_is_an_error():
    with pytest.raises(MuxError, match="4194315 bytes"):
        MuxDecoder().feed(pack(">II", 1, MAX_PAYLOAD_BYTES + 11))


FRAMES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=6)


def cut(data, cuts):
    places = sorted({min(each, len(data)) for each in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@given(FRAMES, st.lists(st.integers(0, 400), max_size=10))
def test_the_multiplexer_does_not_depend_on_how_bytes_arrive(frames, cuts):
    decoder = MuxDecoder()
    data = b"".join(mux(*each) for each in frames)
    parts = [part for piece in cut(data, cuts) for part in decoder.feed(piece)]
    for connection in {each for each, _ in frames}:
        assert stream_of(parts, connection) == stream_of(frames, connection)


MESSAGES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=40)), max_size=6)


@given(MESSAGES, st.lists(st.integers(0, 400), max_size=10))
def test_ttrpc_does_not_depend_on_how_bytes_arrive(messages, cuts):
    decoder = TtrpcDecoder()
    data = b"".join(pack(">IIBB", len(payload), stream, kind, 0) + payload for stream, kind, payload in messages)
    frames = [frame for piece in cut(data, cuts) for frame in decoder.feed(piece)]
    assert frames == [TtrpcFrame(*each) for each in messages]


@given(st.binary(max_size=3000))
@settings(max_examples=200)
def test_any_bytes_are_decoded_or_an_error(data):
    decoder, connection = MuxDecoder(), TtrpcDecoder()
    try:
        for _, part in decoder.feed(data):
            connection.feed(part)
    except MuxError:
        pass
    assert len(connection._buffer) <= len(data)


# A plugin


def request(stream_id, method, payload=b"", timeout_nano=0):
    envelope = Request(service=PLUGIN_SERVICE, method=method, payload=payload, timeout_nano=timeout_nano)
    return ttrpc_frame(stream_id, FrameType.REQUEST, envelope.SerializeToString())


async def replies(raw, count):
    """Return the replies of a plugin by stream id, in the order of arrival."""
    mux_decoder, decoder, frames = MuxDecoder(), TtrpcDecoder(), []
    while len(frames) < count:
        for connection, part in mux_decoder.feed(await raw.receive(1)):
            frames += decoder.feed(part) if connection == 1 else []
    return {each.stream_id: Response.FromString(each.payload) for each in frames}


CONFIGURE = request(1, "Configure")
CONFIGURED = Response(payload=b"\x10" + bytes([EVENTS & 0x7F | 0x80, EVENTS >> 7]))


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
async def test_a_request_may_arrive_in_pieces_of_any_size(inherited, handler, pieces):
    data = mux(1, CONFIGURE)
    async with inherited(handler) as (raw, _connection):
        for start in range(0, len(data), pieces):
            await raw.send(data[start : start + pieces])
            await asyncio.sleep(0)
        assert (await replies(raw, 1))[1] == CONFIGURED


async def test_a_request_may_be_split_over_frames_at_every_byte(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        expected = {}
        for at in range(1, len(CONFIGURE)):
            message = request(2 * at + 1, "Configure")
            await raw.send(mux(1, message[:at]) + mux(1, message[at:]))
            expected[2 * at + 1] = CONFIGURED
        assert await replies(raw, len(expected)) == expected


async def test_two_requests_may_share_a_frame(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(mux(1, request(1, "Configure") + request(3, "Configure")))
        assert await replies(raw, 2) == {1: CONFIGURED, 3: CONFIGURED}


async def test_what_the_plugin_does_not_know_is_skipped(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(mux(0, b"reserved") + mux(77, b"unknown connection"))
        await raw.send(mux(1, pack(">IIBB", 3, 1, 9, 0) + b"???"))
        await raw.send(mux(1, pack(">IIBB", 3, 1, FrameType.DATA, 0) + b"???"))
        await raw.send(mux(2, ttrpc_frame(4711, FrameType.RESPONSE, b"")))
        await raw.send(mux(1, CONFIGURE))
        assert await replies(raw, 1) == {1: CONFIGURED}


async def test_an_even_stream_is_an_invalid_argument(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(mux(1, request(2, "Configure") + CONFIGURE))
        answers = await replies(raw, 2)
    assert (answers[2].status.code, answers[1]) == (3, CONFIGURED)
    assert handler.calls.count(("configure",)) == 1


async def test_a_stream_that_was_used_is_an_invalid_argument(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(mux(1, request(5, "Configure") + request(3, "Configure")))
        answers = await replies(raw, 2)
    assert (answers[3].status.code, answers[5]) == (3, CONFIGURED)


async def test_a_request_that_is_too_long_exhausts_resources(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(mux(1, pack(">IIBB", MAX_PAYLOAD_BYTES + 1, 1, 1, 0)))
        for _ in range(4):
            await raw.send(mux(1, bytes(1 << 20)))
        await raw.send(mux(1, bytes(1)) + mux(1, request(3, "Configure")))
        answers = await replies(raw, 2)
    assert (answers[1].status.code, answers[3]) == (8, CONFIGURED)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (request(1, "Nothing"), 12),
        (ttrpc_frame(1, FrameType.REQUEST, Request(service="x", method="Configure").SerializeToString()), 12),
        (ttrpc_frame(1, FrameType.REQUEST, b"\xff\xff\xff"), 3),
        (request(1, "Configure", b"\xff\xff\xff"), 3),
        (request(1, "Synchronize"), 3),
    ],
    ids=["method", "service", "envelope", "message", "order"],
)
async def test_a_wrong_request_has_a_code_and_the_connection_stays(inherited, handler, frame, code):
    async with inherited(handler) as (raw, _connection):
        await raw.send(mux(1, frame) + mux(1, request(3, "Configure")))
        answers = await replies(raw, 2)
    assert (answers[1].status.code, answers[3]) == (code, CONFIGURED)


async def test_300_requests_may_be_queued(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(b"".join(mux(1, request(2 * n + 1, "Configure")) for n in range(300)))
        assert len(await replies(raw, 300)) == 300
    assert handler.calls.count(("configure",)) == 300


async def test_the_end_in_the_middle_of_a_frame_ends_the_connection(inherited, handler):
    async with inherited(handler) as (raw, connection):
        await raw.send(mux(1, CONFIGURE))
        await replies(raw, 1)
        await raw.send(mux(1, CONFIGURE)[:-1])
        raw.close()
        await handler.until(1, "disconnected")
    assert not connection.state.registered


async def test_a_frame_longer_than_any_message_ends_the_connection(inherited, handler):
    async with inherited(handler) as (raw, _connection):
        await raw.send(pack(">II", 1, 1 << 31))
        await raw.until_closed()


# Calls


async def test_replies_may_come_in_any_order():
    sent = asyncio.Queue()
    client = TtrpcClient(sent.put)
    calls = [
        asyncio.create_task(client.call("s", "m", Empty(), UpdateContainersResponse, timeout_s=5)) for _ in range(3)
    ]
    streams = [int.from_bytes((await sent.get())[4:8]) for _ in calls]
    assert streams == [1, 3, 5]
    for stream in reversed(streams):
        failed = UpdateContainersResponse()
        failed.failed.add(container_id=str(stream))
        client.feed(
            ttrpc_frame(stream, FrameType.RESPONSE, Response(payload=failed.SerializeToString()).SerializeToString())
        )
    assert [(await call).failed[0].container_id for call in calls] == ["1", "3", "5"]


async def test_a_call_without_reply_ends_with_its_timeout_and_a_late_reply_is_skipped():
    sent = asyncio.Queue()
    client = TtrpcClient(sent.put)
    with pytest.raises(TimeoutError):
        await client.call("s", "m", Empty(), Empty, timeout_s=0.01)
    client.feed(ttrpc_frame(1, FrameType.RESPONSE, b""))
    frame = await sent.get()
    assert Request.FromString(frame[10:]).timeout_nano == 10_000_000


@pytest.mark.looptime
async def test_a_call_whose_deadline_is_over_is_not_answered_and_one_in_time_is():
    async def serve(payload):
        await asyncio.sleep(float(payload))
        return payload

    sent = []

    async def send(frame):
        sent.append(frame)

    server = TtrpcServer({"s": {"m": serve}}, send)
    for stream_id, takes_s in ((1, b"1.5"), (3, b"0.5")):
        envelope = Request(service="s", method="m", payload=takes_s, timeout_nano=1_000_000_000).SerializeToString()
        server.feed(ttrpc_frame(stream_id, FrameType.REQUEST, envelope))
    await asyncio.sleep(2)
    # An answer at the deadline would fail the container that a runtime creates without a plugin that is late.
    reply = Response(payload=b"0.5").SerializeToString()
    assert (sent, server.oldest_call) == ([ttrpc_frame(3, FrameType.RESPONSE, reply)], None)


async def test_a_reply_that_is_too_long_fails_its_call():
    sent = asyncio.Queue()
    client = TtrpcClient(sent.put)
    call = asyncio.create_task(client.call("s", "m", Empty(), Empty, timeout_s=5))
    await sent.get()
    client.feed(pack(">IIBB", MAX_PAYLOAD_BYTES + 1, 1, FrameType.RESPONSE, 0))
    with pytest.raises(TtrpcError, match="more than 4194304 bytes"):
        await call


async def test_a_reply_of_more_than_the_limit_is_an_error_of_the_request():
    sent = asyncio.Queue()

    async def method(_payload):
        return bytes(MAX_PAYLOAD_BYTES)

    server = TtrpcServer({PLUGIN_SERVICE: {"Configure": method}}, sent.put)
    server.feed(CONFIGURE)
    response = Response.FromString((await sent.get())[10:])
    assert (response.status.code, response.payload) == (8, b"")


async def test_a_text_that_is_no_unicode_is_sent_with_replacements():
    sent = asyncio.Queue()

    async def method(_payload):
        raise ValueError("file \udcff")

    server = TtrpcServer({PLUGIN_SERVICE: {"Configure": method}}, sent.put)
    server.feed(CONFIGURE)
    assert Response.FromString((await sent.get())[10:]).status.message == "file ?"


async def test_a_method_that_times_out_by_itself_is_no_missed_deadline():
    sent = asyncio.Queue()

    async def method(_payload):
        raise TimeoutError("disk")

    server = TtrpcServer({PLUGIN_SERVICE: {"Configure": method}}, sent.put)
    server.feed(request(1, "Configure", timeout_nano=2_000_000_000))
    assert Response.FromString((await sent.get())[10:]).status.code == 2
