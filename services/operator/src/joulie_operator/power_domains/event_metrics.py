"""The series of power events, exported by the leader: by event, of a limited number of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import gauge
from joulie_core.kinds import ConditionStatus, PowerEventStatus
from joulie_core.kinds.power_event import EventState

#: Events that have series: those that have not ended first, then by name; all of them are counted.
MOST_SERIES: Final = 100

_Figure = Callable[[PowerEventStatus], float | None]


@dataclass(frozen=True, slots=True)
class EventFigures:
    """An event as seen last."""

    domain: str
    status: PowerEventStatus

    def is_true(self, condition: str) -> bool:
        """Return whether a condition is True."""
        return any(each.type == condition and each.status is ConditionStatus.TRUE for each in self.status.conditions)


_SERIES: Final[tuple[tuple[str, str, _Figure], ...]] = (
    (
        "target_watts",
        "Power that the nodes of the domain may draw while the PowerEvent is active, in watts.",
        lambda status: status.target_watts,
    ),
    (
        "drawn_watts",
        "Power that the nodes of the domain of a PowerEvent draw, in watts; no sample where that of one is not known.",
        lambda status: status.drawn_watts,
    ),
    (
        "baseline_watts",
        "Baseline of a PowerEvent, in watts; no sample without one.",
        lambda status: status.baseline_watts,
    ),
    (
        "deliverable_watts",
        "Lowest power that a PowerEvent can bring its domain down to, in watts; no sample where that is not known.",
        lambda status: status.deliverable_watts,
    ),
)


def event_families(events: Mapping[str, EventFigures], unreadable: int) -> Iterable[Metric]:
    """Return the series of the events.

    Args:
        events: by name.
        unreadable: number of those whose newest version cannot be read.
    """
    counts = Counter(each.status.state for each in events.values())
    yield gauge(
        "joulie_operator_power_events",
        "PowerEvents by their state.",
        ("state",),
        (((state.value,), counts[state]) for state in EventState),
    )
    yield gauge(
        "joulie_operator_power_events_unreadable",
        "PowerEvents whose newest version cannot be read: each counts as it was before, or not at all.",
        (),
        (((), unreadable),),
    )
    ordered = sorted(events, key=lambda name: (events[name].status.state is EventState.ENDED, name))
    shown = [(name, events[name]) for name in ordered[:MOST_SERIES]]
    labels = ("event", "domain")
    for figure, text, value in _SERIES:
        yield gauge(
            f"joulie_operator_power_event_{figure}",
            text,
            labels,
            (((name, each.domain), value(each.status)) for name, each in shown),
        )
    for condition, text in (
        ("accepted", "1 for a PowerEvent that can be carried out as it is asked for, else 0; none after its end."),
        ("active", "1 for a PowerEvent whose limit, or a lower one, is in force, else 0; none after its end."),
    ):
        yield gauge(
            f"joulie_operator_power_event_{condition}",
            text,
            labels,
            (
                ((name, each.domain), each.is_true(condition.title()))
                for name, each in shown
                if each.status.state is not EventState.ENDED
            ),
        )
