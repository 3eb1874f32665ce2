"""The limit that the agent of a node follows: which ask, and until when without a renewal.

Guarantees that no ask replaces a later one of the same identity, also across a restart of the agent, and that the lease
starts when a renewal is seen, never before the operator has written it. Seconds are of the agent's monotonic clock;
nothing is compared with the operator's. Source: docs/decisions/0053-budgets-on-a-node.md.
"""

from dataclasses import dataclass, replace
from typing import Final

from joulie_core.budget.ledger import LimitAsk, LimitReport, supersedes
from joulie_core.budget.limit_hold import LimitHold, TakenSamples, limit_hold
from joulie_core.budget.objects import milliwatts, stored_ask, stored_report
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus
from joulie_core.kinds.power_domain import DomainLostControl

_NO_SAMPLES: Final = TakenSamples(0)


@dataclass(frozen=True, slots=True)
class CapLevels:
    """Caps of each package and each GPU in milliwatts, as an agent before has stored them."""

    cpu_mw: int
    #: None: there was no GPU.
    gpu_mw: int | None


@dataclass(frozen=True, slots=True)
class FollowedLimit:
    """The limit that is followed."""

    #: UID of the object that asks.
    object_uid: str
    #: `nodeUID` and `bootID` of what is followed, as they were asked.
    node_uid: str
    boot_id: str
    #: Identity and sequence of what is followed. After a restart with an older ask in the object, its limit is unknown.
    ask: LimitAsk
    #: In the place of the limit of `ask`, where that is not known.
    levels: CapLevels | None
    keeps: bool
    lease_s: float
    renewal: int
    #: When that renewal was seen.
    renewed_s: float
    #: Sequence of an ask in the object that is older, and not followed.
    older: int | None = None
    #: None: the limit counts, measured or not.
    hold: LimitHold | None = None

    @property
    def sets_limit(self) -> bool:
        """Whether there is a limit while the lease lasts."""
        return self.ask.limit_mw is not None or self.levels is not None or self.hold is not None

    def ends_s(self) -> float:
        """Return the time at which the lease ends without a further renewal."""
        return self.renewed_s + self.lease_s

    def has_ended(self, now_s: float) -> bool:
        """Return whether the lease has ended."""
        return now_s >= self.ends_s()

    def applies(self, now_s: float) -> bool:
        """Return whether the limit applies: its lease lasts, or it is kept without one."""
        return self.sets_limit and (self.keeps or not self.has_ended(now_s))

    def falls_back(self, now_s: float) -> bool:
        """Return whether a lower fallback is in the place of the limit, as no fresh sample is named."""
        if self.hold is None or self.hold.is_fresh(now_s):
            return False
        return self.ask.limit_mw is None or self.hold.fallback_mw < self.ask.limit_mw

    def is_of(self, other: "FollowedLimit") -> bool:
        """Return whether both are the same ask of the same object."""
        return self.key == other.key

    def is_asked_by(self, object_uid: str, spec: NodePowerBudgetSpec) -> bool:
        """Return whether an object asks this, and nothing else by now."""
        ask = stored_ask(spec)
        return self.key == (object_uid, ask.identity, ask.sequence)

    @property
    def key(self) -> tuple[str, str, int]:
        """Object, identity and sequence."""
        return self.object_uid, self.ask.identity, self.ask.sequence


def follow(
    before: FollowedLimit | None,
    object_uid: str,
    spec: NodePowerBudgetSpec,
    status: NodePowerBudgetStatus,
    now_s: float,
    *,
    samples: TakenSamples = _NO_SAMPLES,
) -> FollowedLimit:
    """Return the limit to follow after an object was read.

    Args:
        before: as it was followed; None after a start of the agent, and where there was no object.
        object_uid: `metadata.uid` of the object.
        spec: of the object.
        status: of the object, which tells what an agent before has applied.
        now_s: the agent's monotonic clock.
        samples: that this process has taken of what the node draws.
    """
    ask = stored_ask(spec)
    if before is None or before.object_uid != object_uid:
        applied = stored_report(status)
        if applied is None or not _is_older(ask, applied):
            return _followed(object_uid, ask, spec, now_s, samples)
        return _recalled(object_uid, applied, spec, status, now_s)
    applied = LimitReport(before.ask.identity, before.ask.sequence, None)
    if _is_older(ask, applied):
        return replace(before, older=ask.sequence)
    if supersedes(ask, applied):
        return _followed(object_uid, ask, spec, now_s, samples)
    # The same ask, so that its limit is the one that was first seen with this sequence.
    fresh = _followed(object_uid, before.ask, spec, now_s, samples)
    renewed_s = now_s if spec.renewal != before.renewal else before.renewed_s
    return replace(fresh, levels=before.levels, renewed_s=renewed_s)


def _is_older(ask: LimitAsk, applied: LimitReport) -> bool:
    return ask.identity == applied.identity and ask.sequence < applied.sequence


def _followed(
    object_uid: str, ask: LimitAsk, spec: NodePowerBudgetSpec, now_s: float, samples: TakenSamples
) -> FollowedLimit:
    return FollowedLimit(
        object_uid=object_uid,
        node_uid=spec.node_uid,
        boot_id=spec.boot_id,
        ask=ask,
        levels=None,
        keeps=spec.on_lost_control is DomainLostControl.KEEP_GUARANTEED,
        lease_s=float(spec.lease_seconds),
        renewal=spec.renewal,
        renewed_s=now_s,
        hold=limit_hold(spec.oversubscription, ask.limit_mw, samples),
    )


def _recalled(
    object_uid: str, applied: LimitReport, spec: NodePowerBudgetSpec, status: NodePowerBudgetStatus, now_s: float
) -> FollowedLimit:
    """Return what an agent before has applied, which is later than what the object asks."""
    last = LimitAsk(applied.identity, spec.term, applied.sequence, None, None)
    cpu_mw = milliwatts(status.cpu_watts)
    levels = None if cpu_mw is None else CapLevels(cpu_mw, milliwatts(status.gpu_watts))
    # The limit itself is not known, so that its fallback counts where the older ask has one.
    found = _followed(object_uid, last, spec, now_s, _NO_SAMPLES)
    return replace(
        found,
        node_uid=status.node_uid,
        boot_id=status.boot_id,
        levels=levels,
        renewal=status.renewal or 0,
        older=spec.sequence,
    )
