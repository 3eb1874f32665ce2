"""Replies to kube-scheduler about filtering, as bytes.

Guarantees replies in the order and from the set of the request, and full nodes byte for byte as received. Refused nodes
are in both maps: kube-scheduler lets FailedAndUnresolvableNodes overrule FailedNodes, people look at the latter.
Source: kube-scheduler's extender API v1, ExtenderFilterResult; docs/decisions/0013-conventions.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from joulie_core.scoring.filter import FilterResult
from joulie_extender.requests import Part

_ENCODER: Final = msgspec.json.Encoder()
#: Bytes of full nodes that are written at once, and as much of one more node.
_PART_BYTES: Final = 1024 * 1024


def refusal(name: str, judged: FilterResult) -> bytes:
    """Return a refused node's member of the maps of failed nodes."""
    return _ENCODER.encode(name) + b":" + _ENCODER.encode(judged.message)


def names_reply(names: list[str], refusals: Mapping[str, bytes]) -> bytes:
    """Return the reply to a request with names: the accepted nodes, and the reasons for the refused ones."""
    passed = [name for name in names if name not in refusals] if refusals else names
    failed = [refusals[name] for name in names if name in refusals] if len(passed) < len(names) else []
    return b'{"Nodes":null,"NodeNames":' + _ENCODER.encode(passed) + _failed(failed)


def objects_reply(passed: Sequence[Part], refusals: Iterable[bytes]) -> Iterator[bytes]:
    """Return the reply to a request with full objects, in parts of about a megabyte."""
    yield b'{"Nodes":{"metadata":{},"items":['
    part: list[Part] = []
    size = 0
    lead = b""
    for node in passed:
        part.append(node)
        size += len(node)
        if size >= _PART_BYTES:
            yield lead + b",".join(part)
            part, size, lead = [], 0, b","
    yield (lead if part else b"") + b",".join(part)
    yield b']},"NodeNames":null' + _failed(refusals)


def _failed(refusals: Iterable[bytes]) -> bytes:
    members = b"{" + b",".join(refusals) + b"}"
    return b',"FailedNodes":' + members + b',"FailedAndUnresolvableNodes":' + members + b',"Error":""}'
