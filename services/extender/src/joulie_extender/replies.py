"""What kube-scheduler is answered about filtering, as bytes.

Promises answers in the order and from the set of the question, and full nodes byte for byte as they came.
Source: kube-scheduler's extender API v1, ExtenderFilterResult; contracts, decision 10.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from joulie_core.scoring.filter import Verdict

_ENCODER: Final = msgspec.json.Encoder()
#: Full nodes written at once: about a megabyte.
_OBJECTS_A_PART: Final = 128


class _Answer(msgspec.Struct, rename="pascal"):
    """ExtenderFilterResult without its Nodes, which are put before it.

    What is refused is in both maps: kube-scheduler lets the second overrule the first, people look at the first.
    """

    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


def names_reply(names: list[str], refusals: Mapping[str, Verdict]) -> bytes:
    """Answer a question asked with names: those that are not refused, and why the others are."""
    failed = {name: refusals[name].message for name in names if name in refusals}
    passed = [name for name in names if name not in failed] if failed else names
    return b'{"Nodes":null,' + _ENCODER.encode(_Answer(passed, failed, failed))[1:]


def objects_reply(passed: Sequence[msgspec.Raw], refusals: Mapping[str, Verdict]) -> Iterator[bytes]:
    """Answer a question asked with full objects, in parts of about a megabyte that make up the reply together."""
    failed = {name: judged.message for name, judged in refusals.items()}
    yield b'{"Nodes":{"metadata":{},"items":['
    for first in range(0, len(passed), _OBJECTS_A_PART):
        yield (b"," if first else b"") + b",".join(passed[first : first + _OBJECTS_A_PART])
    yield b"]}," + _ENCODER.encode(_Answer(None, failed, failed))[1:]
