"""The power-off that a NodeBMC remembers, as its annotation.

A NodeBMC outlives the Node, its label, its taint and its record. It is marked in the request that powers the server
off, and the mark is removed once On is confirmed: what is marked and not on is off because of Joulie.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core import labels
from joulie_core.kinds.node_bmc import MOST_OF_BOOT_ID, DesiredPower
from joulie_core.sleep import Shutdown
from joulie_core.timestamps import epoch_seconds, rfc3339


class _Mark(msgspec.Struct, forbid_unknown_fields=False):
    #: Last time at which the power-off may have been requested, RFC 3339.
    at: str
    #: Boot ID of the Node then; empty: unknown.
    boot_id: Annotated[str, msgspec.Meta(max_length=MOST_OF_BOOT_ID)] = msgspec.field(default="", name="bootID")


_MARKS: Final = msgspec.json.Decoder(_Mark)


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
