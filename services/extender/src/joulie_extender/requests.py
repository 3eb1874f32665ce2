"""What kube-scheduler asks: the body of /filter and /prioritize.

Promises to read only what is needed, in one pass: names come out as strings, full Node objects stay the bytes they
were. Keys of the body are accepted in any letter case, as Go accepts them (kube-scheduler itself sends `Pod`, `Nodes`,
`NodeNames`, the unused side null); an absent or null side is empty. Every body that cannot be read raises
BadRequestError.
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
B = TypeVar("B")

_NULL: Final = msgspec.Raw(b"null")

#: A body as it was received. Raw objects are views of it: it must not change while they are in use.
Body = bytes | bytearray


class BadRequestError(Exception):
    """The body is no ExtenderArgs; the message says what is wrong with it."""


class _NodeList(msgspec.Struct, Generic[T]):
    items: list[T] | None = None


class _Args(msgspec.Struct, Generic[T]):
    pod: msgspec.Raw = msgspec.field(default=_NULL, name="Pod")
    nodes: _NodeList[T] | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


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


_SCORING: Final = msgspec.json.Decoder(_Args[_NamedNode])
_FILTERING: Final = msgspec.json.Decoder(_Args[msgspec.Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LABELLED_NODE: Final = msgspec.json.Decoder(_LabelledNode)


@dataclass(frozen=True, slots=True)
class ScoringQuery:
    """How well does each of these nodes suit the pod? `uid` is empty where the question does not say."""

    uid: str
    demand: PodDemand
    names: list[str]


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """Which of these nodes may the pod use?

    `objects` is set where the scheduler sent full Node objects and wants those back; otherwise it sent `names`.
    """

    demand: PodDemand
    names: list[str]
    objects: list[msgspec.Raw] | None = None


def read_scoring_query(body: Body) -> ScoringQuery:
    """Read the body of /prioritize. Raises BadRequestError."""
    args = _read_args(_SCORING, body)
    names = args.node_names
    if names is None:
        names = [item.metadata.name for item in _items(args)]
    uid, demand = _read_pod(args)
    return ScoringQuery(uid, demand, names)


def read_filter_query(body: Body) -> FilterQuery:
    """Read the body of /filter. Raises BadRequestError."""
    args = _read_args(_FILTERING, body)
    _, demand = _read_pod(args)
    if args.node_names is not None or args.nodes is None:
        return FilterQuery(demand, args.node_names or [])
    return FilterQuery(demand, [], _items(args))


def read_object(raw: msgspec.Raw) -> tuple[str, Mapping[str, str]]:
    """Read the name of a full Node object, and of its labels the one that verdicts need. Raises BadRequestError."""
    meta = _decode(_LABELLED_NODE.decode, raw).metadata
    profile = meta.labels.power_profile if meta.labels else None
    return meta.name, ({} if profile is None else {POWER_PROFILE: profile})


def _read_args(decoder: msgspec.json.Decoder[_Args[T]], body: Body) -> _Args[T]:
    args = _decode(decoder.decode, body)
    if _is_null(args.pod) or (args.node_names is None and (args.nodes is None or args.nodes.items is None)):
        # Something seems to be missing: perhaps it is only spelled otherwise.
        args = _decode(decoder.decode, _spelled_as_usual(body))
    if _is_null(args.pod):
        raise BadRequestError("no Pod in the request")
    return args


def _spelled_as_usual(body: Body) -> bytes:
    """The same question with the keys of kube-scheduler."""
    fields = _fields_any_case(body)
    nodes = fields.get("nodes")
    if nodes is not None:
        items = _fields_any_case(nodes).get("items", _NULL)
        nodes = msgspec.Raw(msgspec.json.encode({"items": items}))
    spelled = {"Pod": fields.get("pod", _NULL), "Nodes": nodes, "NodeNames": fields.get("nodenames", _NULL)}
    return msgspec.json.encode(spelled)


def _fields_any_case(raw: Body | msgspec.Raw) -> dict[str, msgspec.Raw]:
    return {key.lower(): value for key, value in _decode(_FIELDS.decode, raw).items() if not _is_null(value)}


def _items(args: _Args[T]) -> list[T]:
    return (args.nodes.items if args.nodes else None) or []


def _read_pod(args: _Args[T]) -> tuple[str, PodDemand]:
    return _decode(_uid_and_demand, bytes(args.pod))


def _uid_and_demand(raw: bytes) -> tuple[str, PodDemand]:
    pod = decode_pod(raw)
    return pod.uid, pod_demand(pod, workload_class(pod))


def _is_null(raw: msgspec.Raw) -> bool:
    return len(raw) == len(_NULL) and bytes(raw) == b"null"


def _decode(read: Callable[[B], T], raw: B) -> T:
    try:
        return read(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, DecodeError, QuantityError) as error:
        raise BadRequestError(str(error)) from error
    except RecursionError as error:
        raise BadRequestError("nested too deeply") from error
