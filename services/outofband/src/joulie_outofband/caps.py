"""Decides about the cap of a server: what is written, and whose value is in force. No I/O; times are arguments.

A cap is never above an external limit, never written where the BMC may power the server off to hold it, and ends at its
time. Source: docs/decisions/0025-out-of-band-service.md.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.kinds.node_bmc import BmcCap, BmcCapStatus, CapOwner, LimitException, PowerLimitUnit
from joulie_core.plausible import MOST_WATTS
from joulie_core.timestamps import epoch_seconds
from joulie_outofband.bmc import PowerLimit
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.reasons import BmcReason

_HARMLESS: Final = (None, LimitException.NO_ACTION, LimitException.LOG_EVENT_ONLY)
#: BMCs take whole watts.
_ROUNDING_WATTS: Final = 1.0


class CapAction(StrEnum):
    """Action to be taken at the BMC."""

    NOTHING = "nothing"
    SET = "set"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class CapDecision:
    """An action, and the entry to store before it."""

    action: CapAction
    entry: BmcCapStatus
    finding: BmcFinding


def decide_cap(
    cap: BmcCap | None, entry: BmcCapStatus, limit: PowerLimit, exception: LimitException | None, *, now_s: float
) -> CapDecision:
    """Return what to do about the cap.

    Args:
        cap: the cap that is requested.
        entry: what is stored of the cap in force.
        limit: the power limit as it was read.
        exception: what the BMC does when it cannot hold the limit; None where it does not say.
        now_s: seconds since the epoch.
    """
    external = BmcCapStatus(watts=limit.watts)
    own = is_own(entry, limit.watts)
    original = entry.original_watts if own else limit.watts
    wanted = _wanted(cap, original, limit, exception, now_s)
    if isinstance(wanted, BmcFinding):
        if own:
            return CapDecision(CapAction.RESTORE, entry.model_copy(update={"watts": limit.watts}), wanted)
        return CapDecision(CapAction.NOTHING, external, wanted)
    if own and entry.requested_watts == wanted and entry.confirmed_watts is not None:
        late = {"confirmed_watts": limit.watts} if is_same(limit.watts, wanted) else {}
        kept = entry.model_copy(update={"watts": limit.watts, **late})
        return CapDecision(CapAction.NOTHING, kept, in_force(kept))
    requested = BmcCapStatus(watts=limit.watts, requested_watts=wanted, original_watts=original, owner=CapOwner.JOULIE)
    return CapDecision(CapAction.SET, requested, BmcFinding.unknown(BmcReason.NOT_READ_BACK))


def is_own(entry: BmcCapStatus, watts: float | None) -> bool:
    """Return whether a limit that was read is, or may be, the cap of the entry."""
    if entry.requested_watts is not None and entry.confirmed_watts is None:
        return True  # a write without a known result: it is repeated, or undone
    return is_cap(entry, watts)


def is_cap(entry: BmcCapStatus, watts: float | None) -> bool:
    """Return whether a limit that was read equals what was requested for the cap, or read back after it."""
    known = [each for each in (entry.requested_watts, entry.confirmed_watts) if each is not None]
    return any(is_same(watts, each) for each in known)


def is_same(watts: float | None, other: float | None) -> bool:
    """Return whether two limits are the same to a BMC; None is no limit."""
    if watts is None or other is None:
        return watts is other
    return abs(watts - other) < _ROUNDING_WATTS


def is_untouched(entry: BmcCapStatus, watts: float | None) -> bool:
    """Return whether a limit that was read is the one before the cap of the entry, and not the cap."""
    return is_same(watts, entry.original_watts) and not is_same(watts, entry.requested_watts)


def confirmed(entry: BmcCapStatus, watts: float | None) -> BmcCapStatus:
    """Return the entry after its cap was written and `watts` read back."""
    return entry.model_copy(update={"watts": watts, "confirmed_watts": watts})


def in_force(entry: BmcCapStatus) -> BmcFinding:
    """Return whether the cap of an entry is in force, by what was read back."""
    read, requested = entry.confirmed_watts, entry.requested_watts
    if read is None or requested is None or read >= requested + _ROUNDING_WATTS:
        return BmcFinding.no(BmcReason.NOT_READ_BACK, f"{_text(requested)} written, {_text(read)} read")
    return BmcFinding.yes(BmcReason.IN_FORCE, f"{_text(read)} in force")


def has_ended(cap: BmcCap, now_s: float) -> bool:
    """Return whether the time of a cap is over, or cannot be read."""
    return _ended(cap, now_s) is not None


def _text(watts: float | None) -> str:
    return "no limit" if watts is None else f"{watts:g} W"


def _wanted(
    cap: BmcCap | None, original: float | None, limit: PowerLimit, exception: LimitException | None, now_s: float
) -> float | BmcFinding:
    """Return the watts to write, or why there are none."""
    if cap is None:
        return BmcFinding.no(BmcReason.NO_CAP)
    refusal = _ended(cap, now_s) or _impossible(cap.watts, limit, exception)
    if refusal is None and original is not None and original <= cap.watts:
        return BmcFinding.yes(BmcReason.LOWER_EXTERNAL_LIMIT, f"limit of {original:g} W is not above the cap")
    return cap.watts if refusal is None else refusal


def _ended(cap: BmcCap, now_s: float) -> BmcFinding | None:
    expires_s = epoch_seconds(cap.expires_at)
    if expires_s is None:
        return BmcFinding.no(BmcReason.EXPIRY_UNREADABLE, f"expiresAt {cap.expires_at}")
    return BmcFinding.no(BmcReason.EXPIRED, f"expired at {cap.expires_at}") if expires_s <= now_s else None


def _impossible(watts: float, limit: PowerLimit, exception: LimitException | None) -> BmcFinding | None:
    if limit.unit is not PowerLimitUnit.WATTS:
        return BmcFinding.no(BmcReason.NOT_IN_WATTS, f"the limit is in {limit.unit.value}")
    if exception not in _HARMLESS:
        return BmcFinding.no(BmcReason.HARD_POWER_OFF, f"limit exception {exception}; set LogEventOnly at the BMC")
    low = limit.min_watts or _ROUNDING_WATTS
    high = MOST_WATTS if limit.max_watts is None else limit.max_watts
    if not low <= watts <= high:
        return BmcFinding.no(BmcReason.OUT_OF_RANGE, f"{watts:g} W; allowed: {_text(low)} to {_text(high)}")
    return None
