"""Members of a JSON object and elements of an array, as the bytes that were sent, without recursion.

For input that no decoder takes as a whole, since one of its values is nested too deeply: the others are cut out and
decoded by themselves. Checks that brackets and strings are balanced, and nothing inside of the values.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from joulie_api.errors import DecodeError

#: A string, a bracket or a comma; what is between them is skipped.
_TOKENS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL).finditer
_MEMBER: Final = re.compile(rb'[ \t\n\r]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\n\r]*:', re.DOTALL).match
#: JSON's white space, less than Python's. Source: RFC 8259, section 2.
_SPACE: Final = b" \t\n\r"
_KEY: Final = msgspec.json.Decoder(str)
_CLOSING: Final = {b"{": b"}", b"[": b"]"}
_ENDS: Final = frozenset(_CLOSING.values())


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
    closing: list[bytes] = []
    for token in _TOKENS(text):
        mark = token[0]
        if mark in _CLOSING:
            closing.append(_CLOSING[mark])
        elif mark == b"," and len(closing) == 1:
            yield token
        elif mark in _ENDS:
            if closing.pop() != mark:
                break
            if not closing:
                yield token
                return
        elif mark == b'"':
            break  # a string without an end
    raise DecodeError("brackets or strings are not balanced")
