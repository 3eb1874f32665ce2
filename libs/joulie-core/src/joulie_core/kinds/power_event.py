"""PowerEvent (`pevt`): a lower limit of a PowerDomain for a time, as a utility or a grid operator asks for it.

Users or another program write the spec, the operator the status: docs/power-events.md.
"""

from enum import StrEnum
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
    Timestamp,
    Watts,
    WorkloadClass,
)
from joulie_core.kinds.node_sleep_policy import Name
from joulie_core.kinds.power_domain import DomainWatts, ParentName
from joulie_core.timestamps import epoch_seconds

#: Minutes that a status keeps: a day and an hour.
MOST_MINUTES: Final = 1_500
#: Nodes that a status names; the counts are complete.
MOST_AFFECTED: Final = 100
#: The lowest priority, by number the highest.
LOWEST_PRIORITY: Final = 1_000_000
_MOST_RAMP_S: Final = 86_400
_LEAST_TIMEOUT_S: Final = 30
_MOST_TIMEOUT_S: Final = 86_400
_MOST_OF_REF: Final = 253


def _readable(value: str) -> str:
    """Return the time.

    Raises:
        ValueError: it is no RFC 3339 time with a zone.
    """
    if epoch_seconds(value) is None:
        raise ValueError("must be an RFC 3339 time with a zone")
    return value


Moment = Annotated[Timestamp, AfterValidator(_readable)]
Percent = Annotated[int, Field(ge=1, le=100)]
RampSeconds = Annotated[int, Field(ge=0, le=_MOST_RAMP_S)]


class EventBaseline(StrEnum):
    """Method by which the power that would have been drawn without the event is stated."""

    #: It is not stated.
    NONE = "None"
    #: Mean of the hour before the start.
    LAST_HOUR = "LastHour"
    #: Mean of the same hours of the last ten days.
    SAME_HOURS_OF_DAYS = "SameHoursOfDays"


class SourceLoss(StrEnum):
    """Limit of an event whose source does not renew it."""

    #: It stays until the end.
    KEEP_UNTIL_END = "KeepUntilEnd"
    #: It is `sourceLostLimitWatts`.
    LIMIT = "Limit"
    #: There is none.
    RELEASE = "Release"


class EventState(StrEnum):
    """Stage of an event, by the clock of the operator."""

    PENDING = "Pending"
    RAMPING_DOWN = "RampingDown"
    ACTIVE = "Active"
    RAMPING_UP = "RampingUp"
    ENDED = "Ended"
    #: The source has not renewed the event in time, and what the spec says of that applies.
    SOURCE_LOST = "SourceLost"


class DrawnQuality(StrEnum):
    """Kind of readings that the drawn power of a minute is of."""

    #: Every reading had the measured power of all nodes.
    MEASURED = "measured"
    #: Some of it is by models.
    MODELLED = "modelled"
    #: Of a node it was not known, or nothing was read.
    UNKNOWN = "unknown"


