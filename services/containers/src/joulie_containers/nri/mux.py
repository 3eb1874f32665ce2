"""The multiplexer: several connections over one stream, `github.com/containerd/nri/pkg/net/multiplex`.

A frame is a header, connection id and length of the payload, both 32 bits and big-endian, and the payload. Each
connection is a stream of bytes: frames begin and end anywhere. Nothing on the wire opens or closes a connection.
"""

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Final

from joulie_containers.nri.ttrpc_frames import MAX_FRAME_BYTES

#: Served by the plugin, called by the runtime.
PLUGIN_CONNECTION: Final = 1
#: Served by the runtime, called by the plugin.
RUNTIME_CONNECTION: Final = 2

_HEADER: Final = Struct(">II")
#: The runtime's reader accepts one frame per read and fails where its buffer is smaller. While it waits for the
#: beginning of a message its buffer has this size; then it has the size of what is missing of the message.
_FIRST_FRAME_BYTES: Final = 4096
_READ_BYTES: Final = 1 << 16


class MuxError(ConnectionError):
    """The bytes that arrived are not a stream of frames."""


class MuxDecoder:
    """Splits what arrives into the streams of the connections. It holds no more than one header."""

    def __init__(self) -> None:
        self._header = b""
        self._connection = 0
        #: Bytes of the current frame that have not arrived.
        self._missing = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the parts of payloads in `data`, with their connection.

        Raises:
            MuxError: a frame is longer than any message.
        """
        parts: list[tuple[int, bytes]] = []
        position = 0
        while position < len(data):
            if self._missing:
                part = data[position : position + self._missing]
                parts.append((self._connection, part))
                position += len(part)
                self._missing -= len(part)
                continue
            wanted = _HEADER.size - len(self._header)
            self._header += data[position : position + wanted]
            position += wanted
            if len(self._header) == _HEADER.size:
                self._connection, self._missing = _HEADER.unpack(self._header)
                self._header = b""
                if self._missing > MAX_FRAME_BYTES:
                    raise MuxError(f"frame of {self._missing} bytes, the most is {MAX_FRAME_BYTES}")
        return parts


def mux_frames(connection: int, message: bytes) -> bytes:
    """Return the frames of one message of at most MAX_FRAME_BYTES."""
    first, rest = message[:_FIRST_FRAME_BYTES], message[_FIRST_FRAME_BYTES:]
    return b"".join(_HEADER.pack(connection, len(part)) + part for part in (first, rest) if part)


class Trunk:
    """The stream that carries the connections."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = MuxDecoder()
        self._receivers: dict[int, Callable[[bytes], None]] = {}
        self._writing = asyncio.Lock()

    def open(self, connection: int, receive: Callable[[bytes], None]) -> None:
        """Pass what arrives on a connection to `receive`; what arrives on others is dropped."""
        self._receivers[connection] = receive

    async def run(self) -> None:
        """Read until the other side closes.

        Raises:
            ConnectionError: the stream broke, or is no stream of frames.
        """
        while data := await self._reader.read(_READ_BYTES):
            for connection, part in self._decoder.feed(data):
                if receive := self._receivers.get(connection):
                    receive(part)

    async def send(self, connection: int, message: bytes) -> None:
        """Send one message of at most MAX_FRAME_BYTES; return when it is on its way.

        Raises:
            ConnectionError: the stream is closed.
        """
        async with self._writing:
            if self._writer.is_closing():
                raise ConnectionResetError("closed")
            self._writer.write(mux_frames(connection, message))
            await self._writer.drain()

    async def close(self) -> None:
        """Close the stream; what has not been sent is lost."""
        self._writer.transport.abort()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)
