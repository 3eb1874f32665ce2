"""The outcome of a control action: one type in the actuator, on its socket, in backends and in enforcement."""

import msgspec

from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult


class ControlOutcome(msgspec.Struct, frozen=True, tag_field="is", tag="outcome"):
    """Result of one control action."""

    #: applied, blocked (not possible on this node), error (should have worked) or none (turned off).
    result: ControlResult
    reason: Reason
    #: What acted, as in `status.control.*.backend`: rapl, dvfs, nvml, amdsmi, with `http-` in front if by HTTP.
    backend: str
    message: str = ""
    #: Watts that were read back, per package or per GPU, the highest of them; None where nothing could be read back.
    enforced_watts: float | None = None
    #: What the release of the other control answered where that may still be in force; None where it is not.
    unreleased: "ControlOutcome | None" = None
    #: Sum of the watts that were read back, over all packages or all GPUs that were named; None where one is not known.
    total_watts: float | None = None

    @property
    def applied(self) -> bool:
        """Whether it is in force now."""
        return self.result is ControlResult.APPLIED


def applied(backend: str, message: str = "", *, enforced_watts: float | None = None) -> ControlOutcome:
    """Return the outcome of an action that is in force."""
    return ControlOutcome(ControlResult.APPLIED, Reason.CAPPED, backend, message, enforced_watts)


def blocked(backend: str, reason: Reason, message: str = "") -> ControlOutcome:
    """Return the outcome of an action that cannot be done on this node."""
    return ControlOutcome(ControlResult.BLOCKED, reason, backend, message)


def failed(backend: str, reason: Reason, message: str = "") -> ControlOutcome:
    """Return the outcome of an action that should have worked."""
    return ControlOutcome(ControlResult.ERROR, reason, backend, message)
