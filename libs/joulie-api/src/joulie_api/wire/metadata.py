"""`metadata` and owners of objects, and the conditions in a status."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

#: A copy of the whole object, written by kubectl: never read here, and it would double an object's memory.
_UNREAD_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


class WireMeta(msgspec.Struct, rename="camel"):
    """The fields of `metadata` that most objects are read for."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class WireObject(msgspec.Struct):
    """Any object, of which the metadata are enough."""

    metadata: WireMeta


class WireController(msgspec.Struct, rename="camel"):
    """An owner reference, as far as it tells the kind of the controller."""

    kind: str = ""
    controller: bool = False


class WireOwner(WireController):
    """An owner reference."""

    api_version: str = ""
    name: str = ""
    uid: str = ""


class WireCondition(msgspec.Struct, rename="camel"):
    """One condition of a status; the time is RFC 3339 as written, and None where Kubernetes writes null."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class WireConditions(msgspec.Struct):
    """A status, of which the conditions are read."""

    conditions: list[WireCondition] | None = None

    def find(self, type_: str) -> WireCondition | None:
        """Return the condition of a type; None without it."""
        return next((each for each in self.conditions or () if each.type == type_), None)

    def holds(self, type_: str) -> bool | None:
        """Return whether the condition of a type is True, and neither False nor Unknown; None without it."""
        found = self.find(type_)
        return None if found is None else found.status == "True"


@dataclass(frozen=True, slots=True)
class Metadata:
    """`metadata` of a custom resource; times are RFC 3339 as written."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created_at: str | None = None
    deleted_at: str | None = None

    @property
    def deleting(self) -> bool:
        """Whether deletion was requested and waits for a finalizer."""
        return self.deleted_at is not None


C = TypeVar("C", bound=WireController)


def controller_of(owners: Iterable[C] | None) -> C | None:
    """Return the owner that is the controller; None without one."""
    return next((each for each in owners or () if each.controller), None)


def read_annotations(meta: WireMeta) -> Mapping[str, str]:
    """Return the annotations without the copy of the whole object that kubectl keeps among them."""
    annotations = meta.annotations or {}
    annotations.pop(_UNREAD_ANNOTATION, None)
    return annotations
