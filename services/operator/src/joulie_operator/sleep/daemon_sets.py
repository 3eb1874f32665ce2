"""DaemonSets as the decision about sleep reads them, and their pods: whether they wait for a node."""

from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode


@dataclass(frozen=True, slots=True)
class WatchedDaemonSet:
    """A DaemonSet, as far as its roll-out is concerned."""

    rolling_out: bool


class _Field(msgspec.Struct):
    key: str = ""
    values: list[str] | None = None


class _FieldTerm(msgspec.Struct, rename="camel"):
    match_fields: list[_Field] | None = None


class _RequiredNodes(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_FieldTerm] | None = None


class _NodeAffinity(msgspec.Struct):
    required: _RequiredNodes | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _PinnedSpec(msgspec.Struct):
    affinity: _Affinity | None = None


class _PinnedPod(msgspec.Struct):
    """A pod that names its node, as those of DaemonSets do."""

    spec: _PinnedSpec | None = None


class _DaemonMeta(msgspec.Struct):
    generation: int = 0


class _Strategy(msgspec.Struct):
    type: str = ""


class _DaemonSpec(msgspec.Struct, rename="camel"):
    update_strategy: _Strategy | None = None


class _DaemonStatus(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0


class _DaemonSet(msgspec.Struct):
    metadata: _DaemonMeta
    spec: _DaemonSpec | None = None
    status: _DaemonStatus | None = None


_PINNED: Final = msgspec.json.Decoder(_PinnedPod)
_DAEMON_SETS: Final = msgspec.json.Decoder(_DaemonSet)


def read_daemon_set(raw: bytes) -> WatchedDaemonSet:
    """Decode a DaemonSet; one that is updated only when people delete its pods does not roll out by itself.

    Raises:
        DecodeError: not a DaemonSet.
    """
    wire = decode(_DAEMON_SETS.decode, raw, "DaemonSet")
    strategy = wire.spec.update_strategy if wire.spec else None
    status = wire.status or _DaemonStatus()
    behind = (
        status.observed_generation < wire.metadata.generation
        or status.updated_number_scheduled < status.desired_number_scheduled
    )
    return WatchedDaemonSet(behind and (strategy is None or strategy.type != "OnDelete"))


def meant_for(raw: bytes) -> str:
    """Return the node that a pod of a DaemonSet names; empty where none is found.

    Raises:
        DecodeError: not a pod.
    """
    spec = decode(_PINNED.decode, raw, "Pod").spec
    affinity = spec.affinity.node_affinity if spec and spec.affinity else None
    terms = (affinity.required.node_selector_terms if affinity and affinity.required else None) or ()
    fields = (field for term in terms for field in term.match_fields or () if field.key == "metadata.name")
    return next((field.values[0] for field in fields if field.values), "")
