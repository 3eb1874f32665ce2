"""Result of one part of a pass: the value of a condition."""

from dataclasses import dataclass

from joulie_core.kinds.base import ConditionStatus
from joulie_outofband.reasons import BmcReason


@dataclass(frozen=True, slots=True)
class BmcFinding:
    """Status, reason and message of a condition."""

    status: ConditionStatus
    reason: BmcReason
    message: str

    @classmethod
    def yes(cls, reason: BmcReason, message: str = "") -> "BmcFinding":
        """Return the status True."""
        return cls(ConditionStatus.TRUE, reason, message)

    @classmethod
    def no(cls, reason: BmcReason, message: str = "") -> "BmcFinding":
        """Return the status False."""
        return cls(ConditionStatus.FALSE, reason, message)

    @classmethod
    def unknown(cls, reason: BmcReason, message: str = "") -> "BmcFinding":
        """Return the status Unknown."""
        return cls(ConditionStatus.UNKNOWN, reason, message)
