"""The status of a NodePowerBudget: what is in force of it. Figures are those that were read back, never those asked."""

from dataclasses import dataclass
from typing import Final

from joulie_core.budget.in_force import NodeLimitReport
from joulie_core.budget.node_limit import FollowedLimit
from joulie_core.budget.objects import watts_of
from joulie_core.kinds.base import ConditionStatus, set_condition
from joulie_core.kinds.node_power_budget import DrawnSample, NodePowerBudgetStatus

_IN_FORCE: Final = "InForce"


@dataclass(frozen=True, slots=True)
class SampledPower:
    """The last sample of what a node draws."""

    number: int
    #: None: not every device was read.
    drawn_mw: int | None
    #: `renewal` as it was seen before the sample was taken: the operator tells the age of the sample by it.
    renewal: int


def limit_status(
    limit: FollowedLimit,
    report: NodeLimitReport,
    before: NodePowerBudgetStatus,
    sampled: SampledPower | None = None,
    *,
    generation: int,
    now: str,
) -> NodePowerBudgetStatus:
    """Return the status after a pass.

    Args:
        limit: as it was followed in that pass.
        report: what came of it.
        before: status of the object, for the time of the condition.
        sampled: the last sample; None where the limit counts without.
        generation: `metadata.generation` of the object.
        now: wall-clock time, RFC 3339.
    """
    caps = report.caps
    return NodePowerBudgetStatus(
        node_uid=limit.node_uid,
        boot_id=limit.boot_id,
        sequence=limit.ask.sequence,
        renewal=sampled.renewal if sampled else limit.renewal,
        in_force_watts=watts_of(report.in_force_mw),
        refused=report.refused,
        cpu_watts=watts_of(caps.cpu_mw) if caps else None,
        gpu_watts=watts_of(caps.gpu_mw) if caps else None,
        oversubscription=DrawnSample(
            sample=sampled.number, drawn_watts=watts_of(sampled.drawn_mw), falling_back=report.falls_back
        )
        if sampled
        else None,
        conditions=set_condition(
            before.conditions,
            _IN_FORCE,
            ConditionStatus.TRUE if report.as_asked else ConditionStatus.FALSE,
            report.state,
            report.message,
            now=now,
            generation=generation,
        ),
    )
