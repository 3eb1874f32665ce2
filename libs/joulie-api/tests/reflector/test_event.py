"""Lines of a watch, cut apart or decoded."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api.errors import DecodeError
from joulie_api.reflector.event import WatchEvent, read_event
from joulie_api.wire import decode_identity

OBJECT = b'{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"text":"}{\\"]"}}'
PLAIN = b'{"type":"MODIFIED","object":%b}' % OBJECT


def decoded(line):
    """Return what general decoding finds in a line; None where it is no event."""
    try:
        event = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return json.loads(bytes(event["type"])), bytes(event["object"])
    except (msgspec.MsgspecError, ValueError, KeyError):
        return None


@pytest.mark.parametrize(
    "line",
    [
        PLAIN,
        b'{"object":%b,"type":"ADDED"}' % OBJECT,
        b'{"type":"ADDED","object":%b,"more":{}}' % OBJECT,
        b'{"type":"ADDED","object":%b }' % OBJECT,
        b'{"type": "DELETED", "object": %b}' % OBJECT,
        b' {"type":"ADDED","object":%b}\r' % OBJECT,
        b'{"type":"ADDED","object":{"metadata":{"name":"b"}},"object":%b}' % OBJECT,
        b'{"type":"BOOKMARK","object":%b}' % OBJECT,
    ],
)
def test_every_form_of_an_event_is_read(line):
    event = read_event(line)
    assert (event.type, json.loads(event.raw)) == (decoded(line)[0], json.loads(OBJECT))
    assert event.identity == decode_identity(event.raw)


def test_the_usual_form_is_identified_at_once():
    assert read_event(PLAIN) == WatchEvent("MODIFIED", OBJECT, decode_identity(OBJECT))


@given(st.integers(0, len(PLAIN)), st.integers(0, 3), st.binary(max_size=3) | st.sampled_from([b"}", b"{}", b",{}"]))
def test_a_line_that_is_damaged_is_read_as_general_decoding_reads_it(at, dropped, inserted):
    line = PLAIN[:at] + inserted + PLAIN[at + dropped :]
    event = read_event(line)
    if isinstance(event, DecodeError):
        assert decoded(line) is None or not isinstance(decoded(line)[0], str) or not identified(decoded(line)[1])
    elif decoded(line) is None:
        # The damage is in the object, which will be set aside.
        assert decoded(line.replace(event.raw, b"{}", 1)) == (event.type, b"{}")
    else:
        assert (event.type, event.raw) == decoded(line)


def identified(raw):
    try:
        return decode_identity(raw)
    except DecodeError:
        return None


def test_an_event_whose_object_no_decoder_takes_is_read_and_identified():
    raw = b'{"metadata":{"name":"a","resourceVersion":"7"},"spec":%b}' % (b"[" * 20_000 + b"]" * 20_000)
    for line in (b'{"type":"ADDED","object":%b}' % raw, b'{"object":%b,"type":"ADDED"}' % raw):
        event = read_event(line)
        assert (event.type, event.raw) == ("ADDED", raw)
        assert event.identity.resource_version == "7"
