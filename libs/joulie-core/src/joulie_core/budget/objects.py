"""Asks and reports of nodes as they are stored in NodePowerBudgets."""

from typing import Final

from joulie_core.budget.ledger import LimitAsk, LimitReport
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus
from joulie_core.kinds.power_domain import MOST_DOMAIN_WATTS
from joulie_core.units import MW_PER_WATT

#: More than any site draws; what an object states beyond it counts as this.
_MOST_MW: Final = MOST_DOMAIN_WATTS * MW_PER_WATT


def node_identity(uid: str, boot_id: str) -> str:
    """Return the identity of a node and its boot; hardware that started again holds no limit."""
    return f"{uid}/{boot_id}"


def stored_ask(spec: NodePowerBudgetSpec) -> LimitAsk:
    """Return the limit that a spec asks of a node."""
    return LimitAsk(
        identity=node_identity(spec.node_uid, spec.boot_id),
        term=spec.term,
        sequence=spec.sequence,
        limit_mw=milliwatts(spec.limit_watts),
        ceiling_mw=milliwatts(spec.ceiling_watts),
    )


def stored_report(status: NodePowerBudgetStatus) -> LimitReport | None:
    """Return what the agent has read back; None where it has applied nothing."""
    if status.sequence is None:
        return None
    return LimitReport(
        identity=node_identity(status.node_uid, status.boot_id),
        sequence=status.sequence,
        in_force_mw=milliwatts(status.in_force_watts),
        refused=status.refused,
    )


def milliwatts(watts: float | None) -> int | None:
    """Return watts as whole milliwatts, at most those of `MOST_DOMAIN_WATTS`; None stays None."""
    return None if watts is None else round(min(watts * MW_PER_WATT, _MOST_MW))


def watts_of(milliwatts_: int | None) -> float | None:
    """Return whole milliwatts as watts; None stays None."""
    return None if milliwatts_ is None else milliwatts_ / MW_PER_WATT
