"""One line of a watch: its type, and its object as the bytes that were sent.

The API server writes every line in one form, type before object and nothing else. Such a line is only cut apart: who
reads the object reads all of its bytes, and so finds out whether it is one value. Other lines are decoded.
Source: docs/results/cost-per-pod.md.
"""

import re
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.json_slices import members
from joulie_api.wire import WireIdentity, decode_identity

_START: Final = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":(?=\{)').match


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_TYPES: Final = msgspec.json.Decoder(str)
_EVENT: Final = msgspec.json.Decoder(_Event)


def read_event(line: bytes) -> tuple[str, bytes, WireIdentity | None]:
    """Return the type of an event and its object, and what identifies that where it has been read already.

    Raises:
        DecodeError: not a watch event.
    """
    start = _START(line)
    if start is not None and line.endswith(b"}"):
        raw = line[start.end() : -1]
        try:
            # Fails where the object does not end with the line.
            return start[1].decode(), raw, decode_identity(raw)
        except DecodeError:
            pass
    try:
        event = decode(_EVENT.decode, line, "watch event")
    except DecodeError:
        # Its object may be nested too deeply for a decoder that skips it.
        fields = members(line)
        if not {"type", "object"} <= fields.keys():
            raise
        return decode(_TYPES.decode, fields["type"], "type of a watch event"), fields["object"], None
    return event.type, bytes(event.object), None
