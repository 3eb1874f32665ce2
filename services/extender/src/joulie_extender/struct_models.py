"""Structs that read the same JSON as a pydantic model, for objects that are decoded hundreds of times a second.

A struct is made of the fields of its model, with their aliases, defaults and limits, so that there is one description
of a kind. It guarantees less than the model: what it accepts of the API server's JSON, the model accepts with equal
values, but it refuses some of what the model accepts (a number written as a string). Who is refused reads the model,
which also names the field in its error.
Source: docs/results/cost-per-pod.md.
"""

from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
from pydantic.fields import FieldInfo

from joulie_core.kinds.base import CheckedModel, Model

#: Limits of numbers and texts that both state by these names.
_LIMITS: Final = frozenset({"ge", "gt", "le", "lt", "min_length", "max_length"})
#: Types that both read alike. Not int, of which a struct and a model have different ranges.
_SCALARS: Final = (str, float, NoneType)


def struct_of(model: type[Model]) -> type[msgspec.Struct]:
    """Return a struct of a model's fields, by the model's names in Python.

    Raises:
        TypeError: a field or check of the model has no counterpart.
    """
    if issubclass(model, CheckedModel):
        raise TypeError(f"{model.__name__} has checks of its own")
    parts = [_field(name, info) for name, info in model.model_fields.items()]
    aliases = {name: info.alias or name for name, info in model.model_fields.items()}
    return msgspec.defstruct(f"{model.__name__}Fields", parts, rename=aliases, kw_only=True)


def _field(name: str, info: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    wire_type = _limited(_type(info.annotation), info.metadata)
    if info.is_required():
        return name, wire_type
    default = info.get_default(call_default_factory=True)
    if not isinstance(default, Model):
        return name, wire_type, default
    if default.model_fields_set:
        raise TypeError(f"{name} has a default that is not that of {type(default).__name__}")
    return name, wire_type, msgspec.field(default_factory=wire_type)


def _type(annotation: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        metadata = [
            part for each in arguments[1:] for part in (each.metadata if isinstance(each, FieldInfo) else [each])
        ]
        return _limited(_type(arguments[0]), metadata)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
        return GenericAlias(tuple, (_type(arguments[0]), ...))
    if origin in {Union, UnionType}:
        return Union[tuple(_type(each) for each in arguments)]  # noqa: UP007 - of a tuple
    if isinstance(annotation, type):
        if issubclass(annotation, Model):
            return struct_of(annotation)
        if annotation in _SCALARS or issubclass(annotation, Enum):
            return annotation
    raise TypeError(f"no counterpart of {annotation}")


def _limited(wire_type: Any, metadata: Iterable[Any]) -> Any:
    limits: dict[str, Any] = {}
    for each in metadata:
        stated = {part.name: getattr(each, part.name) for part in fields(each)}
        if not stated.keys() <= _LIMITS:
            raise TypeError(f"no counterpart of {each}")
        limits |= stated
    return Annotated[wire_type, msgspec.Meta(**limits)]
