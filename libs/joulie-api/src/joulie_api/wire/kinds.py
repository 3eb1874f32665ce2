"""Decoding of custom resources by their models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec
import pydantic

from joulie_api.decoding import decode
from joulie_api.wire.metadata import Metadata, WireMeta, WireObject, read_annotations
from joulie_core.text import printable

M = TypeVar("M", bound=pydantic.BaseModel)

#: Characters of a name in a message; names of Kubernetes are at most as long.
_MAX_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class Versioned(Generic[M]):
    """A custom resource as read: its metadata, and spec and status as its model has them."""

    metadata: Metadata
    model: M

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name


_OBJECTS: Final = msgspec.json.Decoder(WireObject)


def decode_kind(model: type[M]) -> Callable[[bytes], Versioned[M]]:
    """Return a decoder of one custom resource; it raises a DecodeError that names the invalid field."""

    def read(raw: bytes) -> Versioned[M]:
        meta = decode(_OBJECTS.decode, raw, model.__name__).metadata
        what = f"{model.__name__} {printable(meta.name, _MAX_NAME)}"
        return Versioned(_metadata(meta), decode(model.model_validate_json, raw, what))

    return read


def _metadata(meta: WireMeta) -> Metadata:
    return Metadata(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        labels=meta.labels or {},
        annotations=read_annotations(meta),
        created_at=meta.creation_timestamp,
        deleted_at=meta.deletion_timestamp,
    )
