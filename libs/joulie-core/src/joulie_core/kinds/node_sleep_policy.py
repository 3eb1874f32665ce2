"""NodeSleepPolicy (`nsp`): which nodes may be powered off while nothing needs them, and what is done about it."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from joulie_core import labels
from joulie_core.kinds.base import (
    CheckedModel,
    Column,
    Conditions,
    Count,
    CustomResource,
    Invariant,
    Kind,
    Model,
    TextRule,
    Watts,
)

#: Nodes that a status names; the counts are complete.
MOST_NAMES: Final = 100
#: Power cycles of a node in a day that a policy can permit: one an hour.
MOST_CYCLES: Final = 24

LabelValue = Annotated[str, Field(max_length=63)]
Seconds = Annotated[int, Field(ge=0, le=86_400)]
NodeCount = Annotated[int, Field(ge=0, le=100_000)]
Name = Annotated[str, Field(max_length=253)]
_LABEL_KEY: Final = TextRule(
    "([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?",
    "must be the key of a label, such as joulie.io/rack",
)
LabelKey = Annotated[str, Field(max_length=317, json_schema_extra=_LABEL_KEY.schema), AfterValidator(_LABEL_KEY.check)]
_CLOCK_TIME: Final = TextRule(
    "([01][0-9]|2[0-3]):[0-5][0-9]|24:00", "must be HH:MM by the clock of 24 hours, such as 07:30, or 24:00"
)
_TIME_ZONE: Final = TextRule("[A-Za-z0-9_+/-]+", "must be a name of the time zone database, such as Europe/Rome")
#: HH:MM; compared as text.
ClockTime = Annotated[str, Field(max_length=5, json_schema_extra=_CLOCK_TIME.schema), AfterValidator(_CLOCK_TIME.check)]
TimeZone = Annotated[str, Field(max_length=64, json_schema_extra=_TIME_ZONE.schema), AfterValidator(_TIME_ZONE.check)]


class SleepMode(StrEnum):
    """Mode of the policy: nothing but counting, a recommendation, or the real thing."""

    OBSERVE = "Observe"
    RECOMMEND = "Recommend"
    ACT = "Act"


class Weekday(StrEnum):
    """Day of the week."""

    MONDAY = "Mon"
    TUESDAY = "Tue"
    WEDNESDAY = "Wed"
    THURSDAY = "Thu"
    FRIDAY = "Fri"
    SATURDAY = "Sat"
    SUNDAY = "Sun"


class SpareOf(StrEnum):
    """Nodes that share their spare ones."""

    FAMILY = "Family"
    #: All whose nodes offer the same extended resources, such as GPUs of a vendor, or none.
    RESOURCES = "Resources"
    #: As Resources, and no more than came into use at this time of day.
    ARRIVALS = "Arrivals"


class MinAwakeSpec(Model):
    """Nodes of each hardware family that stay awake."""

    count: NodeCount = 1
    """Nodes that stay awake, with or without pods."""
    spare: NodeCount = 2
    """Nodes that stay awake without pods, for the next ones; with `spareOf: Arrivals` the most of them."""
    spare_of: SpareOf = SpareOf.FAMILY
    """Whether each family has so many spare nodes, or all families together whose nodes offer the same extended
    resources: pods that choose no model can go to any of these. `Arrivals` is as `Resources`, with no more spare nodes
    than came into use within a boot at this time of the day, as far as the operator has seen it."""


class ConsolidationMode(StrEnum):
    """Use of consolidation."""

    OFF = "Off"
    #: States what would be emptied, and changes nothing.
    RECOMMEND = "Recommend"
    ACT = "Act"


class ConsolidationSpec(Model):
    """Nodes that are emptied by moving their standard pods, where these have room on other nodes."""

    mode: ConsolidationMode = ConsolidationMode.RECOMMEND
    """`Recommend`, the default, states what would be emptied; `Act` evicts pods and lets the node sleep, if the policy
    is in `Act`, too."""
    below_percent: Annotated[int, Field(ge=1, le=100)] = 50
    """A node is emptied up to this share of a resource in pods that can be moved, in percent."""


class SleepRatesSpec(Model):
    """Nodes that change at a time, so that power does not surge, and how often one node does."""

    powering_off: Annotated[int, Field(ge=1, le=1000)] = 4
    """Nodes that are put to sleep at a time, from the taint to the end of the power-off."""
    emptying: Annotated[int, Field(ge=1, le=1000)] = 1
    """Nodes whose pods are moved at a time, of those that are put to sleep."""
    waking: Annotated[int, Field(ge=1, le=1000)] = 10
    """Nodes that boot at a time."""
    waking_per_rack: Annotated[int, Field(ge=1, le=1000)] = 10
    """Nodes of one rack that boot at a time, whatever policy they belong to: inrush currents add up on its feeds."""
    power_cycles_per_day: Annotated[int, Field(ge=1, le=MOST_CYCLES)] = 4
    """Times in 24 hours that the power of a node is requested off; from then on it stays awake. The default is the use
    of computers by IPC-SM-785, whose solder joints are to last 1,460 thermal cycles a year."""


class AwakeWindowSpec(CheckedModel):
    """A time of the week in which more nodes stay awake; they are woken ahead of it by the time that they boot."""

    invariants = (
        Invariant(
            "self.start < self.end",
            "start must be before end; split a window that goes beyond midnight into one that ends at 24:00 and one "
            "that starts at 00:00 of the next day",
            lambda spec: spec.start < spec.end,
        ),
    )

    days: Annotated[
        tuple[Weekday, ...], Field(min_length=1, max_length=7, json_schema_extra={"x-kubernetes-list-type": "set"})
    ]
    """Days of the week, such as `[Mon, Tue]`."""
    start: ClockTime
    """Begin by the clock of the time zone, such as `07:30`."""
    end: ClockTime
    """End by the clock of the time zone, such as `19:00`; `24:00` is the end of the day."""
    time_zone: TimeZone = "UTC"
    """Name of the IANA time zone database, such as `Europe/Rome`."""
    min_awake: NodeCount
    """Nodes of each hardware family that stay awake."""


class SleepSettings(Model):
    """Limits and times of sleeping nodes, as a policy states them and as decisions take them."""

    min_awake: MinAwakeSpec = MinAwakeSpec()
    max_asleep_percent: Annotated[int, Field(ge=0, le=90)] = 50
    """Highest share of the nodes of a zone that are off or not ready, in percent. From 55 on kube-controller-manager
    takes the zone for disrupted: it evicts pods from nodes that fail there at a tenth of its rate, or, in a zone of up
    to 50 nodes, not at all. For more than 50 set its `--unhealthy-zone-threshold` above this share."""
    idle_seconds: Seconds = 600
    """Time for which a node has been idle before it is put to sleep."""
    min_awake_seconds: Seconds = 900
    """Time for which a node stays awake at least after a boot."""
    consolidation: ConsolidationSpec = ConsolidationSpec()
    drain_timeout_seconds: Seconds = 600
    """Time after which a drain that is not done is undone."""
    off_timeout_seconds: Seconds = 300
    """Time after which a node that is not off is switched on again."""
    boot_timeout_seconds: Seconds = 1200
    """Time after which a boot has failed."""
    boot_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    """Boots in a row that fail before the node is quarantined."""
    back_off_seconds: Seconds = 600
    """Time after a failure before the next attempt; doubled after each failed boot."""
    rates: SleepRatesSpec = SleepRatesSpec()
    rack_label: LabelKey = labels.RACK
    """Key of the label that names the rack of a node. Nodes without it count as one rack."""


class NodeSleepPolicySpec(SleepSettings):
    """Rules for sleep: which nodes, how many of them, when, and how fast."""

    node_selector: Annotated[dict[str, LabelValue], Field(min_length=1, max_length=32)]
    """Labels of the nodes, all of which have to match; only managed nodes are selected. A node that several policies
    select belongs to the first by name."""
    mode: SleepMode = SleepMode.RECOMMEND
    """`Observe` counts; `Recommend`, the default, also states what would sleep and what that would save; `Act` powers
    nodes off. All nodes are woken when a policy in `Act` is changed to another mode or deleted."""
    schedules: Annotated[tuple[AwakeWindowSpec, ...], Field(max_length=32)] = ()
    """Times of the week in which more nodes stay awake."""


class SleepCounts(Model):
    """Selected nodes by their state."""

    selected: Count = 0
    """Nodes that belong to the policy."""
    awake: Count = 0
    """Nodes that are on and not about to sleep."""
    cordoned: Count = 0
    """Nodes that are about to be drained."""
    draining: Count = 0
    """Nodes whose pods are being evicted."""
    powering_off: Count = 0
    """Nodes whose power-off was requested and is not confirmed."""
    asleep: Count = 0
    """Nodes that are off, by their BMC and by their kubelet."""
    waking: Count = 0
    """Nodes that boot."""
    quarantined: Count = 0
    """Nodes whose boots have failed."""


class SleepRefusalCount(Model):
    """Nodes that may not be put to sleep, for one reason."""

    reason: Name
    """The first reason that holds for them."""
    nodes: Count
    """Number of nodes."""


class PowerCyclesStatus(Model):
    """Power cycles of the policy's nodes in the last 24 hours."""

    limit: Count
    """Power cycles that a node may have."""
    used: Count
    """Power cycles of the node that has most."""
    total: Count
    """Power cycles of all nodes."""
    exhausted: Count
    """Nodes that have reached the limit: they stay awake."""


