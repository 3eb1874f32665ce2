"""Annotations that outlive the operator: the record of a node at its Node, and its last power-off at its NodeBMC.

The record is written in one request with the label and the taint, so that no state is in force without being stored.
Since when a node is idle is not stored: after a restart it is idle from then on, which only delays.

A NodeBMC outlives the Node, its label, its taint and its record. It is marked in the request that powers the server
off, and the mark is removed once On is confirmed: what is marked and not on is off because of Joulie.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core import labels
from joulie_core.kinds.node_bmc import MOST_OF_BOOT_ID, DesiredPower
from joulie_core.kinds.node_sleep_policy import MOST_CYCLES
from joulie_core.sleep import Shutdown, SleepReason, SleepRecord, SleepState
from joulie_core.timestamps import epoch_seconds, rfc3339
from joulie_operator.sleep.nodes import WatchedNode

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Watts = Annotated[float, msgspec.Meta(ge=0)]


class _StoredShutdown(msgspec.Struct, rename="camel", forbid_unknown_fields=False):
    at: float | None = None
    boot_id: Annotated[str, msgspec.Meta(max_length=MOST_OF_BOOT_ID)] = msgspec.field(default="", name="bootID")
    off_seen: bool = False
    sampled_at: float | None = None


class _Stored(msgspec.Struct, rename="camel", forbid_unknown_fields=False, omit_defaults=True):
    state: SleepState
    since: float
    reason: SleepReason
    failed_boots: _Count = 0
    not_before: float = 0.0
    sleeps: _Count = 0
    cycles: tuple[float, ...] = ()
    shutdown: _StoredShutdown | None = None
    boots_since: float | None = None
    idle_watts: _Watts | None = None
    idle_measured: bool = False


class _Mark(msgspec.Struct, forbid_unknown_fields=False):
    #: Last time at which the power-off may have been requested, RFC 3339.
    at: str
    #: Boot ID of the Node then; empty: unknown.
    boot_id: Annotated[str, msgspec.Meta(max_length=MOST_OF_BOOT_ID)] = msgspec.field(default="", name="bootID")


_DECODER: Final = msgspec.json.Decoder(_Stored)
_MARKS: Final = msgspec.json.Decoder(_Mark)


def lasting(record: SleepRecord) -> SleepRecord:
    """Return the part of a record that is stored."""
    return replace(record, idle_since_s=None, empty_since_s=None)


def stored_text(record: SleepRecord) -> str:
    """Return a record as the value of the annotation."""
    shutdown = record.shutdown
    stored = _Stored(
        state=record.state,
        since=record.since_s,
        reason=record.reason,
        failed_boots=record.failed_boots,
        not_before=record.not_before_s,
        sleeps=record.sleeps,
        shutdown=None if shutdown is None else _stored_shutdown(shutdown),
        boots_since=record.boots_since_s,
        cycles=record.cycles_s,
        idle_watts=record.idle_watts,
        idle_measured=record.idle_measured,
    )
    return msgspec.json.encode(stored).decode()


def stored_record(seen: WatchedNode, now_s: float) -> SleepRecord | None:
    """Return the record of a Node; None of one that has not slept yet.

    A record that cannot be read, or that is gone while the taint is there, is one of a node that has to be woken.
    """
    text = seen.node.annotations.get(labels.SLEEP_RECORD)
    if text is not None:
        try:
            found = decode(_DECODER.decode, text.encode(), "record")
        except DecodeError:
            pass
        else:
            return SleepRecord(
                state=found.state,
                since_s=min(found.since, now_s),
                reason=found.reason,
                failed_boots=found.failed_boots,
                not_before_s=found.not_before,
                sleeps=found.sleeps,
                cycles_s=found.cycles[-MOST_CYCLES:],
                shutdown=_shutdown(found.shutdown, now_s),
                boots_since_s=_not_later(found.boots_since, now_s),
                idle_watts=found.idle_watts,
                idle_measured=found.idle_measured,
            )
    if text is None and not seen.cordoned:
        return None
    return SleepRecord(state=SleepState.WAKING, since_s=now_s, reason=SleepReason.RECORD_LOST)


def _stored_shutdown(shutdown: Shutdown) -> _StoredShutdown:
    return _StoredShutdown(shutdown.at_s, shutdown.boot_id, shutdown.off_seen, shutdown.sampled_at_s)


def _shutdown(found: _StoredShutdown | None, now_s: float) -> Shutdown | None:
    if found is None:
        return None
    return Shutdown(_not_later(found.at, now_s), found.boot_id, found.off_seen, found.sampled_at)


def _not_later(at_s: float | None, now_s: float) -> float | None:
    return None if at_s is None else min(at_s, now_s)


def state_label(state: SleepState) -> str | None:
    """Return the value of the label of a node in a state; None where it has none."""
    return None if state is SleepState.AWAKE else state.label


def mark_text(at_s: float, boot_id: str) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(_Mark(rfc3339(at_s, "seconds"), boot_id)).decode()


def marked_shutdown(annotations: Mapping[str, str]) -> Shutdown | None:
    """Return what the annotations of a NodeBMC say; None where Joulie has not switched the server off.

    A mark that cannot be read, and one that an earlier version has not written, are of an unknown time and boot.
    """
    text = annotations.get(labels.SWITCHED_OFF)
    if text is None:
        return Shutdown(None) if annotations.get(labels.REQUESTED_POWER) == DesiredPower.OFF else None
    try:
        mark = decode(_MARKS.decode, text.encode(), "mark")
    except DecodeError:
        return Shutdown(None)
    return Shutdown(epoch_seconds(mark.at), mark.boot_id)
