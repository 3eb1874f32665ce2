"""DaemonSets as the decision about sleep reads them, and their pods: whether they wait for a node."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire.metadata import WireObject
from joulie_core.pod import NAME_FIELD, Term


@dataclass(frozen=True, slots=True)
class WatchedDaemonSet:
    """A DaemonSet, as far as its roll-out is concerned."""

    rolling_out: bool


class _Strategy(msgspec.Struct):
    type: str = ""


class _DaemonSpec(msgspec.Struct, rename="camel"):
    update_strategy: _Strategy | None = None


class _DaemonStatus(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0


class _DaemonSet(WireObject):
    spec: _DaemonSpec | None = None
    status: _DaemonStatus | None = None


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


def meant_for(terms: Iterable[Term] | None) -> str:
    """Return the node that a pod of a DaemonSet names in its required node affinity; empty where none is found."""
    fields = (field for term in terms or () for field in term.fields if field.key == NAME_FIELD)
    return next((field.values[0] for field in fields if field.values), "")
