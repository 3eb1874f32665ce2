"""PowerDomain (`pdom`): a part of the power supply with a limit, such as a feed, a row or a rack.

Observed or enforced, as a whole tree: docs/power-budgets.md.
"""

from enum import StrEnum
from itertools import combinations
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from joulie_core.kinds.base import (
    CheckedModel,
    Column,
    Conditions,
    Count,
    CustomResource,
    Invariant,
    Kind,
    Model,
    NameRule,
    Pct,
    Text,
    TextRule,
    Timestamp,
    Watts,
)
from joulie_core.kinds.node_sleep_policy import LabelValue, Name
from joulie_core.kinds.raise_state import RaiseState

#: Nodes that a status names; the counts and sums are complete.
MOST_LOWERED: Final = 100
#: Watts of a domain: more than any site draws.
MOST_DOMAIN_WATTS: Final = 100_000_000_000
#: Characters of a history: figures of twelve digits with their commas, and its days.
MOST_OF_MINUTES: Final = 1_000
MOST_OF_QUARTERS: Final = 14_000
MOST_EVENT_DAYS: Final = 16
#: Points of a breaker's curve.
MOST_BREAKER_POINTS: Final = 16
#: Priorities reach from minus this to this.
MOST_PRIORITY: Final = 1_000_000

_PARENT: Final = TextRule(
    "[a-z0-9]([-a-z0-9.]*[a-z0-9])?", "must be the name of a PowerDomain: lower case letters, digits, - and ."
)

ParentName = Annotated[
    str, Field(min_length=1, max_length=253, json_schema_extra=_PARENT.schema), AfterValidator(_PARENT.check)
]
DomainWatts = Annotated[int, Field(ge=0, le=MOST_DOMAIN_WATTS)]
DamagePct = Annotated[float, Field(ge=0, le=100)]


class BudgetBasis(StrEnum):
    """Power that the limit is compared with."""

    #: CPU packages and GPUs.
    DEVICES = "Devices"
    #: Whole servers, at the wall.
    SERVER = "Server"


class DomainLostControl(StrEnum):
    """Behaviour of a node that cannot refresh its limit."""

    #: The node keeps its limit.
    KEEP_GUARANTEED = "KeepGuaranteed"
    #: The node is without limit when its lease ends.
    RELEASE = "Release"


class DomainMode(StrEnum):
    """Use of the domain's limit."""

    #: Decides and reports, and lowers nothing.
    OBSERVE = "Observe"
    #: Nodes are limited, where all domains of the tree say so.
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


class BreakerPoint(Model):
    """A load that the breaker carries for a time, by the vendor's curve: its lower edge, of a warm breaker."""

    load_percent: Annotated[int, Field(ge=101, le=1_000)]
    """Load in percent of `limitWatts`."""
    seconds: Annotated[int, Field(ge=1, le=86_400)]
    """Seconds for which the breaker carries the load without tripping."""


def _is_curve(points: tuple[BreakerPoint, ...]) -> bool:
    """Return whether a higher load is carried for a shorter time."""
    return all(
        a == b or (a.load_percent - b.load_percent) * (a.seconds - b.seconds) < 0 for a, b in combinations(points, 2)
    )


