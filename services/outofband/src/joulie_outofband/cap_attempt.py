"""The attempts to put one cap in force at a BMC that does not take it. No I/O; times are arguments."""

from typing import Final

from joulie_api.backoff import Backoff
from joulie_core.kinds.node_bmc import BmcCapStatus
from joulie_outofband.caps import is_same
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.reasons import BmcReason

#: Seconds from the first write until a cap that is not read, and was not refused, counts as not taken. Some BMCs show
#: a change with their next reading only, once a minute.
TAKEN_WITHIN_S: Final = 300.0
#: Answers after which a write has had no effect.
REFUSALS: Final = frozenset(
    {
        BmcReason.REFUSED,
        BmcReason.LICENCE_MISSING,
        BmcReason.TAG_REFUSED,
        BmcReason.UNAUTHORIZED,
        BmcReason.NO_LIMIT,
    }
)


class CapAttempt:
    """The attempts with one cap, from its first write; `entry` is what was stored before that."""

    def __init__(self, entry: BmcCapStatus, pauses: Backoff, now: float) -> None:
        self._entry = entry
        self._pauses = pauses
        self._since = now
        self._not_before = float("-inf")
        #: Why the cap is not in force while nothing is tried; None while it is.
        self._rejection: BmcFinding | None = None

    @property
    def watts(self) -> float | None:
        """The cap."""
        return self._entry.requested_watts

    def begin(self, now: float) -> None:
        """Count from now, after a pause."""
        if self._rejection is not None:
            self._since, self._rejection = now, None

    def is_overdue(self, now: float) -> bool:
        """Return whether the BMC should have the cap by now."""
        return self._rejection is None and now - self._since >= TAKEN_WITHIN_S

    def reject(self, reason: BmcReason, why: str, now: float) -> BmcFinding:
        """Return that the BMC has not taken the cap; it is tried again after a pause that grows."""
        pause_s = self._pauses.next_s(now)
        self._not_before = now + pause_s
        self._rejection = BmcFinding.no(
            reason, f"{why}; the cap is not in force, and is tried again in {pause_s:.0f} s"
        )
        return self._rejection

    def pause(self, now: float) -> BmcFinding | None:
        """Return why the cap is not tried now; None where it is."""
        return self._rejection if now < self._not_before else None

    def entry_of(self, watts: float | None) -> BmcCapStatus | None:
        """Return the entry of a cap that the BMC has taken after all, by the limit that was read; else None."""
        if self._rejection is None or not is_same(watts, self.watts):
            return None
        return self._entry.model_copy(update={"confirmed_watts": watts})
