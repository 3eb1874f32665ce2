"""Limits of GPUs whose containers are about to start: which are lifted, and what became of them.

Source: docs/decisions/0059-limits-lifted-before-start.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from joulie_core.class_caps.enforced_limit import enforceable
from joulie_core.class_caps.held_limit import HeldLimit
from joulie_core.holders.held import HeldDevice


@dataclass(frozen=True, slots=True)
class StartLook:
    """Holders of the GPUs while containers are about to start, by an answer of the kubelet from after that."""

    held: Sequence[HeldDevice]
    #: UUIDs of the GPUs of their pods; None where these are not certain: any GPU may be one.
    gpus: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class LiftOutcome:
    """GPUs of starting containers that had a limit which is not theirs, by UUID."""

    lifted: frozenset[str] = frozenset()
    #: Why the limit is still there, or perhaps there, as a sentence.
    left: Mapping[str, str] = field(default_factory=dict)


def not_allowed(look: StartLook, found: Mapping[str, HeldLimit], limited: Iterable[str]) -> frozenset[str]:
    """Return the GPUs that must have no limit when the containers start, by UUID.

    Args:
        look: what holds the GPUs.
        found: the decision for each of them.
        limited: those that have a limit.
    """
    if look.gpus is None:
        return frozenset(found) | frozenset(limited)
    return frozenset(uuid for uuid in look.gpus if uuid not in found or not isinstance(enforceable(found[uuid]), int))