class OversubscriptionSpec(CheckedModel):
    """The breaker of a domain whose limits may add up to more than its own while what is drawn is measured."""

    invariants = (
        Invariant(
            "self.breaker.all(a, self.breaker.all(b, a.loadPercent == b.loadPercent && a.seconds == b.seconds || "
            "a.loadPercent < b.loadPercent && a.seconds > b.seconds || "
            "a.loadPercent > b.loadPercent && a.seconds < b.seconds))",
            "points of breaker with a higher load must have a shorter time",
            lambda spec: _is_curve(spec.breaker),
        ),
    )

    breaker: Annotated[tuple[BreakerPoint, ...], Field(min_length=1, max_length=MOST_BREAKER_POINTS)]
    """Points of the breaker's curve, in any order; no load above the highest is used."""
    cooling_seconds: Annotated[int, Field(ge=1, le=86_400)]
    """Time constant with which the breaker cools after an overload."""
    reaction_seconds: Annotated[int, Field(ge=8, le=3_600)] = 20
    """Seconds within which an overload ends, without what programs take. Each node writes its status five times in
    it."""


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
        Invariant(
            "!has(self.floor) || !has(self.floor.wattsPerNode) || "
            "self.floor.wattsPerNode <= self.limitWatts - (has(self.reserveWatts) ? self.reserveWatts : 0)",
            "floor.wattsPerNode must not be above limitWatts less reserveWatts",
            lambda spec: spec.floor is None or (spec.floor.watts_per_node or 0) <= spec.usable_watts,
        ),
    )

    parent: ParentName | None = None
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
    """`Devices`, the default, compares CPU packages and GPUs with the limit of the domain. The rest of a server
    (memory, fans, losses) is not counted: give it to `reserveWatts`. `Server` counts it as well, by readings of the
    servers' BMCs, and by models where there are none; `status.rest` says which."""
    oversubscription: OversubscriptionSpec | None = None
    """Absent: limits never add up to more than `limitWatts`. Needs `mode: Enforce` in all domains of the tree, and the
    operator's `POWER_OVERSUBSCRIPTION`."""
    on_lost_control: DomainLostControl
    """Behaviour that is wanted of a node that cannot refresh its limit: `KeepGuaranteed` keeps the limit, so that the
    sum holds; `Release` removes it. Required, so that it is chosen by a person; it changes nothing in mode
    `Observe`. A node is released only where its domain and all above it say so."""
    mode: DomainMode = DomainMode.OBSERVE
    """`Observe`, the default, decides and reports, and lowers nothing. `Enforce` limits nodes, where every domain of
    the tree says `Enforce` and the operator's `POWER_DOMAINS` does; else the tree is observed."""

    @property
    def usable_watts(self) -> int:
        """Watts of the limit that nodes may get."""
        return self.limit_watts - self.reserve_watts


class DrawnPower(Model):
    """Power that the nodes draw, by how it is known: CPU packages and GPUs, with `basis: Server` whole servers."""

    measured_watts: Watts | None = None
    """Sum of readings; absent where no node is measured."""
    measured_nodes: Count = 0
    """Nodes with a reading."""
    modelled_watts: Watts | None = None
    """Sum of what models say of nodes without a reading; absent where no node is modelled."""
    modelled_nodes: Count = 0
    """Nodes without a reading and with a model."""
    unknown_nodes: Count = 0
    """Nodes with neither."""


class RestOfServers(Model):
    """Power that the servers of a domain may draw beyond their CPU packages and GPUs; no limit lowers it."""

    watts: Watts
    """Power that counts: the sum over all nodes of which it is known."""
    measured_nodes: Count = 0
    """Nodes of which readings of the BMC tell it."""
    modelled_nodes: Count = 0
    """Nodes of which the models tell it."""
    modelled_watts: Watts = 0
    """Part of `watts` that is modelled, the upper end of the models' bands."""
    modelled_least_watts: Watts = 0
    """The lower end of the same bands."""
    unknown_nodes: Count = 0
    """Nodes of which neither tells it."""


class LoweredNode(Model):
    """A node that has less than it wants, or would have in mode `Observe`."""

    node: Name
    """Name of the node."""
    wanted_watts: Watts
    """Power that the node wants: the higher of what it draws and of what its pods' requests are modelled to draw."""
    allocated_watts: Watts
    """Its share; in mode `Observe` that it would get."""
    reason: Text
    """The domain whose limit binds, and the priority that is served first."""


class DrawnHistoryStatus(Model):
    """Drawn power of the domain, for the baselines of PowerEvents: whole watts by commas, empty where not known."""

    until: Timestamp
    """End of both lists."""
    basis: BudgetBasis = BudgetBasis.DEVICES
    """Power that they are of; those of another basis than that of the spec count no more."""
    minutes: Annotated[str, Field(max_length=MOST_OF_MINUTES)] = ""
    """Means of the last 75 minutes."""
    quarter_hours: Annotated[str, Field(max_length=MOST_OF_QUARTERS)] = ""
    """Means of the quarter hours of the last eleven days; one without 11 known minutes is not known."""
    event_days: Annotated[tuple[Count, ...], Field(max_length=MOST_EVENT_DAYS)] = ()
    """Days with an event, by their number since 1 January 1970, UTC."""


