"""Views of Kubernetes Events, and their order."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from joulie_api.wire.metadata import WireObject
from joulie_cli.views import make_decoder
from joulie_core.timestamps import epoch_seconds


class _Involved(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Series(msgspec.Struct, rename="camel"):
    count: int | None = None
    last_observed_time: str | None = None


class _Event(WireObject, rename="camel"):
    involved_object: _Involved | None = None
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    reporting_component: str = ""


@dataclass(frozen=True, slots=True)
class EventView:
    """One Event; `at_s` is when it was last seen, in seconds since the epoch, None where that is unknown."""

    name: str
    namespace: str
    kind: str
    object_name: str
    type: str
    reason: str
    message: str
    count: int
    component: str
    at_s: float | None

    @property
    def about(self) -> str:
        """The object, as `node/NAME`."""
        return f"{self.kind.lower()}/{self.object_name}"

    def data(self) -> dict[str, Any]:
        """Return the Event for JSON and YAML."""
        return {
            "lastSeen": self.at_s,
            "type": self.type,
            "reason": self.reason,
            "object": {"kind": self.kind, "namespace": self.namespace, "name": self.object_name},
            "message": self.message,
            "count": self.count,
            "component": self.component,
        }


def _event(wire: _Event) -> EventView:
    about, series = wire.involved_object or _Involved(), wire.series or _Series()
    times = (series.last_observed_time, wire.last_timestamp, wire.event_time, wire.first_timestamp)
    known = [at_s for text in (*times, wire.metadata.creation_timestamp) if (at_s := epoch_seconds(text)) is not None]
    return EventView(
        name=wire.metadata.name,
        namespace=wire.metadata.namespace,
        kind=about.kind,
        object_name=about.name,
        type=wire.type,
        reason=wire.reason,
        message=wire.message,
        count=series.count or wire.count or 1,
        component=wire.reporting_component,
        at_s=known[0] if known else None,
    )


decode_event: Final = make_decoder(_Event, "Event", _event)


def newest_last(events: Iterable[EventView]) -> list[EventView]:
    """Return events in the order in which they were last seen; those without a time come first."""
    return sorted(events, key=lambda event: (event.at_s or 0.0, event.name))
