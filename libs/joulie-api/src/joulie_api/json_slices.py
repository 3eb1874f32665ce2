"""Members of a JSON object and elements of an array, as the bytes that were sent, without recursion.

For input that no decoder takes as a whole, since one of its values is nested too deeply: the others are cut out and
decoded by themselves. Checks that brackets and strings are balanced, and nothing inside of the values.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from joulie_api.errors import DecodeError

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
#: A string, a bracket or a comma; what is between them is skipped.
_TOKEN: Final = re.compile(_STRING + rb'|["\[\]{},]', re.DOTALL).search
_FLAT: Final = rb'(?:\[[^"\[\]{}]*+\]|\{[^"\[\]{}]*+\})'
#: A string; brackets without any inside; those that open, with all that is between them; those that close in a row.
_RUNS: Final = re.compile(
    rb"|".join(
        (
            _STRING,
            rb"(?:" + _FLAT + rb'[^"\[\]{}]*+)++',
            rb'(?:[\[{](?:[^"\[\]{}]++|' + _STRING + rb")*+)++",
            rb"(?:[\]}][ \t\n\r]*+)++",
            rb'"',
        )
    ),
    re.DOTALL,
).finditer
_IS_FLAT: Final = re.compile(_FLAT).match
_STRINGS: Final = re.compile(_STRING, re.DOTALL).sub
_CLOSERS: Final = re.compile(rb"[\]}]").finditer
_MEMBER: Final = re.compile(rb'[ \t\n\r]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\n\r]*:', re.DOTALL).match
#: JSON's white space, less than Python's. Source: RFC 8259, section 2.
_SPACE: Final = b" \t\n\r"
_KEY: Final = msgspec.json.Decoder(str)
_CLOSING: Final = {b"{": b"}", b"[": b"]"}
_TO_CLOSING: Final = bytes.maketrans(b"[{", b"]}")
_NOT_OPENING: Final = bytes(each for each in range(256) if each not in b"[{")


def members(raw: bytes) -> dict[str, bytes]:
    """Return the values of an object by key; of two with one key the last.

    Raises:
        DecodeError: not an object.
    """
    found = {}
    for part in _parts(raw, b"{"):
        member = _MEMBER(part)
        if member is None:
            raise DecodeError("a member of an object has no key")
        try:
            key = _KEY.decode(member[1])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError("a key is not a string") from error
        found[key] = part[member.end() :].strip(_SPACE)
    return found


def elements(raw: bytes) -> list[bytes]:
    """Return the elements of an array.

    Raises:
        DecodeError: not an array.
    """
    return list(_parts(raw, b"["))


def _parts(raw: bytes, opening: bytes) -> Iterator[bytes]:
    """Yield what commas separate in the outermost brackets."""
    text = raw.strip(_SPACE)
    if not text.startswith(opening):
        raise DecodeError(f"does not begin with {opening.decode()}")
    start = 1
    for separator in _separators(text):
        is_last = separator[0] != b","
        if is_last and separator.end() != len(text):
            raise DecodeError("does not end with its last bracket")
        part = text[start : separator.start()].strip(_SPACE)
        # Only what has no comma can be empty.
        if part or start > 1 or not is_last:
            yield part
        start = separator.end()


def _separators(text: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the commas in the outermost brackets, then the bracket that closes these."""
    at = 1
    while (token := _TOKEN(text, at)) is not None:
        mark = token[0]
        if mark in _CLOSING:
            at = _end_of_value(text, token.start())
            continue
        at = token.end()
        if mark == b",":
            yield token
        elif mark == _CLOSING[text[:1]]:
            yield token
            return
        elif len(mark) == 1:
            break  # another bracket, or a string without an end
    raise DecodeError("brackets or strings are not balanced")


def _end_of_value(text: bytes, start: int) -> int:
    """Return where the object or array ends that begins there.

    Brackets that open or close in a row are handled together: a value that is nested a hundred thousand times costs a
    millisecond, and not a tenth of a second for each time that it is looked at.
    """
    open_brackets = bytearray((_TO_CLOSING[text[start]],))
    for run in _RUNS(text, start + 1):
        mark = run[0]
        if _IS_FLAT(mark):
            continue
        if mark[0] in b"[{":
            brackets = _STRINGS(b"", mark) if b'"' in mark else mark
            open_brackets += brackets.translate(_TO_CLOSING, _NOT_OPENING)
        elif mark[0] in b"]}":
            closed = mark.translate(None, _SPACE)[: len(open_brackets)]
            if open_brackets[-len(closed) :][::-1] != closed:
                break
            del open_brackets[-len(closed) :]
            if not open_brackets:
                return _place_of(run, len(closed))
        elif mark == b'"':
            break  # a string without an end
    raise DecodeError("brackets or strings are not balanced")


def _place_of(run: re.Match[bytes], count: int) -> int:
    """Return where the last one of so many brackets of a run ends."""
    brackets = run[0]
    if not brackets[:count].strip(b"]}"):
        return run.start() + count
    place = next(islice(_CLOSERS(brackets), count - 1, None)).end()
    return run.start() + place
