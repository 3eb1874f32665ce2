"""What kube-scheduler sends: the body of /filter and /prioritize.

Guarantees to read only what is needed: names come out as strings, full Node objects stay the bytes they were. Keys of
the body are accepted in any letter case, as Go accepts them (kube-scheduler itself sends `Pod`, `Nodes`, `NodeNames`,
the unused side null); an absent or null side is empty. Every body that cannot be read raises BadRequestError. Source:
docs/decisions/0013-conventions.md; kube-scheduler's extender API v1, ExtenderArgs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.errors import DecodeError
from joulie_api.pod_reader import PodFields
from joulie_core.labels import POWER_PROFILE, SLEEP_STATE
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.quantity import QuantityError

T = TypeVar("T")
B = TypeVar("B")

_NULL: Final = msgspec.Raw(b"null")
#: What stands between two nodes as kube-scheduler writes them. Within a string the quotes would be escaped.
_BETWEEN: Final = b'},{"metadata":{'
#: A pod is smaller, and its nodes stand behind it.
_POD_BYTES: Final = 65_536

#: A body as it was received. Parts are views of it: it must not change while they are in use.
Body = bytes | bytearray
Part = msgspec.Raw | memoryview


class BadRequestError(Exception):
    """The body is not an ExtenderArgs; the message names the fault."""


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Args(msgspec.Struct, rename="pascal"):
    pod: PodFields | None = None
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _Labels(msgspec.Struct):
    power_profile: str | None = msgspec.field(default=None, name=POWER_PROFILE)
    sleep_state: str | None = msgspec.field(default=None, name=SLEEP_STATE)


class _Meta(msgspec.Struct):
    name: str
    labels: _Labels | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


_ARGS: Final = msgspec.json.Decoder(_Args)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NODE: Final = msgspec.json.Decoder(_Node)


@dataclass(frozen=True, slots=True)
class ExtenderRequest:
    """A pod and its candidate nodes. `uid` is empty where the request has none.

    `objects` is set where the scheduler sent full Node objects, each as the bytes that it sent, and wants those back;
    otherwise it sent `names`.
    """

    uid: str
    demand: PodDemand
    names: list[str]
    objects: Iterable[Part] | None = None
    #: Whether the demand also depends on claims, and so on the moment.
    with_claims: bool = False


@dataclass(frozen=True, slots=True)
class SentNode:
    """What is read of a full Node object: of its labels, those that verdicts need."""

    name: str
    labels: Mapping[str, str]
    raw: Part


def read_query(body: Body, claimed_gpus: ClaimedGpus = no_claims) -> ExtenderRequest:
    """Decode a body; its objects stay undecoded.

    Raises:
        BadRequestError: the body is not an ExtenderArgs.
    """
    return _query(_read_args(body), claimed_gpus)


def split_nodes(body: Body, claimed_gpus: ClaimedGpus = no_claims) -> ExtenderRequest | None:
    """Read a body with full nodes as kube-scheduler writes them, and find its objects only when they are needed.

    Telling thousands of nodes apart takes the time of reading them all, at once; this takes it node by node. None where
    the body is written otherwise. It may look like it and not be: then one of the objects cannot be read, and
    `read_query` has the answer.
    """
    if not body.endswith(b"null}"):
        return None  # with names, which stand last
    nodes = body.find(b'"Nodes":{', 0, _POD_BYTES)
    if nodes < 0:
        return None
    first = body.find(b'"items":[{', nodes, nodes + _POD_BYTES) + len(b'"items":[')
    end = body.rfind(b"}]}") + 1
    if not nodes < first < end:
        return None
    try:
        query = read_query(body[:first] + body[end:], claimed_gpus)
    except BadRequestError:
        return None
    return None if query.objects is None else replace(query, objects=_cut(body, first, end))


def read_object(raw: Part) -> SentNode:
    """Read a full Node object. Raises BadRequestError."""
    meta = _decode(_NODE.decode, raw).metadata
    seen = meta.labels or _Labels()
    labels = {POWER_PROFILE: seen.power_profile, SLEEP_STATE: seen.sleep_state}
    return SentNode(meta.name, {key: value for key, value in labels.items() if value is not None}, raw)


def _cut(body: Body, first: int, end: int) -> Iterator[memoryview]:
    view = memoryview(body)
    while (cut := body.find(_BETWEEN, first, end)) >= 0:
        yield view[first : cut + 1]
        first = cut + 2
    yield view[first:end]


def _query(args: _Args, claimed_gpus: ClaimedGpus) -> ExtenderRequest:
    if args.pod is None:
        raise BadRequestError("no Pod in the request")
    pod = _decode(lambda sent: sent.read(claimed_gpus), args.pod)
    if args.node_names is not None or args.nodes is None:
        return ExtenderRequest(pod.uid, pod.demand, args.node_names or [], with_claims=pod.with_claims)
    return ExtenderRequest(pod.uid, pod.demand, [], args.nodes.items or [], with_claims=pod.with_claims)


def _read_args(body: Body) -> _Args:
    args = _decode(_ARGS.decode, body)
    if args.pod is None or (args.node_names is None and (args.nodes is None or args.nodes.items is None)):
        # Something seems to be missing: perhaps it is only spelled otherwise.
        args = _decode(_ARGS.decode, _spelled_as_usual(body))
    return args


def _spelled_as_usual(body: Body) -> bytes:
    """Return the same request with the keys of kube-scheduler."""
    fields = _fields_any_case(body)
    nodes = fields.get("nodes")
    if nodes is not None:
        items = _fields_any_case(nodes).get("items", _NULL)
        nodes = msgspec.Raw(msgspec.json.encode({"items": items}))
    spelled = {"Pod": fields.get("pod", _NULL), "Nodes": nodes, "NodeNames": fields.get("nodenames", _NULL)}
    return msgspec.json.encode(spelled)


def _fields_any_case(raw: Body | msgspec.Raw) -> dict[str, msgspec.Raw]:
    return {key.lower(): value for key, value in _decode(_FIELDS.decode, raw).items() if not _is_null(value)}


def _is_null(raw: msgspec.Raw) -> bool:
    return len(raw) == len(_NULL) and bytes(raw) == b"null"


def _decode(read: Callable[[B], T], raw: B) -> T:
    try:
        return read(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, DecodeError, QuantityError) as error:
        raise BadRequestError(str(error)) from error
    except RecursionError as error:
        raise BadRequestError("nested too deeply") from error
