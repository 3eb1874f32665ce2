"""Results of a write to a knob, and of restoring it. Values only; made by `hardware.journaled_writer`."""

from dataclasses import dataclass
from enum import StrEnum

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason


@dataclass(frozen=True, slots=True)
class WrittenKnob:
    """The value in force after a write."""

    #: What was read back; differs from what was written where firmware clamps or rounds.
    value: int
    #: False where it was in force already and nothing was written.
    changed: bool
    #: The external value that was overwritten while the knob was managed.
    overwrote: int | None = None
    #: The value in force is external: it is lower, or no limit is wanted. The knob is not managed.
    external: bool = False


class RestoreOutcome(StrEnum):
    """Outcome of the restore of one knob."""

    RESTORED = "restored"
    KEPT_EXTERNAL = "kept_external"
    #: It does not exist any more, and cannot come back with Joulie's value.
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RestoredKnob:
    """One knob that was managed, after a restore."""

    key: str
    outcome: RestoreOutcome
    #: The value now; None where it could not be read.
    value: int | None = None
    #: Why it failed.
    reason: Reason | None = None
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the knob is not managed any more."""
        return self.outcome is not RestoreOutcome.FAILED

    @property
    def failure(self) -> HardwareFailure | None:
        """Reason why it failed; None where it did not."""
        return None if self.reason is None else HardwareFailure(self.reason, self.message)
