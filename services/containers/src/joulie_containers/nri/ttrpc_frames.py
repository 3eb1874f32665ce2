"""The frames of ttrpc, https://github.com/containerd/ttrpc/blob/main/PROTOCOL.md.

A frame is a header and a payload. The header is the length of the payload and the stream id, 32 bits and big-endian,
a type and flags of one byte each.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

_HEADER: Final = Struct(">IIBB")
#: The longest payload.
MAX_PAYLOAD_BYTES: Final = 4 << 20
MAX_FRAME_BYTES: Final = MAX_PAYLOAD_BYTES + _HEADER.size


class FrameType(IntEnum):
    """Kind of content of a frame. DATA belongs to streams, which the Node Resource Interface does not use."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


@dataclass(frozen=True, slots=True)
class TtrpcFrame:
    """A frame that has arrived."""

    stream_id: int
    #: A FrameType, or anything else.
    type: int
    #: None for one longer than MAX_PAYLOAD_BYTES.
    payload: bytes | None


class TtrpcDecoder:
    """Splits a stream of bytes into frames. It holds at most one frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        #: Bytes to discard, of a payload that is too long.
        self._discard = 0

    def feed(self, data: bytes) -> list[TtrpcFrame]:
        """Return the frames that are complete with `data`."""
        self._buffer += data
        frames: list[TtrpcFrame] = []
        while True:
            discarded = min(self._discard, len(self._buffer))
            del self._buffer[:discarded]
            self._discard -= discarded
            if len(self._buffer) < _HEADER.size:
                return frames
            length, stream_id, kind, _flags = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + length
            if length > MAX_PAYLOAD_BYTES:
                self._discard = end
                frames.append(TtrpcFrame(stream_id, kind, None))
            elif len(self._buffer) < end:
                return frames
            else:
                frames.append(TtrpcFrame(stream_id, kind, bytes(self._buffer[_HEADER.size : end])))
                del self._buffer[:end]


def ttrpc_frame(stream_id: int, kind: FrameType, payload: bytes) -> bytes:
    """Return a frame. Flags are for streams only: a unary call has none."""
    return _HEADER.pack(len(payload), stream_id, kind, 0) + payload