class PowerEventSpec(CheckedModel):
    """The limit that is asked for, its times, and what it may affect."""

    invariants = (
        Invariant(
            "has(self.limitWatts) != has(self.reduceByPercent)",
            "set one of limitWatts and reduceByPercent",
            lambda spec: (spec.limit_watts is None) != (spec.reduce_by_percent is None),
        ),
        Invariant(
            "!has(self.reduceByPercent) || has(self.baseline) && self.baseline != 'None'",
            "reduceByPercent needs a baseline: LastHour or SameHoursOfDays",
            lambda spec: spec.reduce_by_percent is None or spec.baseline is not EventBaseline.NONE,
        ),
        Invariant(
            "has(self.end) != (has(self.standing) && self.standing)",
            "set one of end and standing: true",
            lambda spec: (spec.end is not None) != spec.standing,
        ),
        Invariant(
            "!has(self.start) || !has(self.end) || self.start < self.end",
            "end must be after start",
            lambda spec: spec.start is None or spec.end is None or _seconds(spec.start) < _seconds(spec.end),
        ),
        Invariant(
            "!has(self.ifSourceLost) || self.ifSourceLost == 'KeepUntilEnd' || has(self.sourceTimeoutSeconds)",
            "ifSourceLost needs sourceTimeoutSeconds, unless it is KeepUntilEnd",
            lambda spec: spec.if_source_lost is SourceLoss.KEEP_UNTIL_END or spec.source_timeout_seconds is not None,
        ),
        Invariant(
            "has(self.sourceLostLimitWatts) == (has(self.ifSourceLost) && self.ifSourceLost == 'Limit')",
            "sourceLostLimitWatts belongs to ifSourceLost: Limit, which needs it",
            lambda spec: (spec.source_lost_limit_watts is not None) == (spec.if_source_lost is SourceLoss.LIMIT),
        ),
    )

    domain: ParentName
    """Name of the PowerDomain whose limit is lowered."""
    limit_watts: DomainWatts | None = None
    """Watts of the domain while the event is active, in place of a higher `limitWatts` of the domain: its reserve is
    part of them."""
    reduce_by_percent: Percent | None = None
    """Percent of the baseline by which the CPU packages and GPUs of the domain draw less."""
    baseline: EventBaseline = EventBaseline.NONE
    """Power that would be drawn without the event: `LastHour` is the mean of the hour before the start, of which 45
    minutes have to be known; `SameHoursOfDays` the mean of the same hours of the last ten days, of which three have to
    be known, and days with an event of the domain are left out; `None`, the default, states nothing. With
    `limitWatts` it is used for the report alone."""
    start: Moment | None = None
    """Time at which the ramp down begins; absent: when the object is created. A start that has passed when the operator
    first sees the event is that moment."""
    end: Moment | None = None
    """Time at which the ramp up begins. Required, unless the event is standing."""
    standing: bool = False
    """Whether the event lasts until it is deleted."""
    ramp_down_seconds: RampSeconds = 0
    """Seconds in which the limit goes down from that of the domain, evenly, from the start on."""
    ramp_up_seconds: RampSeconds = 0
    """Seconds in which the limit goes up to that of the domain, evenly, from the end on."""
    priority: Annotated[int, Field(ge=0, le=LOWEST_PRIORITY)] = 0
    """As in OpenADR: a lower number is more important, and 0 the most. The lowest limit is in force whatever the
    priorities are; of events with the same limit the most important is named as the binding one."""
    may_affect: Annotated[
        tuple[WorkloadClass, ...],
        Field(min_length=1, max_length=2, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = (WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE)
    """Workload classes whose nodes may be lowered for the event; the default is both. A node counts as performance
    where it runs a performance pod, else as standard. One of another class keeps what it would have without the event,
    and the limit of the event is raised where the other nodes cannot make up for it. Where a second event of lower
    limit, which may affect that node, cannot be held without it, it is lowered for that one."""
    if_source_lost: SourceLoss = SourceLoss.KEEP_UNTIL_END
    """What applies where `sourceRenewed` has not changed for `sourceTimeoutSeconds`: the limit stays
    (`KeepUntilEnd`, the default), is `sourceLostLimitWatts` (`Limit`), or ends (`Release`)."""
    source_timeout_seconds: Annotated[int, Field(ge=_LEAST_TIMEOUT_S, le=_MOST_TIMEOUT_S)] | None = None
    """Seconds after a renewal, by the clock of the operator, after which the source counts as lost; a new leader of the
    operator counts from when it first sees the event."""
    source_lost_limit_watts: DomainWatts | None = None
    """Watts of the domain while the source is lost; never more than the `limitWatts` of the domain."""
    source_renewed: Moment | None = None
    """Time of the last renewal, by the clock of the source; only a change of it counts. Absent: the source is not
    watched."""
    source_ref: Annotated[str, Field(max_length=_MOST_OF_REF)] = ""
    """What the source calls the event, such as the id of an event at a VTN."""


class AffectedNodes(Model):
    """Nodes of the domain whose share is below what they want, by the class of the pods that they run."""

    performance_nodes: Count = 0
    """Nodes that run performance pods."""
    standard_nodes: Count = 0
    """Nodes that run none."""
    nodes: Annotated[tuple[Name, ...], Field(max_length=MOST_AFFECTED)] = ()
    """Names of the first 100 of them."""


class EventMinute(Model):
    """One minute, from a full minute of the clock on. What was not known is absent."""

    start: Timestamp
    """Time at which the minute begins."""
    baseline_watts: Watts | None = None
    """Baseline of the event."""
    target_watts: Watts | None = None
    """Power that the CPU packages and GPUs of the domain may draw: the limit in force less the reserve, the lowest of
    the minute."""
    drawn_watts: Watts | None = None
    """Mean of what they drew; absent where nothing was read, or the power of a node was not known."""
    samples: Count = 0
    """Readings that the mean is of."""
    quality: DrawnQuality = DrawnQuality.UNKNOWN


class PowerEventStatus(Model):
    """State of the event, by the clock of the operator. Watts are of CPU packages and GPUs."""

    observed_generation: Count | None = None
    """`metadata.generation` that the status refers to."""
    last_updated: Timestamp | None = None
    """Time of the state."""
    first_seen: Timestamp | None = None
    """Time at which an operator first saw the event; it starts no earlier."""
    state: EventState | None = None
    deliverable_watts: Watts | None = None
    """Lowest power that the event can bring the domain down to: the floors of its nodes, and of those that the event
    may not affect what they have without it. Absent: not known."""
    baseline_watts: Watts | None = None
    """Baseline of the event, stated once when it starts; before that, as it would be now. Absent: not known."""
    target_watts: Watts | None = None
    """Power that the domain may draw now: the limit in force less the reserve."""
    drawn_watts: Watts | None = None
    """Power that is drawn now; absent where that of a node is not known."""
    binding_event: Annotated[str, Field(max_length=253)] | None = None
    """Name of the event whose limit is in force in the domain; absent: that of the domain is."""
    seconds_to_90_percent: float | None = Field(
        default=None,
        ge=0,
        alias="secondsTo90Percent",
        description=(
            "Seconds from the start until 90 % of the reduction from the baseline was read; absent: not yet, or "
            "without baseline."
        ),
    )
    mean_error_while_held: float | None = None
    """Mean over the minutes while the limit was held of what was drawn above (positive) or below (negative) the target,
    in percent of the target."""
    rebound_percent: float | None = None
    """Highest minute after the end above (positive) or below (negative) the baseline, in percent of the baseline; of
    the fifteen minutes after the ramp up."""
    affected: AffectedNodes | None = None
    minutes: Annotated[tuple[EventMinute, ...], Field(max_length=MOST_MINUTES)] = ()
    """The last 1,500 minutes of the event and of the fifteen after it. A minute in which no operator led is absent."""
    dropped_minutes: Count = 0
    """Minutes before those."""
    conditions: Conditions = ()
    """Conditions: Accepted (the event can be carried out; else the reason with its watts), and Active (its limit is in
    force)."""


class PowerEvent(CustomResource):
    """A lower limit of a PowerDomain for a time."""

    info: ClassVar[Kind] = Kind(
        kind="PowerEvent",
        plural="powerevents",
        short_name="pevt",
        spec=PowerEventSpec,
        status=PowerEventStatus,
        columns=(
            Column("Domain", ".spec.domain"),
            Column("State", ".status.state"),
            Column("Limit", ".spec.limitWatts", "integer"),
            Column("Reduce-By", ".spec.reduceByPercent", "integer"),
            Column("Start", ".spec.start"),
            Column("End", ".spec.end"),
            Column("Target", ".status.targetWatts", "number"),
            Column("Drawn", ".status.drawnWatts", "number"),
            Column("Deliverable", ".status.deliverableWatts", "number"),
            Column("Binding", ".status.bindingEvent"),
        ),
        named_after_node=False,
    )

    spec: PowerEventSpec
    status: PowerEventStatus = PowerEventStatus()


def _seconds(moment: str) -> float:
    """Return a time that was checked, in seconds since the epoch."""
    seconds = epoch_seconds(moment)
    assert seconds is not None, "it was checked"
    return seconds
