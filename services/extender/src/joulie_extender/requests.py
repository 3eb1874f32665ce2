"""Requests of kube-scheduler: the body of /filter and /prioritize.

Guarantees to read only what is needed: names come out as strings, full Node objects stay the bytes they were. Keys of
the body are accepted in any letter case, as Go accepts them (kube-scheduler itself sends `Pod`, `Nodes`, `NodeNames`,
the unused side null); an absent or null side is empty. Where both are sent, the names count, as for a scheduler that
is `nodeCacheCapable`. Every body that cannot be read raises BadRequestError, one beyond a limit TooLargeError before
what is too large is decoded: no call takes longer than some tens of milliseconds.
Source: docs/decisions/0002-extender.md, 0013-conventions.md; kube-scheduler's extender API v1, ExtenderArgs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

import msgspec

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.pod_reader import DemandingPod, PodFields
from joulie_api.stated_times import read_stated_time
from joulie_core.labels import POWER_PROFILE, SLEEP_STATE
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.quantity import QuantityError
from joulie_core.text import printable

T = TypeVar("T")

_NULL: Final = msgspec.Raw(b"null")
#: What stands between two nodes as kube-scheduler writes them. Within a string the quotes would be escaped.
_BETWEEN: Final = b'},{"metadata":{'
#: A pod, or a full node. etcd stores at most 1.5 MiB of an object, in a denser form.
MAX_OBJECT_BYTES: Final = 2 * 1024 * 1024
#: A body without full nodes: a pod, and 20,000 names of 100 characters.
MAX_NAMES_BODY_BYTES: Final = 2 * MAX_OBJECT_BYTES
#: Nodes of one request; Kubernetes supports clusters of 5,000.
MAX_CANDIDATES: Final = 20_000
#: Full nodes that are not written as kube-scheduler writes them, which are read in one go.
MAX_UNCUT_BYTES: Final = 1024 * 1024
#: A body whose keys are not those of kube-scheduler, and whose members are therefore all read.
MAX_RESPELLED_BYTES: Final = 256 * 1024
#: What stands between a pod and its nodes, and behind the last node.
_FRAME_BYTES: Final = 65_536
_MAX_TEXT: Final = 300

#: A body as it was received. Parts are views of it: it must not change while they are in use.
Body = bytes | bytearray
Part = msgspec.Raw | memoryview


class BadRequestError(Exception):
    """The body is not an ExtenderArgs; the message names the fault."""


class TooLargeError(BadRequestError):
    """The body, or a part of it, exceeds a limit; the message names both."""


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Args(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = _NULL
    nodes: msgspec.Raw = _NULL
    node_names: list[str] | None = None


class _Names(msgspec.Struct, rename="pascal"):
    node_names: msgspec.Raw = _NULL


class _Labels(msgspec.Struct):
    power_profile: str | None = msgspec.field(default=None, name=POWER_PROFILE)
    sleep_state: str | None = msgspec.field(default=None, name=SLEEP_STATE)


class _Meta(msgspec.Struct):
    name: str
    labels: _Labels | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


_ARGS: Final = msgspec.json.Decoder(_Args)
_NAMES: Final = msgspec.json.Decoder(_Names)
_POD: Final = msgspec.json.Decoder(PodFields)
_NODES: Final = msgspec.json.Decoder(_NodeList | None)
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
    #: Seconds that the pod runs at most; None where it states nothing of it.
    run_s: float | None = None


@dataclass(frozen=True, slots=True)
class SentNode:
    """The parts of a full Node object that are read: of its labels, those that the filter needs."""

    name: str
    labels: Mapping[str, str]
    raw: Part


def read_query(body: Body, claimed_gpus: ClaimedGpus = no_claims) -> ExtenderRequest:
    """Decode a body; its objects stay undecoded.

    Raises:
        BadRequestError: the body is not an ExtenderArgs, or exceeds a limit.
    """
    _limit("a request other than kube-scheduler's with full nodes", len(body), MAX_NAMES_BODY_BYTES)
    pod, nodes, names = _read_args(body)
    if (_is_null(pod) or (names is None and (nodes is None or nodes.items is None))) and (
        len(body) <= MAX_RESPELLED_BYTES
    ):
        # Something seems to be missing: perhaps it is only spelled otherwise.
        pod, nodes, names = _read_args(_spelled_as_usual(body))
    if _is_null(pod):
        raise BadRequestError("no Pod in the request")
    read, timed = _read_pod(pod, claimed_gpus), read_stated_time(bytes(pod))
    run_s = None if timed is None else timed.stated.at_most_s
    if names is not None or nodes is None:
        check_candidates(len(names or ()))
        return ExtenderRequest(read.uid, read.demand, names or [], with_claims=read.with_claims, run_s=run_s)
    return ExtenderRequest(read.uid, read.demand, [], nodes.items or [], with_claims=read.with_claims, run_s=run_s)


def split_nodes(body: Body, claimed_gpus: ClaimedGpus = no_claims) -> ExtenderRequest | None:
    """Read a body with full nodes as kube-scheduler writes them, and find its objects only when they are needed.

    Telling thousands of nodes apart takes the time of reading them all, at once; this takes it node by node. None where
    the body is written otherwise. It may look like it and not be: then one of the objects cannot be read, and
    `read_query` has the answer. Taking an object raises TooLargeError where it exceeds MAX_OBJECT_BYTES.
    """
    if not body.endswith(b"null}"):
        return None  # with names, which stand last
    nodes = body.find(b'"Nodes":{', 0, MAX_OBJECT_BYTES + _FRAME_BYTES)
    if nodes < 0:
        return None
    first = body.find(b'"items":[{', nodes, nodes + _FRAME_BYTES) + len(b'"items":[')
    end = body.rfind(b"}]}", len(body) - min(len(body), _FRAME_BYTES)) + 1
    if not nodes < first < end:
        return None
    try:
        query = read_query(body[:first] + body[end:], claimed_gpus)
    except TooLargeError:
        raise
    except BadRequestError:
        return None
    return None if query.objects is None else replace(query, objects=_cut(body, first, end))


def check_candidates(number: int) -> None:
    """Check the number of nodes of a request. Raises TooLargeError."""
    _limit("the candidates", number, MAX_CANDIDATES, "nodes")


def read_object(raw: Part) -> SentNode:
    """Read a full Node object. Raises BadRequestError."""
    meta = _decode(_NODE.decode, raw, "Node").metadata
    seen = meta.labels or _Labels()
    labels = {POWER_PROFILE: seen.power_profile, SLEEP_STATE: seen.sleep_state}
    return SentNode(meta.name, {key: value for key, value in labels.items() if value is not None}, raw)


def _cut(body: Body, first: int, end: int) -> Iterator[memoryview]:
    view = memoryview(body)
    while (cut := body.find(_BETWEEN, first, min(end, first + MAX_OBJECT_BYTES + len(_BETWEEN) - 1))) >= 0:
        yield view[first : cut + 1]
        first = cut + 2
    _limit("a full node, or several that are not written as kube-scheduler writes them", end - first, MAX_OBJECT_BYTES)
    yield view[first:end]


def _read_args(body: Body) -> tuple[msgspec.Raw, _NodeList | None, list[str] | None]:
    """Return the pod, the nodes and the names."""
    if len(body) > _FRAME_BYTES:
        # Before any of them is a string. A name has no comma.
        check_candidates(bytes(_decode(_NAMES.decode, body, "request").node_names).count(b",") + 1)
    args = _decode(_ARGS.decode, body, "request")
    _limit("the pod", len(args.pod), MAX_OBJECT_BYTES)
    _limit("full nodes that are not written as kube-scheduler writes them", len(args.nodes), MAX_UNCUT_BYTES)
    return args.pod, _decode(_NODES.decode, args.nodes, "NodeList"), args.node_names


def _read_pod(raw: msgspec.Raw, claimed_gpus: ClaimedGpus) -> DemandingPod:
    try:
        return decode(_POD.decode, raw, "Pod").read(claimed_gpus)
    except (DecodeError, QuantityError) as error:
        raise BadRequestError(printable(str(error), _MAX_TEXT)) from error


def _limit(what: str, size: int, limit: int, unit: str = "bytes") -> None:
    if size > limit:
        raise TooLargeError(f"{what}: {size} {unit}, at most {limit} are accepted")


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
    fields = _decode(_FIELDS.decode, raw, "JSON object")
    return {key.lower(): value for key, value in fields.items() if not _is_null(value)}


def _is_null(raw: msgspec.Raw) -> bool:
    return len(raw) == len(_NULL) and bytes(raw) == b"null"


def _decode(decoder: Callable[[bytes], T], raw: Body | Part, what: str) -> T:
    try:
        return decode(decoder, cast(bytes, raw), what)
    except DecodeError as error:
        raise BadRequestError(str(error)) from error