class RackBootsStatus(Model):
    """Nodes that boot now, in the racks of the policy's nodes."""

    limit: Count
    """Nodes of a rack that may boot at a time."""
    used: Count
    """Nodes that boot in the rack in which most do."""
    full: Count
    """Racks in which as many boot as may."""
    without_rack: Count
    """Nodes of the policy without the label of a rack, which count as one rack."""


class SleepRecommendation(Model):
    """Recommendation: what the policy would do in `Act`, as if the wake paths of all nodes were proved."""

    asleep: Count
    """Nodes that would be asleep."""
    watts: Watts
    """Power that this would save, without that of nodes whose power is unknown."""
    nodes: Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)] = ()
    """These nodes, at most 100 of them."""


class ConsolidationStatus(Model):
    """Recommendation of consolidation: nodes that would be emptied one after the other, with the pods as they are."""

    nodes: Count
    """Nodes that would be emptied and put to sleep."""
    pods: Count
    """Pods that would be moved."""
    watts: Watts
    """Power that the nodes draw without work, without that of nodes whose power is unknown."""
    names: Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)] = ()
    """These nodes, at most 100 of them, in the order in which they would be emptied."""


class NodeSleepPolicyStatus(Model):
    """State of the policy's nodes."""

    observed_generation: Count | None = None
    """`metadata.generation` that the status refers to."""
    nodes: SleepCounts | None = None
    refusals: Annotated[tuple[SleepRefusalCount, ...], Field(max_length=32)] = ()
    """Why nodes that are awake may not be put to sleep, whatever their load."""
    power_cycles: PowerCyclesStatus | None = None
    rack_boots: RackBootsStatus | None = None
    saved_watts: Watts | None = None
    """Power that the nodes which are asleep would draw without work, by the model of their hardware; absent in other
    modes than `Act`. Nodes whose power is unknown are left out."""
    recommendation: SleepRecommendation | None = None
    """Absent in other modes than `Recommend`."""
    consolidation: ConsolidationStatus | None = None
    """Present where `spec.consolidation.mode` is `Recommend` and `spec.mode` is not `Observe`."""
    quarantined: Annotated[tuple[Name, ...], Field(max_length=MOST_NAMES)] = ()
    """Nodes in quarantine, at most 100 of them."""
    conditions: Conditions = ()
    """Conditions: Accepted (the spec can be used), Acting (nodes are powered off by it), Overlapping (nodes belong to
    another policy), Maintenance (people work on nodes) and Healthy (no node is in quarantine)."""


class NodeSleepPolicy(CustomResource):
    """Nodes that are powered off while nothing needs them; its status is written by the operator."""

    info: ClassVar[Kind] = Kind(
        kind="NodeSleepPolicy",
        plural="nodesleeppolicies",
        short_name="nsp",
        spec=NodeSleepPolicySpec,
        status=NodeSleepPolicyStatus,
        columns=(
            Column("Mode", ".spec.mode"),
            Column("Nodes", ".status.nodes.selected", "integer"),
            Column("Awake", ".status.nodes.awake", "integer"),
            Column("Asleep", ".status.nodes.asleep", "integer"),
            Column("Waking", ".status.nodes.waking", "integer"),
            Column("Quarantined", ".status.nodes.quarantined", "integer"),
            Column("Saved", ".status.savedWatts", "number"),
            Column("Would save", ".status.recommendation.watts", "number"),
        ),
        named_after_node=False,
    )

    spec: NodeSleepPolicySpec
    status: NodeSleepPolicyStatus = NodeSleepPolicyStatus()
