"""The answer that the controller gets from the process that asks the kubelet: one line of JSON per connection.

The server writes it and closes; nothing is read from the client. Either side bounds it. On a second socket the kubelet
is asked after the client has connected.
"""

import asyncio
from pathlib import PurePath
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.holders.records import DeviceListing, HolderReason, ListedPod, NoListing
from joulie_core.text import printable

#: Bytes of one answer. The most devices that are listed, with long names, are some ten million.
MOST_BYTES: Final = 16 << 20
#: Seconds since the kubelet was asked, after which an answer is none: a second between two requests, and two for each.
MOST_AGE_S: Final = 3.0
#: For the whole exchange: the answer is there already.
EXCHANGE_S: Final = 1.0
_NOW_SUFFIX: Final = "-now"
_LONGEST_MESSAGE: Final = 300


class HoldersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The last answer of the kubelet, or the reason why there is none."""

    #: Seconds since it was asked, by the clock of the process that asked.
    age_s: Annotated[float, Meta(ge=0)]
    #: As in `DeviceListing`.
    asked_at_s: float = 0.0
    pods: tuple[ListedPod, ...] = ()
    #: None where there is an answer.
    reason: HolderReason | None = None
    message: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(HoldersAnswer)


def encode_answer(listing: DeviceListing | NoListing, age_s: float) -> bytes:
    """Return an answer as it is sent."""
    if isinstance(listing, NoListing):
        return _ENCODER.encode(HoldersAnswer(age_s=age_s, reason=listing.reason, message=listing.message))
    encoded = _ENCODER.encode(HoldersAnswer(age_s=age_s, asked_at_s=listing.asked_at_s, pods=listing.pods))
    if len(encoded) > MOST_BYTES:
        too_large = NoListing(HolderReason.ANSWER_TOO_LARGE, f"{len(encoded)} bytes for the controller")
        return encode_answer(too_large, age_s)
    return encoded


def decode_answer(line: bytes) -> DeviceListing | NoListing:
    """Read an answer; one that is not current, or no answer, is the reason why."""
    try:
        answer = decode(_DECODER.decode, line, "answer")
    except DecodeError as error:
        return NoListing(HolderReason.ANSWER_MALFORMED, printable(str(error), _LONGEST_MESSAGE))
    if answer.reason is not None:
        return NoListing(answer.reason, printable(answer.message, _LONGEST_MESSAGE))
    if answer.age_s > MOST_AGE_S:
        return NoListing(HolderReason.ANSWER_OLD, f"the kubelet was asked more than {MOST_AGE_S:g} s ago")
    return DeviceListing(answer.pods, answer.asked_at_s)


def now_socket(socket: str) -> str:
    """Return the socket beside the given one on which the kubelet is asked anew for each client."""
    path = PurePath(socket)
    return str(path.with_name(f"{path.stem}{_NOW_SUFFIX}{path.suffix}"))


async def fetch_answer(socket: str) -> DeviceListing | NoListing:
    """Return the current answer of the process behind a socket, or why there is none."""
    try:
        async with asyncio.timeout(EXCHANGE_S):
            line = await _read(socket)
    except TimeoutError:
        return NoListing(HolderReason.NO_READER, f"{socket}: no answer within {EXCHANGE_S:g} s")
    except OSError as error:
        return NoListing(HolderReason.NO_READER, f"{socket}: {error.strerror or error}")
    if len(line) > MOST_BYTES:
        return NoListing(HolderReason.ANSWER_TOO_LARGE, f"more than {MOST_BYTES} bytes from {socket}")
    return decode_answer(line)


async def _read(socket: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        chunks = bytearray()
        while len(chunks) <= MOST_BYTES and (chunk := await reader.read(1 << 16)):
            chunks += chunk
        return bytes(chunks)
    finally:
        writer.close()
