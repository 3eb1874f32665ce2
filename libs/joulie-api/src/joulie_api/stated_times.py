"""Run times that pods state, read from their bytes.

Guarantees that a pod which states none costs a search of its bytes and no more, and that what cannot be read counts as
not stated: no pod is refused for it. Source: docs/decisions/0051-stated-run-time.md.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire.metadata import WireController
from joulie_core.labels import EXPECTED_DURATION
from joulie_core.stated_time import StatedTime, stated_time
from joulie_core.timestamps import epoch_seconds

_DEADLINE: Final = "activeDeadlineSeconds"
#: Spelled as the API server and kube-scheduler write it; what is written otherwise counts as not stated.
_MARKS: Final = (EXPECTED_DURATION.encode(), _DEADLINE.encode())


class _Notes(msgspec.Struct):
    expected: str | None = msgspec.field(default=None, name=EXPECTED_DURATION)


class _Meta(msgspec.Struct, rename="camel"):
    annotations: _Notes | None = None
    owner_references: Sequence[WireController] | None = None


class _Spec(msgspec.Struct):
    deadline_s: int | None = msgspec.field(default=None, name=_DEADLINE)


class _State(msgspec.Struct, rename="camel"):
    start_time: str | None = None


class _Timed(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec | None = None
    status: _State | None = None


class TimedPod(NamedTuple):
    """The run time that a pod states, and when it began."""

    stated: StatedTime
    #: Seconds since the epoch; None before the kubelet has taken the pod.
    started_s: float | None
    #: Whether it ends with its node, and so keeps none on.
    of_daemon_set: bool


_DECODER: Final = msgspec.json.Decoder(_Timed)


def read_stated_time(raw: bytes) -> TimedPod | None:
    """Return the run time that a pod states; None where it states none that can be read."""
    if not any(mark in raw for mark in _MARKS):
        return None
    try:
        pod = decode(_DECODER.decode, raw, "Pod")
    except DecodeError:
        return None
    meta = pod.metadata
    stated = stated_time(
        meta.annotations.expected if meta.annotations is not None else None,
        pod.spec.deadline_s if pod.spec is not None else None,
    )
    if stated is None:
        return None
    return TimedPod(
        stated,
        epoch_seconds(pod.status.start_time) if pod.status is not None else None,
        any(owner.kind == "DaemonSet" for owner in meta.owner_references or ()),
    )
