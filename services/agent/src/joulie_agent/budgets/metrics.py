"""Series of the power budgets of nodes. Nodes without a budget have none, and what was not read back has no sample."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import gauge
from joulie_core.budget.binding import LimitSource
from joulie_core.budget.in_force import LimitState, NodeLimitReport
from joulie_core.budget.objects import watts_of

_NODE: Final = ("node",)


@dataclass(frozen=True, slots=True)
class NodeBudgetView:
    """The power budget of one node, as a scrape shows it."""

    #: The limit that is followed; None: no limit.
    limit_mw: int | None
    report: NodeLimitReport
    #: What the cap of each subsystem comes from, by its name.
    sources: Mapping[str, LimitSource] = field(default_factory=dict)
    #: Whether the limit counts only while the node is measured.
    oversubscribed: bool = False


def budget_families(views: Mapping[str, NodeBudgetView]) -> Iterator[Metric]:
    """Yield the series, by node."""
    yield gauge(
        "joulie_power_budget_limit_watts",
        "Limit that the power budget of a node asks of its CPU packages and GPUs together, in watts.",
        _NODE,
        (((node,), watts_of(view.limit_mw)) for node, view in views.items()),
    )
    yield gauge(
        "joulie_power_budget_in_force_watts",
        "Sum of the limits of a node's CPU packages and GPUs as they were read back, in watts.",
        _NODE,
        (((node,), watts_of(view.report.in_force_mw)) for node, view in views.items()),
    )
    yield gauge(
        "joulie_power_budget_refused",
        "1 where a node's power budget could not be put in force.",
        _NODE,
        (((node,), float(view.report.refused)) for node, view in views.items()),
    )
    yield gauge(
        "joulie_power_budget_falling_back",
        "1 where a node is at the fallback of an oversubscribed limit; nodes without one have no sample.",
        _NODE,
        (((node,), float(view.report.falls_back)) for node, view in views.items() if view.oversubscribed),
    )
    yield gauge(
        "joulie_power_budget_state",
        "1 for the state of a node's power budget, as the reason of the condition InForce, 0 for the others.",
        ("node", "reason"),
        (((node, state), float(view.report.state is state)) for node, view in views.items() for state in LimitState),
    )
    yield gauge(
        "joulie_cap_source",
        "1 for what the cap of a subsystem comes from, 0 for the other: the profile or the power budget of the node.",
        ("node", "subsystem", "source"),
        (
            ((node, subsystem, source), float(source is found))
            for node, view in views.items()
            for subsystem, found in view.sources.items()
            for source in LimitSource
        ),
    )
