"""PowerDomain (`pdom`): a part of the power supply with a limit, such as a feed, a row or a rack.

No service reads the kind yet, so that it is not among the manifests of the chart; see
docs/decisions/0047-power-budgets.md.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from joulie_core.kinds.base import (
    CheckedModel,
    Column,
    Conditions,
    Count,
    CustomResource,
    Invariant,
    Kind,
    Model,
    Pct,
    Text,
    Watts,
)
from joulie_core.kinds.node_sleep_policy import LabelValue, Name

#: Nodes that a status names; the counts and sums are complete.
MOST_LOWERED: Final = 100
#: Watts of a domain: more than any site draws.
MOST_DOMAIN_WATTS: Final = 100_000_000_000
#: Priorities reach from minus this to this.
MOST_PRIORITY: Final = 1_000_000

DomainWatts = Annotated[int, Field(ge=0, le=MOST_DOMAIN_WATTS)]


class BudgetBasis(StrEnum):
    """Power that the limit is compared with."""

    #: CPU packages and GPUs.
    DEVICES = "Devices"
    #: Whole servers, as their BMCs measure them.
    SERVER = "Server"


class DomainLostControl(StrEnum):
    """Behaviour of a node that cannot refresh its limit."""

    #: The node keeps its limit.
    KEEP_GUARANTEED = "KeepGuaranteed"
    #: The node is without limit when its lease ends.
    RELEASE = "Release"


class DomainMode(StrEnum):
    """Use of the domain's limit."""

    OBSERVE = "Observe"
    ENFORCE = "Enforce"


class FloorSpec(CheckedModel):
    """Power of each node that is never taken from it; one of the fields."""

    invariants = (
        Invariant(
            "has(self.wattsPerNode) != has(self.percentOfMax)",
            "set one of wattsPerNode and percentOfMax",
            lambda spec: (spec.watts_per_node is None) != (spec.percent_of_max is None),
        ),
    )

    watts_per_node: Annotated[int, Field(ge=1, le=MOST_DOMAIN_WATTS)] | None = None
    """Watts of each node. Refused for nodes whose hardware cannot be limited so low."""
    percent_of_max: Pct | None = None
    """Percent of the power that each node may draw without a limit."""


class PowerDomainSpec(CheckedModel):
    """The limit of a part of the power supply, and how its nodes share it."""

    invariants = (
        Invariant(
            "!has(self.reserveWatts) || self.reserveWatts < self.limitWatts",
            "reserveWatts must be below limitWatts",
            lambda spec: spec.reserve_watts < spec.limit_watts,
        ),
        Invariant(
            "has(self.nodeSelector) || !has(self.floor) && !has(self.priority)",
            "floor and priority need a nodeSelector: they belong to the domains that select nodes",
            lambda spec: spec.node_selector is not None or (spec.floor is None and spec.priority is None),
        ),
    )

    parent: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of the PowerDomain that supplies this one; absent for the root of a tree."""
    node_selector: Annotated[dict[str, LabelValue], Field(min_length=1, max_length=32)] | None = None
    """Labels of the nodes of the domain, all of which have to match. Only for domains that are the parent of no other;
    a node that two domains select is refused by name."""
    limit_watts: Annotated[int, Field(ge=1, le=MOST_DOMAIN_WATTS)]
    """Watts that the limits of all nodes below never exceed together."""
    reserve_watts: DomainWatts = 0
    """Watts of the limit that are given to no node, such as for switches of the rack."""
    floor: FloorSpec | None = None
    """Power of each node that is never taken from it; absent: the lowest limit of its hardware. Floors that do not fit
    into a limit are refused with the two numbers, and the lowest limits of the hardware count."""
    priority: Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] | None = None
    """Order in which demand is served: a higher number is more important, and an absent one counts as 0. Compared among
    all domains of the tree that select nodes."""
    basis: BudgetBasis = BudgetBasis.DEVICES
    """`Devices`, the default, compares the limits of CPU packages and GPUs with the limit of the domain; `Server`
    compares whole servers, which needs readings of their BMCs."""
    on_lost_control: DomainLostControl
    """Behaviour of a node that cannot refresh its limit: `KeepGuaranteed` keeps the limit, so that the sum holds;
    `Release` removes it when the node's lease ends, so that the others have to make room for its highest power. A node
    keeps its limit if one of the domains above it says so."""
    mode: DomainMode = DomainMode.OBSERVE
    """`Observe`, the default, allocates and reports and lowers nothing; `Enforce` limits nodes."""


class DrawnPower(Model):
    """Power that the nodes draw, by how it is known."""

    measured_watts: Watts = 0
    """Sum of readings."""
    modelled_watts: Watts = 0
    """Sum of what models say of nodes without a reading."""
    unknown_nodes: Count = 0
    """Nodes with neither."""


class LoweredNode(Model):
    """A node that has less than it wants."""

    node: Name
    """Name of the node."""
    wanted_watts: Watts
    """Power that the node wants."""
    allocated_watts: Watts
    """Power that it gets."""
    reason: Text
    """The domain whose limit binds, and the priority that was served first."""


class PowerDomainStatus(Model):
    """State of the domain."""

    observed_generation: Count | None = None
    """`metadata.generation` that the status refers to."""
    nodes: Count | None = None
    """Nodes below the domain; absent: not counted yet."""
    allocated_watts: Watts | None = None
    """Sum of what the nodes are to get."""
    in_force_watts: Watts | None = None
    """Sum of the limits that may be in force; absent while one is unknown."""
    drawn: DrawnPower | None = None
    guaranteed_watts: Watts | None = None
    """Sum of the floors."""
    headroom_watts: Watts | None = None
    """Watts that can still be given; absent while a limit that may be in force is unknown."""
    shortfall_watts: Watts | None = None
    """Watts above the limit that cannot be lowered."""
    largest_in_force_watts: Watts | None = None
    """The largest sum of limits in force since the operator started."""
    lowered: Annotated[tuple[LoweredNode, ...], Field(max_length=MOST_LOWERED)] = ()
    """Nodes that have less than they want, at most 100 of them, the largest difference first."""
    conditions: Conditions = ()
    """Conditions: Accepted (the domain can be used; else the reason by name and number), and Held (the sum of limits
    that may be in force is within the limit)."""


class PowerDomain(CustomResource):
    """A part of the power supply whose nodes share a limit."""

    info: ClassVar[Kind] = Kind(
        kind="PowerDomain",
        plural="powerdomains",
        short_name="pdom",
        spec=PowerDomainSpec,
        status=PowerDomainStatus,
        columns=(
            Column("Parent", ".spec.parent"),
            Column("Mode", ".spec.mode"),
            Column("Limit", ".spec.limitWatts", "integer"),
            Column("Nodes", ".status.nodes", "integer"),
            Column("Allocated", ".status.allocatedWatts", "number"),
            Column("In-Force", ".status.inForceWatts", "number"),
            Column("Headroom", ".status.headroomWatts", "number"),
            Column("Shortfall", ".status.shortfallWatts", "number"),
        ),
        named_after_node=False,
    )

    spec: PowerDomainSpec
    status: PowerDomainStatus = PowerDomainStatus()
