"""The lines of a recording's files; see docs/decisions/0021-recordings.md.

Times are seconds since the start of the recording, negative before it, null where they are unknown.
"""

from enum import StrEnum
from typing import Final

import msgspec

from joulie_core.demand import WorkloadClass

LOG: Final = "recording.jsonl"
PODS: Final = "pods.jsonl"
NODES: Final = "nodes.jsonl"
FORMAT: Final = 1


class PodBegin(StrEnum):
    """Creation of a pod: while it could be seen, or before."""

    SEEN = "seen"
    #: It was there when the recording began.
    BEFORE = "before"


class PodEnd(StrEnum):
    """End of a pod, as far as it is known."""

    #: It was there when the line was written; without a later line, up to the end of the recording.
    OPEN = "open"
    ENDED = "ended"
    #: It ended while the API server could not be read, after `seen_s`.
    UNKNOWN = "unknown"


class PodLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Line of one pod; a later line with the same `id` replaces it."""

    id: str
    #: Namespace and name, or a pseudonym.
    name: str
    #: Kind of the controller that owns the pod, such as Job; empty without one.
    owner: str
    workload_class: WorkloadClass
    #: Requests, 0 where there are none. `gpu_resource` is what GPUs, or parts of them, are requested by.
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_resource: str
    #: Model of the GPUs of the pod's node; null without GPUs and where it is unknown.
    gpu_model: str | None
    #: Whether it claims devices (dynamic resource allocation).
    claims: bool
    #: Whether a node selector or a required node affinity restricts it to some nodes.
    constrained: bool
    node: str | None
    begin: PodBegin
    end: PodEnd
    arrives_s: float | None
    bound_s: float | None
    #: When its first container started.
    started_s: float | None
    ended_s: float | None
    #: When it was last known to be there.
    seen_s: float


class StartLine(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first line of the log."""

    format: int
    #: RFC 3339, UTC.
    started_at: str
    version: str
    names_kept: bool
    #: Whether Joulie labelled nodes, so that run times contain what its caps cost.
    under_joulie: bool


class ContactLine(msgspec.Struct, frozen=True, kw_only=True, tag="contact"):
    """Written every minute; `at_s` is the latest time at which the watch of pods was known to work."""

    at_s: float


class GapLine(msgspec.Struct, frozen=True, kw_only=True, tag="gap"):
    """A time in which nodes or pods could not be seen."""

    resource: str
    from_s: float
    to_s: float


class NodeChangeLine(msgspec.Struct, frozen=True, kw_only=True, tag="node"):
    """A node was added or removed after the start."""

    at_s: float
    node: str
    removed: bool


class EndLine(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """The last line of a recording that was ended and not killed."""

    at_s: float


LogLine = StartLine | ContactLine | GapLine | NodeChangeLine | EndLine
