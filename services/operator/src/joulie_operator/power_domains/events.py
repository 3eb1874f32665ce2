"""PowerEvents at each look of the controller of power domains: what they ask, what came of it, and what domains drew.

Guarantees that nothing is decided before the events of the cluster are known, so that a new leader frees no limit that
is in force; and that readings of drawn power are counted where they were read, and at no other look.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_api.apply import FencedWriter
from joulie_api.failures import Failures
from joulie_api.reflector import Reflector
from joulie_api.wire import Versioned
from joulie_core.budget import EventInputs
from joulie_core.budget.drawn_history import DrawnHistory, StoredDrawn
from joulie_core.budget.events import next_change_s
from joulie_core.kinds import PowerDomain, PowerEvent, PowerEventStatus
from joulie_core.kinds.power_domain import BudgetBasis, DrawnHistoryStatus
from joulie_core.kinds.power_event import DrawnQuality, EventState, PowerEventSpec
from joulie_core.names import NodeName
from joulie_core.timestamps import epoch_seconds, rfc3339
from joulie_operator.power_domains.decision import DomainDecision, DomainInputs, DomainOutcome
from joulie_operator.power_domains.event_metrics import EventFigures
from joulie_operator.power_domains.event_record import EventReading
from joulie_operator.power_domains.event_status import EventDomain, event_status
from joulie_operator.power_domains.event_tracker import EventTracker, FollowedEvent, domains_in_event
from joulie_operator.power_domains.event_writer import EventWriter
from joulie_operator.power_domains.inputs import DomainNode

_UNKNOWN: Final = EventReading(None, DrawnQuality.UNKNOWN)
_NO_DOMAIN: Final = EventDomain()

Domains = Mapping[str, Versioned[PowerDomain]]


@dataclass(frozen=True, slots=True)
class PowerEventParts:
    """Parts that are used; `unknown_reason` says why events are not known: None where they are, or have no kind."""

    events: Reflector[Versioned[PowerEvent]]
    unknown_reason: Callable[[], str | None]
    writer: FencedWriter
    failures: Failures


class PowerEvents:
    """The events of one operator; `figures` are those of the last look.

    `wake` is called where a spec has changed, and `renewed` where that is a renewal which changes no limit.
    """

    def __init__(self, parts: PowerEventParts) -> None:
        self.wake: Callable[[], None] = lambda: None
        self.renewed: Callable[[], None] = lambda: None
        self.figures: dict[str, EventFigures] = {}
        self._parts = parts
        self._tracker = EventTracker()
        self._writer = EventWriter(parts.writer, parts.failures)
        self._followed: list[FollowedEvent] = []
        #: By the name of the domain, with the basis of what was drawn.
        self._histories: dict[str, tuple[BudgetBasis, DrawnHistory]] = {}
        parts.events.subscribe(self._on_event)

    @property
    def unreadable(self) -> int:
        """Number of objects whose newest version cannot be read."""
        return len(self._parts.events.invalid)

    def unknown_reason(self) -> str | None:
        """Return why events are not known; None where nothing hinders a decision."""
        return self._parts.unknown_reason()

    def forget(self) -> None:
        """Show nothing: what was seen is not known to be so any more."""
        self.figures = {}

    def inputs(
        self, domains: Domains, nodes: Mapping[NodeName, DomainNode], now_s: float, clock_s: float
    ) -> EventInputs:
        """Return what events ask now, for a decision about these domains and nodes; times as for `EventTracker`."""
        self._load_histories(domains, now_s)
        specs = {name: each.model.spec for name, each in domains.items()}
        objects = dict(self._parts.events.store)
        histories = {name: history for name, (_, history) in self._histories.items()}
        self._followed = self._tracker.follow(objects, specs, histories, now_s, clock_s)
        performance = frozenset(name for name, each in nodes.items() if each.performance)
        return EventInputs(tuple(each.limit for each in self._followed), performance, now_s)

    def pause_s(self, now_s: float) -> float:
        """Return the seconds until a limit may change; infinite where none does."""
        moments = (next_change_s(each.limit, now_s) for each in self._followed)
        return min((each - now_s for each in moments if each is not None), default=math.inf)

    def take(self, inputs: DomainInputs, decision: DomainDecision, *, is_sample: bool) -> None:
        """Take what was decided, and where `is_sample` what was drawn; may run in a thread."""
        now_s = inputs.events.now_s
        readings = {name: _reading(each, inputs.nodes) for name, each in decision.outcomes.items()}
        if is_sample:
            self._remember(inputs, decision, readings)
        figures: dict[str, EventFigures] = {}
        for followed in self._followed:
            with self._parts.failures.contained("status of power event", event_name=followed.object.name):
                domain = _domain(followed, inputs, decision)
                drawn = readings.get(followed.spec.domain, _UNKNOWN)
                reading = EventReading(drawn.drawn, drawn.quality, domain.target_watts, followed.baseline_watts)
                followed.known.record.take(now_s, reading, followed.limit, is_sample=is_sample)
                status = event_status(followed, domain, reading, now_s)
                figures[followed.object.name] = EventFigures(followed.spec.domain, status)
        self.figures = figures

    async def publish(self, now_s: float, is_superseded: Callable[[], bool]) -> None:
        """Write the statuses that have changed; none while `is_superseded` says that limits have changed since.

        Raises:
            NotLeader: this process must not write any more.
        """
        invalid = self._parts.events.invalid
        found: list[tuple[Versioned[PowerEvent], PowerEventStatus]] = []
        for followed in self._followed:
            figures = self.figures.get(followed.object.name)
            if figures is not None and followed.object.name not in invalid:
                found.append((followed.object, figures.status))
        await self._writer.publish(found, now_s, is_superseded)

    def history(self, domain: str, now_s: float) -> DrawnHistoryStatus | None:
        """Return what is stored of a domain; None where nothing is known."""
        known = self._histories.get(domain)
        if known is None:
            return None
        basis, stored = known[0], known[1].stored(now_s)
        return DrawnHistoryStatus(
            until=rfc3339(stored.until_s, "seconds"),
            basis=basis,
            minutes=stored.minutes,
            quarter_hours=stored.quarters,
            event_days=stored.event_days,
        )

    def _load_histories(self, domains: Domains, now_s: float) -> None:
        bases = {name: each.model.spec.basis for name, each in domains.items()}
        self._histories = {name: each for name, each in self._histories.items() if bases.get(name) is each[0]}
        for name in bases.keys() - self._histories.keys():
            self._histories[name] = bases[name], _loaded(domains[name].model.status.history, bases[name], now_s)

    def _remember(self, inputs: DomainInputs, decision: DomainDecision, readings: Mapping[str, EventReading]) -> None:
        bound = {name for name, each in decision.outcomes.items() if each.event is not None and each.enforced}
        in_event = domains_in_event({name: spec.parent for name, spec in inputs.specs.items()}, bound)
        for name, (_, history) in self._histories.items():
            drawn = readings.get(name, _UNKNOWN).drawn
            history.add(inputs.events.now_s, drawn, in_event=name in in_event)

    def _on_event(self, name: str, old: Versioned[PowerEvent] | None, new: Versioned[PowerEvent] | None) -> None:
        if old is None or new is None:
            self.wake()
        elif old.model.spec != new.model.spec:
            shown = self.figures.get(name)
            is_lost = shown is not None and shown.status.state is EventState.SOURCE_LOST
            is_renewal = _without_renewal(old.model.spec) == _without_renewal(new.model.spec)
            (self.renewed if is_renewal and not is_lost else self.wake)()


def _without_renewal(spec: PowerEventSpec) -> PowerEventSpec:
    return spec.model_copy(update={"source_renewed": None})


def _loaded(stored: DrawnHistoryStatus | None, basis: BudgetBasis, now_s: float) -> DrawnHistory:
    until_s = None if stored is None else epoch_seconds(stored.until)
    if stored is None or until_s is None or stored.basis is not basis:
        return DrawnHistory()
    return DrawnHistory.load(StoredDrawn(until_s, stored.minutes, stored.quarter_hours, stored.event_days), now_s)


def _domain(followed: FollowedEvent, inputs: DomainInputs, decision: DomainDecision) -> EventDomain:
    name = followed.spec.domain
    if name not in inputs.specs:
        return _NO_DOMAIN
    return EventDomain(
        inputs.specs[name],
        decision.outcomes.get(name),
        decision.reach_mw.get(followed.object.name),
        inputs.events.performance,
    )


def _reading(outcome: DomainOutcome, nodes: Mapping[NodeName, DomainNode]) -> EventReading:
    """Return what the nodes of a domain draw; not known where that of one is not, or there is none."""
    if outcome.observed is None or not outcome.observed.nodes or outcome.unread:
        return _UNKNOWN
    drawn = [nodes[name].drawn_by(servers=outcome.counts_servers) for name in outcome.observed.nodes]
    known = [each.watts for each in drawn if each.watts is not None]
    if len(known) < len(drawn):
        return _UNKNOWN
    measured = all(each.measured for each in drawn)
    return EventReading(math.fsum(known), DrawnQuality.MEASURED if measured else DrawnQuality.MODELLED)
