"""Results of a write to a knob, and of restoring it. Values only; made by `hardware.journaled_writer`."""

from dataclasses import dataclass
from enum import StrEnum

from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.reasons import Reason


@dataclass(frozen=True, slots=True)
class WrittenKnob:
    """A value of ours is in force."""

    #: What was read back; differs from what was asked for where firmware clamps or rounds.
    value: int
    #: False where it was in force already and nothing was written.
    changed: bool
    #: The value of somebody else that was written over while the knob was in our charge.
    overwrote: int | None = None
    #: The value in force is not ours: an external writer's is lower, or no limit is wanted. Nothing of ours is left in
    #: the knob.
    external: bool = False


class RestoreOutcome(StrEnum):
    """What became of one knob."""

    RESTORED = "restored"
    KEPT_EXTERNAL = "kept_external"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RestoredKnob:
    """One knob that was in our charge."""

    key: str
    outcome: RestoreOutcome
    #: What the knob holds now; None where it could not be read.
    value: int | None = None
    #: Why it was refused.
    reason: Reason | None = None
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether nothing of ours is left in it."""
        return self.outcome is not RestoreOutcome.FAILED

    @property
    def failure(self) -> HardwareFailure | None:
        """Why it was refused; None where nothing of ours is left."""
        return None if self.reason is None else HardwareFailure(self.reason, self.message)
