"""Parsing of one variable's text for its field, and descriptions of a field's form and default."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.durations import format_duration


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a field's number, for documentation: `Annotated[float, Unit("W")]`."""

    name: str


def read_text(text: str, annotation: Any) -> Any:
    """Convert a variable's text to what pydantic expects for the field; scalars stay text.

    Raises:
        ValueError: the field needs a boolean or JSON and the text is not one.
    """
    annotation = _bare(annotation)
    origin = get_origin(annotation) or annotation
    if origin is bool:
        return _read_bool(text)
    if not isinstance(origin, type) or issubclass(origin, str | int | float | Enum):
        return text
    if issubclass(origin, list | tuple | frozenset | set) and not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return decode(msgspec.json.decode, text.encode(errors="surrogateescape"), "JSON text")
    except DecodeError as error:
        raise ValueError(f"not JSON ({str(error).partition(': ')[2]})") from error


def _bare(annotation: Any) -> Any:
    """Return the type without Annotated and, if it is optional, without None."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        members = [member for member in get_args(annotation) if member is not type(None)]
        return _bare(members[0]) if len(members) == 1 else annotation
    return annotation


def _read_bool(text: str) -> bool:
    """Parse what Go's strconv.ParseBool accepts, in any letter case."""
    match text.lower():
        case "true" | "t" | "1":
            return True
        case "false" | "f" | "0":
            return False
        case _:
            raise ValueError("must be true or false")


#: The form of a value, where it does not follow from the name of the unit.
_FORMS = {
    "duration": "a duration such as 30s, 5m or 1h30m",
    "HOST:PORT": "HOST:PORT or :PORT",
    "list": "comma-separated values",
    "integer": "a whole number",
    "number": "a number",
    "text": "text",
    "W": "a number of watts",
    "%": "a percentage",
}


def hint(info: FieldInfo) -> str:
    """Return how to correct an invalid value of the field."""
    counts = unit(info)
    form = _FORMS.get(counts) or ("one of " + counts.replace("|", ", ") if "|" in counts else counts)
    if info.is_required():
        return f"set it to {form}"
    default = format_default(info.get_default(call_default_factory=True), info)
    return f"write {form}, or unset it" + (f" for {default}" if default else "")


def unit(info: FieldInfo) -> str:
    """Return a field's `Unit`, the choices of an enum, or the name of its type."""
    for mark in _marks(info):
        if isinstance(mark, Unit):
            return mark.name
    bare = _bare(info.annotation)
    origin = get_origin(bare) or bare
    if origin is Literal:
        return "|".join(str(value) for value in get_args(bare))
    if not isinstance(origin, type):
        return "JSON"
    if issubclass(origin, Enum):
        return "|".join(str(member.value) for member in origin)
    if issubclass(origin, list | tuple | frozenset | set):
        return "list"
    return {bool: "true|false", str: "text", int: "integer", float: "number"}.get(origin, "JSON")


def _marks(info: FieldInfo) -> Iterator[Any]:
    """Yield the Annotated metadata of a field, also of an optional one."""
    yield from info.metadata
    for member in get_args(info.annotation):
        if get_origin(member) is Annotated:
            yield from get_args(member)[1:]


def _short(duration: str) -> str:
    """Shorten `1h0m0s` to `1h`."""
    for name, zero in (("m", "0s"), ("h", "0m")):
        duration = duration.removesuffix(zero) if duration.endswith(name + zero) else duration
    return duration


def format_default(value: Any, info: FieldInfo) -> str:
    """Return a default as it is written in the environment."""
    if value is None:
        return ""
    if unit(info) == "duration":
        return _short(format_duration(value))
    match value:
        case BaseModel():
            text = value.model_dump_json()
        case bool() | Mapping():
            text = msgspec.json.encode(value).decode()
        case list() | tuple() | frozenset() | set():
            text = ",".join(str(item) for item in value)
        case _:
            text = str(value.value if isinstance(value, Enum) else value)
    return text
