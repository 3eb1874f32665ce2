"""What kube-scheduler asks: the body of /filter and /prioritize.

Promises to read only what is needed: names come out as strings, full Node objects stay the bytes they were. Keys of the
body are accepted in any letter case, as Go accepts them (kube-scheduler itself sends `Pod`, `Nodes`, `NodeNames`, the
unused side null); an absent or null side is empty. Every body that cannot be read raises BadRequestError.
Source: contracts, decision 10; kube-scheduler's extender API v1, ExtenderArgs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from joulie_api.errors import DecodeError
from joulie_api.wire import decode_pod
from joulie_core.demand import workload_class
from joulie_core.labels import POWER_PROFILE
from joulie_core.powerest.demand import PodDemand, pod_demand
from joulie_core.quantity import QuantityError

T = TypeVar("T")
B = TypeVar("B", bytes, msgspec.Raw)

_NULL: Final = msgspec.Raw(b"null")


class BadRequestError(Exception):
    """The body is no ExtenderArgs; the message says what is wrong with it."""


class _Args(msgspec.Struct):
    pod: msgspec.Raw = msgspec.field(default=_NULL, name="Pod")
    nodes: msgspec.Raw = msgspec.field(default=_NULL, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


class _NodeList(msgspec.Struct, Generic[T]):
    items: list[T] | None = None


class _Name(msgspec.Struct):
    name: str


class _NamedNode(msgspec.Struct):
    metadata: _Name


class _Labels(msgspec.Struct):
    power_profile: str | None = msgspec.field(default=None, name=POWER_PROFILE)


class _LabelledName(msgspec.Struct):
    name: str
    labels: _Labels | None = None


class _LabelledNode(msgspec.Struct):
    metadata: _LabelledName


_ARGS: Final = msgspec.json.Decoder(_Args)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMES: Final = msgspec.json.Decoder(list[str] | None)
_NAMED_NODES: Final = msgspec.json.Decoder(_NodeList[_NamedNode])
_RAW_NODES: Final = msgspec.json.Decoder(_NodeList[msgspec.Raw])
_LABELLED_NODE: Final = msgspec.json.Decoder(_LabelledNode)


@dataclass(frozen=True, slots=True)
class Query:
    """One question about one pod, and its candidates.

    `nodes` is set where the scheduler sent full objects and wants those back; otherwise it sent `names`.
    """

    demand: PodDemand
    names: list[str]
    nodes: msgspec.Raw | None = None

    def candidates(self) -> list[str]:
        """Names of all candidates, in the order given. Raises BadRequestError."""
        if self.nodes is None:
            return self.names
        return [item.metadata.name for item in _items(_NAMED_NODES, self.nodes)]

    def objects(self) -> list[msgspec.Raw]:
        """The full Node objects, each as it was written. Raises BadRequestError."""
        return [] if self.nodes is None else _items(_RAW_NODES, self.nodes)


def read_query(body: bytes) -> Query:
    """Read the body of a request. Raises BadRequestError."""
    args = _decode(_ARGS.decode, body)
    if _is_null(args.pod) or (_is_null(args.nodes) and args.node_names is None):
        # Something seems to be missing: perhaps it is only spelled otherwise.
        args = _read_any_case(body)
    if _is_null(args.pod):
        raise BadRequestError("no Pod in the request")
    demand = _decode(_demand, bytes(args.pod))
    if args.node_names is not None or _is_null(args.nodes):
        return Query(demand, args.node_names or [])
    return Query(demand, [], args.nodes)


def read_object(raw: msgspec.Raw) -> tuple[str, Mapping[str, str]]:
    """Read the name of a full Node object, and of its labels the one that verdicts need. Raises BadRequestError."""
    meta = _decode(_LABELLED_NODE.decode, raw).metadata
    profile = meta.labels.power_profile if meta.labels else None
    return meta.name, ({} if profile is None else {POWER_PROFILE: profile})


def _read_any_case(body: bytes) -> _Args:
    fields = _fields_any_case(body)
    names = _decode(_NAMES.decode, fields.get("nodenames", _NULL))
    return _Args(fields.get("pod", _NULL), fields.get("nodes", _NULL), names)


def _fields_any_case(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    return {key.lower(): value for key, value in _decode(_FIELDS.decode, raw).items() if not _is_null(value)}


def _items(decoder: msgspec.json.Decoder[_NodeList[T]], raw: msgspec.Raw) -> list[T]:
    items = _decode(decoder.decode, raw).items
    if items is None and (spelled_otherwise := _fields_any_case(raw).get("items")) is not None:
        items = _decode(decoder.decode, b'{"items":' + bytes(spelled_otherwise) + b"}").items
    return items or []


def _demand(raw: bytes) -> PodDemand:
    pod = decode_pod(raw)
    return pod_demand(pod, workload_class(pod))


def _is_null(raw: msgspec.Raw) -> bool:
    return len(raw) == len(_NULL) and bytes(raw) == b"null"


def _decode(read: Callable[[B], T], raw: B) -> T:
    try:
        return read(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, DecodeError, QuantityError) as error:
        raise BadRequestError(str(error)) from error
    except RecursionError as error:
        raise BadRequestError("nested too deeply") from error