class OversubscriptionStatus(Model):
    """State of an oversubscribed domain."""

    raised: bool
    """Whether the limits may add up to `permittedWatts` now; else to `limitWatts`."""
    permitted_watts: Watts
    """The most that the limits of nodes may add up to while what they draw is measured, with the reserve."""
    fallback_watts: Watts | None = None
    """Sum of what the nodes fall back to; absent while it is not known."""
    breaker_damage_percent: DamagePct
    """State of the breaker as it is counted: at 100 it would trip."""
    assumed_damage_percent: DamagePct = 0.0
    """Part of `breakerDamagePercent` that is assumed of a time that was not seen: 100 for a new leader of the operator,
    and less as the breaker cools."""
    state: RaiseState | None = None
    """`Raised`, or why limits are not raised, by one word."""
    reason: Text
    """Why limits are raised or not."""

    @property
    def counted_damage_percent(self) -> float:
        """Part of `breaker_damage_percent` that was counted."""
        return self.breaker_damage_percent - self.assumed_damage_percent


class PowerDomainStatus(Model):
    """State of the domain. Watts are rounded to the side that shows less room."""

    observed_generation: Count | None = None
    """`metadata.generation` that the status refers to."""
    mode: DomainMode | None = None
    """Mode in force: `Observe` lowers nothing, `Enforce` limits nodes."""
    last_updated: Timestamp | None = None
    """Time of the state; written at least every five minutes by an operator that observes power domains."""
    nodes: Count | None = None
    """Nodes below the domain; absent where the domain cannot be used."""
    unknown_nodes: Count | None = None
    """Nodes below it whose highest power is not known; they are in no sum of watts."""
    allocated_watts: Watts | None = None
    """Sum of the shares of the nodes; in mode `Observe` of what they would get."""
    in_force_watts: Watts | None = None
    """Sum of what the nodes may draw now: their highest power where nothing is lowered, else the highest limit that may
    be in force of each; absent where that of one is not known."""
    largest_in_force_watts: Watts | None = None
    """Largest `inForceWatts` since these were first within the present limit, under the present leader of the operator;
    absent where they have not been."""
    unconfirmed_nodes: Count | None = None
    """Nodes whose agent has not reported the newest limit; absent where nothing is lowered."""
    refused_nodes: Count | None = None
    """Nodes whose agent reports that the limit could not be put in force; absent where nothing is lowered."""
    silent_nodes: Count | None = None
    """Nodes whose agent has not repeated a renewal for so long that its lease may end; absent where nothing is
    lowered."""
    drawn: DrawnPower | None = None
    rest: RestOfServers | None = None
    """Only with `basis: Server`. It is contained in the sums `allocatedWatts`, `inForceWatts`, `largestInForceWatts`
    and `guaranteedWatts`, which are compared with the limit."""
    guaranteed_watts: Watts | None = None
    """Sum of the floors, which no node gets less than."""
    headroom_watts: Watts | None = None
    """Watts of the limit, less the reserve, above `inForceWatts`; 0 where these are more, absent where they are."""
    shortfall_watts: Watts | None = None
    """Watts by which the lowest limits of the hardware exceed the limit, less the reserve; no lowering could help."""
    limited_nodes: Count | None = None
    """Nodes whose share is below their highest power."""
    lowered_nodes: Count | None = None
    """Nodes whose share is below what they want."""
    lowered: Annotated[tuple[LoweredNode, ...], Field(max_length=MOST_LOWERED)] = ()
    """The nodes whose share is below what they want, at most 100 of them, the largest difference first."""
    binding_event: Annotated[str, Field(max_length=253)] | None = None
    """Name of the PowerEvent whose limit is in force in place of `limitWatts`; absent: there is none."""
    oversubscription: OversubscriptionStatus | None = None
    """Absent where the domain is not oversubscribed."""
    history: DrawnHistoryStatus | None = None
    """Absent where nothing is known."""
    conditions: Conditions = ()
    """Conditions: Accepted (the domain can be used; else the reason by name and number), FloorsFit (the floors fit into
    the limits), Held (what the nodes may draw now fits into the limit), and Enforced (nodes are limited; else why
    not)."""


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
            Column("Mode", ".status.mode"),
            Column("Limit", ".spec.limitWatts", "integer"),
            Column("Nodes", ".status.nodes", "integer"),
            Column("Unknown", ".status.unknownNodes", "integer"),
            Column("Measured", ".status.drawn.measuredWatts", "number"),
            Column("Allocated", ".status.allocatedWatts", "number"),
            Column("In-Force", ".status.inForceWatts", "number"),
            Column("Headroom", ".status.headroomWatts", "number"),
            Column("Shortfall", ".status.shortfallWatts", "number"),
        ),
        named_after_node=False,
        name_rules=(
            NameRule(
                "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
                "parent must be another PowerDomain",
                ".spec.parent",
            ),
        ),
    )

    spec: PowerDomainSpec
    status: PowerDomainStatus = PowerDomainStatus()
