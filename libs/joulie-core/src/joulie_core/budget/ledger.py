"""The limit that may be in force on a node, from what was asked, read back and kept by its lease.

Guarantees that no limit in force is above what is returned here, if agents apply no ask that is older than one they
have applied, and report what the hardware holds. What is not known is the highest power of the node, and where that is
not known either, None: never a number.
"""

from dataclasses import dataclass

from joulie_core.names import NodeName


@dataclass(frozen=True, slots=True)
class LimitAsk:
    """A limit that is asked of a node, as it is stored beside the node."""

    #: Identity of the node and of its boot: hardware that started again holds no limit.
    identity: str
    #: Term of the leader that asks; terms only grow.
    term: int
    #: Grows with each ask of the node, across terms.
    sequence: int
    #: None: no limit.
    limit_mw: int | None
    #: Highest limit that may be in force before this one is; None: there may be none.
    ceiling_mw: int | None


@dataclass(frozen=True, slots=True)
class LimitReport:
    """The limit that an agent has read back."""

    identity: str
    #: Of the ask that was applied.
    sequence: int
    #: As the hardware holds it; None: no limit, or not read.
    in_force_mw: int | None
    #: The ask could not be carried out.
    refused: bool = False


@dataclass(frozen=True, slots=True)
class BudgetNode:
    """All that is known of one node for a decision, in milliwatts."""

    name: NodeName
    identity: str
    #: Highest power without a limit; None: not known.
    max_mw: int | None
    #: Lowest limit that the hardware takes; None: not known, so that the node cannot be limited.
    min_mw: int | None
    #: Power that the node would draw without a limit; None: not known.
    demand_mw: int | None = None
    ask: LimitAsk | None = None
    report: LimitReport | None = None
    #: Time of the operator's clock that is not after the last renewal of the lease; None: not known.
    renewed_s: float | None = None
    #: Power that is not taken from the node beside its floor; the caller says what fits.
    kept_mw: int = 0


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of the leases of limits, in seconds."""

    lease_s: float = 120.0
    #: Time before the end of a lease at which the node counts as silent: others can be lowered in it, and read back.
    margin_s: float = 60.0


def is_silent(node: BudgetNode, now_s: float, times: LeaseTimes) -> bool:
    """Return whether the lease of a node may end before others could be lowered."""
    return node.renewed_s is None or now_s >= node.renewed_s + times.lease_s - times.margin_s


def held_mw(node: BudgetNode) -> int | None:
    """Return the highest limit that may be in force while the lease lasts."""
    ask, report = current_ask(node), current_report(node)
    if ask is None:
        return node.max_mw
    if report is not None and report.sequence == ask.sequence:
        return confirmed_mw(node, ask, report)
    held, later = unconfirmed_mw(node, ask), later_report(node)
    if later is None or held is None:
        return held
    return node.max_mw if later.in_force_mw is None else max(held, later.in_force_mw)


def later_report(node: BudgetNode) -> LimitReport | None:
    """Return the report of a later ask than the stored one, as where that came back with a backup; None without one."""
    ask, report = current_ask(node), current_report(node)
    return report if ask is not None and report is not None and report.sequence > ask.sequence else None


def may_be_in_force_mw(node: BudgetNode, now_s: float, times: LeaseTimes, *, releases: bool) -> int | None:
    """Return the highest limit that may be in force now and for the margin of the lease.

    Args:
        node: what is known of it.
        now_s: the operator's clock.
        times: of leases.
        releases: the node is without limit when its lease ends; else it keeps its limit.
    """
    if releases and is_silent(node, now_s, times):
        return node.max_mw
    return held_mw(node)


def confirmed_mw(node: BudgetNode, ask: LimitAsk, report: LimitReport) -> int | None:
    """Return the limit after a report of the newest ask: what was read back, and not less than was asked."""
    if ask.limit_mw is None or report.in_force_mw is None:
        return node.max_mw
    return max(ask.limit_mw, report.in_force_mw)


def unconfirmed_mw(node: BudgetNode, ask: LimitAsk) -> int | None:
    """Return the limit while the newest ask was not reported: the highest of it and all that came before."""
    if ask.limit_mw is None or ask.ceiling_mw is None:
        return node.max_mw
    return max(ask.limit_mw, ask.ceiling_mw)


def current_ask(node: BudgetNode) -> LimitAsk | None:
    """Return what was asked of this node; None where nothing was, or of another node of its name."""
    return node.ask if node.ask is not None and node.ask.identity == node.identity else None


def current_report(node: BudgetNode) -> LimitReport | None:
    """Return what this node has reported; None where nothing was, or by another node of its name."""
    return node.report if node.report is not None and node.report.identity == node.identity else None


def next_ask(node: BudgetNode, limit_mw: int | None, term: int) -> LimitAsk:
    """Return an ask that follows the last one of a node, with all that may be in force until it is confirmed."""
    sequence = 1 + max((each.sequence for each in (node.ask, node.report) if each is not None), default=0)
    ceiling_mw = None if current_ask(node) is None else held_mw(node)
    return LimitAsk(node.identity, term, sequence, limit_mw, ceiling_mw)


def supersedes(ask: LimitAsk, applied: LimitReport | None) -> bool:
    """Return whether an agent applies an ask, after what it has applied and stored."""
    return applied is None or applied.identity != ask.identity or ask.sequence > applied.sequence
