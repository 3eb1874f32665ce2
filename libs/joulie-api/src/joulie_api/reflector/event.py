"""Events of a reflector, read from what the API server sends: one line of a watch, and one page of a list.

The API server writes every line in one form, type before object and nothing else. Such a line is only cut apart: who
reads the object reads all of its bytes, and so finds out whether it is one value. Other lines are decoded.
Source: docs/results/cost-per-pod.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.json_slices import members
from joulie_api.wire import ListMeta, WireIdentity, decode_identity, decode_page

_START: Final = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":(?=\{)').match


#: Types of events that carry a version of an object, or of the collection.
_OF_OBJECTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_TYPES: Final = msgspec.json.Decoder(str)
_EVENT: Final = msgspec.json.Decoder(_Event)


class WatchEvent(msgspec.Struct):
    """One event of a watch; not to be changed. Made for every line, so that what it costs to make one counts."""

    type: str
    #: The object as it was sent.
    raw: bytes
    #: None of what is no version of an object, such as an error.
    identity: WireIdentity | None


@dataclass(frozen=True, slots=True)
class ReadPage:
    """One page of a list, and its objects as they were sent."""

    metadata: ListMeta
    items: Sequence[tuple[WireIdentity, bytes]]


def read_page(raw: bytes) -> ReadPage | DecodeError:
    """Cut a page of a list into its objects; the error: it is no list, or an item is no object."""
    try:
        page = decode_page(raw)
        return ReadPage(page.metadata, [(decode_identity(item), bytes(item)) for item in page.items or ()])
    except DecodeError as error:
        return error


def read_event(line: bytes) -> WatchEvent | DecodeError:
    """Return the event of a line; the error: it is none."""
    try:
        return _read_event(line)
    except DecodeError as error:
        return error


def _read_event(line: bytes) -> WatchEvent:
    start = _START(line)
    if start is not None and line.endswith(b"}"):
        raw = line[start.end() : -1]
        try:
            # Fails where the object does not end with the line.
            return WatchEvent(start[1].decode(), raw, decode_identity(raw))
        except DecodeError:
            pass
    try:
        event = decode(_EVENT.decode, line, "watch event")
    except DecodeError:
        # Its object may be nested too deeply for a decoder that skips it.
        fields = members(line)
        if not {"type", "object"} <= fields.keys():
            raise
        type_, raw = decode(_TYPES.decode, fields["type"], "type of a watch event"), fields["object"]
    else:
        type_, raw = event.type, bytes(event.object)
    return WatchEvent(type_, raw, decode_identity(raw) if type_ in _OF_OBJECTS else None)
