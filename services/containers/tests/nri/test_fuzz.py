"""Sequences of frames that no runtime sends: the plugin answers on or registers again, and its memory does not grow."""

import asyncio
import collections
import gc
import os
import random
from pathlib import Path
from struct import pack

import pytest

from joulie_containers.nri.connection import NriConnection, NriEndpoint
from joulie_containers.nri.mux import MuxDecoder
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.proto.ttrpc_pb2 import Request, Response
from joulie_containers.nri.registration import PLUGIN_SERVICE
from joulie_containers.nri.ttrpc_frames import FrameType, TtrpcDecoder, ttrpc_frame

_METHODS = [
    "Configure",
    "Synchronize",
    "Shutdown",
    "CreateContainer",
    "UpdateContainer",
    "StopContainer",
    "StateChange",
    "RunPodSandbox",
    "Unknown",
    "",
]
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Peer:
    """A runtime that sends nonsense between one good request and the next."""

    def __init__(self, reader, writer, chance):
        self._reader = reader
        self._writer = writer
        self._chance = chance
        self._mux = MuxDecoder()
        self._ttrpc = TtrpcDecoder()
        self._stream_id = self._highest_stream_id = 1
        #: Replies that have arrived and were not read.
        self._replies = collections.deque()

    async def registration(self):
        """Wait for the registration of the plugin, which is the first that it sends."""
        return await self._frame(2)

    async def probe(self):
        """Return whether the plugin answers a good request."""
        self._stream_id = self._highest_stream_id = stream_id = (self._highest_stream_id + 1) | 1
        request = Request(service=PLUGIN_SERVICE, method="Configure")
        self._send(1, ttrpc_frame(stream_id, FrameType.REQUEST, request.SerializeToString()))
        while True:
            frame = await self._frame(1)
            if frame.stream_id == stream_id:
                return Response.FromString(frame.payload).status.code == 0

    def nonsense(self):
        """Send frames that are whole, with any content."""
        for _ in range(self._chance.randint(1, 5)):
            connection = self._chance.choice([0, 1, 1, 1, 1, 2, 2, self._chance.getrandbits(32)])
            frame = self._nonsense_frame()
            if connection in {1, 2} or self._chance.random() < 0.5:
                cut = self._chance.randint(0, len(frame))
                self._send(connection, frame[:cut])
                self._send(connection, frame[cut:])
            else:
                self._send(connection, self._chance.randbytes(self._chance.randint(0, 50)))

    def broken(self):
        """Send frames that were changed, cut off or made up, and close."""
        data = bytearray()
        for _ in range(self._chance.randint(0, 4)):
            frame = self._nonsense_frame()
            data += pack(">II", self._chance.choice([1, 2]), len(frame)) + frame
        for _ in range(self._chance.randint(1, 8)):
            if data:
                data[self._chance.randrange(len(data))] = self._chance.getrandbits(8)
        data = data[: self._chance.randint(0, len(data))] + self._chance.randbytes(self._chance.randint(0, 20))
        self._writer.write(bytes(data))

    def _nonsense_frame(self):
        chance = self._chance
        kind = chance.choice([FrameType.REQUEST] * 4 + [FrameType.RESPONSE, FrameType.DATA, 0, 9, 255])
        if kind == FrameType.REQUEST:
            # Most ids grow, and none so much that there is none for a later good request.
            self._stream_id = max(1, self._stream_id + chance.choice([-1, 0, 1, 2, 2, 2, 5]))
            self._highest_stream_id = max(self._highest_stream_id, self._stream_id)
            stream_id = self._stream_id
        else:
            stream_id = chance.getrandbits(32)
        message = chance.choice(
            [
                b"",
                chance.randbytes(chance.randint(1, 60)),
                nri.SynchronizeRequest(pods=[nri.PodSandbox(id="p")], more=chance.random() < 0.5).SerializeToString(),
                nri.StateChangeEvent(event=chance.randint(0, 20), pod=nri.PodSandbox(id="p")).SerializeToString(),
            ]
        )
        envelope = Request(
            service=chance.choice([PLUGIN_SERVICE] * 5 + ["", "x"]),
            method=chance.choice(_METHODS),
            payload=message,
            timeout_nano=chance.choice([0, -1, 1, 2_000_000_000, 2**62]),
        ).SerializeToString()
        return ttrpc_frame(stream_id, kind, chance.choice([envelope, envelope, envelope, message]))

    def _send(self, connection, data):
        self._writer.write(pack(">II", connection, len(data)) + data)

    async def _frame(self, connection):
        while not self._replies:
            data = await self._reader.read(1 << 16)
            assert data, "the plugin has closed the connection"
            for each, part in self._mux.feed(data):
                if each == connection:
                    self._replies += self._ttrpc.feed(part)
        return self._replies.popleft()

    async def close(self):
        """Close, and wait until the plugin has closed too."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        try:
            while await self._reader.read(1 << 16):
                pass
        except ConnectionResetError:
            pass
        self._writer.close()


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


async def fuzz(handler, path, count, seed):
    """Send sequences; return growth of the memory and of the number of objects over the second half."""
    chance = random.Random(seed)
    peers = asyncio.Queue()
    server = await asyncio.start_unix_server(lambda *streams: peers.put_nowait(Peer(*streams, chance)), path)
    connection = NriConnection(handler, NriEndpoint(name="joulie", index="90", path=path), chance=lambda: 0.0)
    running = asyncio.create_task(connection.run())
    measured = []
    peer, registrations = None, 0
    for n in range(count):
        if n in {count // 2, count - 1}:
            handler.calls.clear()
            gc.collect()
            measured.append((resident_bytes(), len(gc.get_objects())))
        async with asyncio.timeout(20):
            if peer is None:
                peer = await peers.get()
                await peer.registration()
                registrations += 1
            if chance.random() < 0.7:
                peer.nonsense()
                assert await peer.probe(), f"sequence {n} of seed {seed}"
            else:
                peer.broken()
                await peer.close()
                peer = None
    # No connection may be on its way.
    peer = peer or await peers.get()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await peer.close()
    server.close()
    (rss_before, objects_before), (rss_after, objects_after) = measured
    return rss_after - rss_before, objects_after - objects_before, registrations


async def test_nonsense_is_answered_and_broken_connections_are_made_again(handler, tmp_path):
    _, objects, registrations = await fuzz(handler, tmp_path / "nri.sock", 600, seed=1)
    assert registrations > 100
    assert objects < 300


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_memory_stays_as_it_is_over_100_000_sequences(handler, tmp_path):
    rss, objects, registrations = await fuzz(handler, tmp_path / "nri.sock", 100_000, seed=2)
    print(f"second half: {rss / 1024:+.0f} KiB resident, {objects:+d} objects; {registrations} registrations")
    assert objects < 300
    assert rss < 2 << 20
