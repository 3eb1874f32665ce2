"""Power events as they are shown and reported. An object that cannot be read is shown by its name."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire.metadata import WireConditions, WireObject
from joulie_cli.layout import harmless
from joulie_cli.views import Raw, decode_name
from joulie_core.timestamps import epoch_seconds, rfc3339

#: Minutes that are read, and those that a report has lines for: gaps between two of them count.
_MOST_MINUTES: Final = 1_500
_MOST_LINES: Final = 20_000
_MINUTE_S: Final = 60.0

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Watts = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class _Spec(msgspec.Struct, rename="camel"):
    domain: str
    limit_watts: _Watts | None = None
    reduce_by_percent: _Count | None = None
    baseline: str = "None"
    start: str | None = None
    end: str | None = None
    may_affect: tuple[str, ...] = ("standard", "performance")
    if_source_lost: str = "KeepUntilEnd"
    source_ref: str = ""


class MinuteView(msgspec.Struct, rename="camel"):
    """One minute; what was not known is None."""

    start: str
    baseline_watts: _Watts | None = None
    target_watts: _Watts | None = None
    drawn_watts: _Watts | None = None
    samples: _Count = 0
    quality: str = "unknown"


class _Affected(msgspec.Struct, rename="camel"):
    performance_nodes: _Count = 0
    standard_nodes: _Count = 0
    nodes: tuple[str, ...] = ()


class EventStatusView(WireConditions, rename="camel"):
    """The status of a PowerEvent."""

    last_updated: str | None = None
    first_seen: str | None = None
    state: str | None = None
    deliverable_watts: _Watts | None = None
    baseline_watts: _Watts | None = None
    target_watts: _Watts | None = None
    drawn_watts: _Watts | None = None
    binding_event: str | None = None
    seconds_to90_percent: float | None = msgspec.field(name="secondsTo90Percent", default=None)
    mean_error_while_held: float | None = None
    rebound_percent: float | None = None
    affected: _Affected | None = None
    minutes: Annotated[tuple[MinuteView, ...], msgspec.Meta(max_length=_MOST_MINUTES)] = ()
    dropped_minutes: _Count = 0


class _Event(WireObject):
    spec: _Spec
    status: EventStatusView | None = None


_EVENTS: Final = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class PowerEventView:
    """A PowerEvent; the spec is None, and the status empty, where its object cannot be read."""

    name: str
    spec: _Spec | None
    status: EventStatusView = field(default_factory=EventStatusView)

    @property
    def asked(self) -> str:
        """The limit that is asked for, as text."""
        if self.spec is None:
            return "unreadable"
        if self.spec.limit_watts is not None:
            return f"{self.spec.limit_watts:.0f} W"
        return f"-{self.spec.reduce_by_percent or 0} % of {self.spec.baseline}"

    def data(self) -> dict[str, Any]:
        """Return the event for JSON and YAML."""
        return {"name": self.name, "spec": self.spec, "status": self.status}


def decode_power_event(raw: Raw) -> PowerEventView:
    """Decode a PowerEvent.

    Raises:
        DecodeError: not even its name can be read.
    """
    try:
        wire = decode(_EVENTS.decode, raw, "PowerEvent")
    except DecodeError:
        return PowerEventView(decode_name(raw, "PowerEvent"), None)
    return PowerEventView(wire.metadata.name, wire.spec, wire.status or EventStatusView())


def with_gaps(minutes: tuple[MinuteView, ...]) -> list[MinuteView]:
    """Return the minutes in their order, and those between them that are missing as such of which nothing is known.

    Of a status that spans about two weeks or more only those that it has.
    """
    known = {int(start_s // _MINUTE_S): each for each in minutes if (start_s := epoch_seconds(each.start)) is not None}
    if not known:
        return []
    first, last = min(known), max(known)
    if last - first >= _MOST_LINES:
        return [known[number] for number in sorted(known)]
    return [known.get(number, MinuteView(rfc3339(number * _MINUTE_S, "seconds"))) for number in range(first, last + 1)]


def report_text(event: PowerEventView) -> str:
    """Return the report as CSV: lines that begin with `#`, names of columns, one line a minute; unknown is empty."""
    text = io.StringIO()
    for name, value in _head(event):
        text.write(f"# {name}: {harmless(str(value))}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("minute", "baseline_watts", "target_watts", "drawn_watts", "samples", "quality"))
    for each in with_gaps(event.status.minutes):
        figures = (each.baseline_watts, each.target_watts, each.drawn_watts)
        cells = ("" if value is None else f"{value:.1f}" for value in figures)
        writer.writerow((harmless(each.start), *cells, each.samples, harmless(each.quality)))
    return text.getvalue()


def _head(event: PowerEventView) -> Iterator[tuple[str, object]]:
    status, spec = event.status, event.spec
    yield "event", event.name
    if spec is not None:
        yield "domain", spec.domain
        yield "asked", event.asked
        yield "baseline method", spec.baseline
        yield "start", spec.start or status.first_seen or ""
        yield "end", spec.end or "standing"
        yield "source", spec.source_ref
    yield "state", status.state or "unknown"
    yield "minutes dropped", status.dropped_minutes
    yield "seconds to 90 percent", _known(status.seconds_to90_percent)
    yield "mean error while held percent", _known(status.mean_error_while_held)
    yield "rebound percent", _known(status.rebound_percent)
    yield "watts", "CPU packages and GPUs, means of the minute; an empty field is not known"


def _known(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:g}"
