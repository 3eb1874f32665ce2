"""Decoding of what comes from outside the process: every failure becomes a DecodeError.

The only place that calls a decoder on bytes of others, so that the list of what may be raised stands once. Depth: the
decoders of msgspec and of pydantic recurse, also over fields that are skipped; beyond Python's limit of recursion they
raise. Size is limited where the bytes are received: see `joulie_api.answers`.
Source: docs/decisions/0026-bulkheads.md.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import pydantic

from joulie_api.errors import DecodeError
from joulie_core.text import printable

T = TypeVar("T")

#: Characters of an error's own text in a message; it may quote the input.
_MAX_TEXT = 300


def decode(decoder: Callable[[bytes], T], raw: bytes | msgspec.Raw, what: str) -> T:
    """Return what `decoder` makes of the bytes; `what` names the expected content in the message, such as `list`.

    `decoder` is a function of one argument, such as the `decode` of a `msgspec.json.Decoder`.

    Raises:
        DecodeError: anything else: not the format, not the schema, not UTF-8, nested too deeply, a number that cannot
            be represented.
    """
    try:
        return decoder(raw)
    except RecursionError as error:
        # Its traceback has a frame for each level.
        raise DecodeError(f"not a {what}: nested too deeply") from error.with_traceback(None)
    except pydantic.ValidationError as error:
        raise DecodeError(f"not a {what}: {faults_of(error)}") from error
    except (msgspec.MsgspecError, ValueError, ArithmeticError) as error:
        # UnicodeDecodeError is a ValueError; OverflowError is an ArithmeticError.
        raise DecodeError(f"not a {what}: {printable(str(error), _MAX_TEXT)}") from error


def faults_of(error: pydantic.ValidationError) -> str:
    """Return the invalid fields and the reasons, without the values."""
    faults = (f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors())
    return printable("; ".join(faults), _MAX_TEXT)
