"""Power budgets: a tree of limits that holds at every instant; see docs/decisions/0047-power-budgets.md.

All power is in whole milliwatts, so that sums are exact.
"""

from joulie_core.budget.allocate import Allocator, NodeWants, wants_of
from joulie_core.budget.available import AvailablePower, DomainChain, available_of, unknown_chain
from joulie_core.budget.binding import BindingLimit, LimitSource, binding_limit
from joulie_core.budget.event_tree import EventedTree, EventInputs, with_events
from joulie_core.budget.events import EventLimit, TimedLimit
from joulie_core.budget.floors import floors_of
from joulie_core.budget.ledger import BudgetNode, LeaseTimes, LimitAsk, LimitReport, may_be_in_force_mw, supersedes
from joulie_core.budget.observe import LoweredShare, Observation, ObservedDomain, domains_of, observe, observe_events
from joulie_core.budget.rest import UNKNOWN_REST, DomainRest, PublishedRest, ServerRest, with_rest
from joulie_core.budget.split import BudgetDevice, DeviceSplit, split_budget
from joulie_core.budget.transitions import BudgetDecision, BudgetPlanner, DomainSums
from joulie_core.budget.tree import BudgetDomain, BudgetProblem, BudgetTree, DomainProblem, Forest, plant

__all__ = [
    "UNKNOWN_REST",
    "Allocator",
    "AvailablePower",
    "BindingLimit",
    "BudgetDecision",
    "BudgetDevice",
    "BudgetDomain",
    "BudgetNode",
    "BudgetPlanner",
    "BudgetProblem",
    "BudgetTree",
    "DeviceSplit",
    "DomainChain",
    "DomainProblem",
    "DomainRest",
    "DomainSums",
    "EventInputs",
    "EventLimit",
    "EventedTree",
    "Forest",
    "LeaseTimes",
    "LimitAsk",
    "LimitReport",
    "LimitSource",
    "LoweredShare",
    "NodeWants",
    "Observation",
    "ObservedDomain",
    "PublishedRest",
    "ServerRest",
    "TimedLimit",
    "available_of",
    "binding_limit",
    "domains_of",
    "floors_of",
    "may_be_in_force_mw",
    "observe",
    "observe_events",
    "plant",
    "split_budget",
    "supersedes",
    "unknown_chain",
    "wants_of",
    "with_events",
    "with_rest",
]
