"""What kube-scheduler is answered about filtering, as bytes.

Promises answers in the order and from the set of the question, and full nodes byte for byte as they came. What is
refused is in both maps: kube-scheduler lets FailedAndUnresolvableNodes overrule FailedNodes, people look at the latter.
Source: kube-scheduler's extender API v1, ExtenderFilterResult; contracts, decision 10.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from joulie_core.scoring.filter import FilterResult
from joulie_extender.requests import Part

_ENCODER: Final = msgspec.json.Encoder()
#: Full nodes written at once: about a megabyte.
_OBJECTS_A_PART: Final = 128


def refusal(name: str, judged: FilterResult) -> bytes:
    """A refused node's member of the maps of failed nodes."""
    return _ENCODER.encode(name) + b":" + _ENCODER.encode(judged.message)


def names_reply(names: list[str], refusals: Mapping[str, bytes]) -> bytes:
    """Answer a question asked with names: those that are not refused, and why the others are."""
    passed = [name for name in names if name not in refusals] if refusals else names
    failed = [refusals[name] for name in names if name in refusals] if len(passed) < len(names) else []
    return b'{"Nodes":null,"NodeNames":' + _ENCODER.encode(passed) + _failed(failed)


def objects_reply(passed: Sequence[Part], refusals: Iterable[bytes]) -> Iterator[bytes]:
    """Answer a question asked with full objects, in parts of about a megabyte that make up the reply together."""
    yield b'{"Nodes":{"metadata":{},"items":['
    for first in range(0, len(passed), _OBJECTS_A_PART):
        yield (b"," if first else b"") + b",".join(passed[first : first + _OBJECTS_A_PART])
    yield b']},"NodeNames":null' + _failed(refusals)


def _failed(refusals: Iterable[bytes]) -> bytes:
    members = b"{" + b",".join(refusals) + b"}"
    return b',"FailedNodes":' + members + b',"FailedAndUnresolvableNodes":' + members + b',"Error":""}'
