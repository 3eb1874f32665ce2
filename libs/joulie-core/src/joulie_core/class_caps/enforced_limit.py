"""Clocks that are set by the class of the holders: which GPUs, from when on, and why the others are not.

The times are those of every service that sets limits by class, of GPUs or of cores.

Guarantees that a clock is set only where every holder is a standard pod that runs and whose owner has consented, and
after that has been so for a while; and that it is not wanted any more as soon as one of these is not so, or not known.
Source: docs/decisions/0054-class-limits-enforced.md.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from joulie_core.class_caps.held_limit import HeldLimit

#: Time for which the decision has to be the same before a limit is set: answers that come and go set nothing.
SETTLED_S: Final = 5.0
#: Between two looks at what is wanted, if nothing else causes one.
STEP_S: Final = 1.0
#: Of limits, and how often they are renewed: two renewals may fail.
LEASE_S: Final = 10.0
RENEW_S: Final = 3.0
#: How long a request to the actuator may take.
DEADLINE_S: Final = 5.0
#: Reason of an Event about a pod whose container was started under a limit that it does not allow.
NOT_LIFTED_EVENT: Final = "ClassLimitNotLifted"


class EnforcedReason(StrEnum):
    """Reason why a limit by class is set, or not."""

    #: It is set.
    SET = "Set"
    #: The GPU has no limit by class: the reason of its limit says why.
    NO_LIMIT = "NoLimit"
    #: Its limit is one of power, which is shown only.
    ONLY_CLOCKS = "OnlyClocks"
    #: The owner of a pod that holds it has not consented.
    NO_CONSENT = "NoConsent"
    #: A pod that holds it does not run yet.
    HOLDER_NOT_RUNNING = "HolderNotRunning"
    #: The decision is not old enough.
    NOT_SETTLED = "NotSettled"
    #: The node is not managed, or its GPU controls are not those of the host.
    NOT_CONTROLLED = "NotControlled"
    #: The limit was not set; the message says why.
    NOT_SET = "NotSet"
    #: The limit is to be lifted, and was not yet; the message says why, and names the pods.
    NOT_LIFTED = "NotLifted"


def enforceable(found: HeldLimit) -> int | EnforcedReason:
    """Return the highest clock to be set for a decision, in MHz, or why none is."""
    if found.limit.clock_mhz is None:
        return EnforcedReason.NO_LIMIT if found.limit.cap_watts is None else EnforcedReason.ONLY_CLOCKS
    if not found.consents:
        return EnforcedReason.NO_CONSENT
    return found.limit.clock_mhz if found.running else EnforcedReason.HOLDER_NOT_RUNNING


@dataclass(frozen=True, slots=True)
class EnforceableClock:
    """A clock that may be set, and since when the decision is this one."""

    clock_mhz: int
    since_s: float


@dataclass(frozen=True, slots=True)
class EnforcedClocks:
    """Clocks to be set by the class of the holders, by UUID."""

    #: In MHz.
    wanted: Mapping[str, int] = field(default_factory=dict)
    #: Of every GPU; `SET` of those that are wanted.
    reasons: Mapping[str, EnforcedReason] = field(default_factory=dict)
    candidates: Mapping[str, EnforceableClock] = field(default_factory=dict)

    def after(
        self,
        found: Mapping[str, HeldLimit] | None,
        now_s: float,
        *,
        controlled: bool = True,
        held_back: Collection[str] = (),
    ) -> "EnforcedClocks":
        """Return the clocks after a look at the holders.

        Args:
            found: the decision for each GPU; None where what holds them is not known.
            now_s: seconds of a clock that does not go back.
            controlled: whether the GPUs are this agent's to limit.
            held_back: UUIDs of GPUs whose decision does not count yet: their time starts afterwards.
        """
        judged = {uuid: enforceable(each) for uuid, each in (found or {}).items()}
        judged |= {
            uuid: EnforcedReason.NOT_SETTLED
            for uuid, each in judged.items()
            if uuid in held_back and isinstance(each, int)
        }
        if not controlled:
            return EnforcedClocks(reasons=dict.fromkeys(judged, EnforcedReason.NOT_CONTROLLED))
        candidates = {uuid: self._candidate(uuid, mhz, now_s) for uuid, mhz in judged.items() if isinstance(mhz, int)}
        wanted = {uuid: each.clock_mhz for uuid, each in candidates.items() if now_s - each.since_s >= SETTLED_S}
        refused = {uuid: each for uuid, each in judged.items() if isinstance(each, EnforcedReason)}
        waiting = dict.fromkeys(candidates.keys() - wanted.keys(), EnforcedReason.NOT_SETTLED)
        return EnforcedClocks(wanted, refused | waiting | dict.fromkeys(wanted, EnforcedReason.SET), candidates)

    def _candidate(self, uuid: str, clock_mhz: int, now_s: float) -> EnforceableClock:
        before = self.candidates.get(uuid)
        return before if before is not None and before.clock_mhz == clock_mhz else EnforceableClock(clock_mhz, now_s)
