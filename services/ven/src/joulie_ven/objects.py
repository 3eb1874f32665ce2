"""PowerEvents as this VEN writes and recognizes them. No I/O."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joulie_api.wire import Versioned
from joulie_core.kinds import PowerEvent
from joulie_core.kinds.power_event import PowerEventSpec, SourceLoss
from joulie_core.timestamps import epoch_seconds, rfc3339
from joulie_ven.limits import LIMIT_KINDS, DomainLimit, LimitKind
from joulie_ven.settings import VenSettings
from joulie_ven.times import FOREVER
from joulie_ven.wire import is_object_id

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "joulie-ven"
EVENT: Final = "joulie.io/openadr-event"
INTERVAL: Final = "joulie.io/openadr-interval"
PAYLOAD: Final = "joulie.io/openadr-payload"
SEEN: Final = "joulie.io/openadr-seen"
_DIGITS: Final = 20
_INTERVAL_ID: Final = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class OwnEvent:
    """A PowerEvent of this VEN, as read."""

    found: Versioned[PowerEvent]
    event_id: str
    interval_id: int | None
    """None where the annotation is no number, since it was changed by others."""
    kind: LimitKind
    seen_s: float
    start_s: float
    end_s: float

    @property
    def name(self) -> str:
        """Name of the PowerEvent."""
        return self.found.name

    def as_past(self) -> DomainLimit:
        """Return it as a limit, of which only the times and the kind count."""
        return DomainLimit(self.event_id, 0, 0, self.kind, self.start_s, self.end_s, 0, 0, self.seen_s)


def read_own(found: Versioned[PowerEvent]) -> OwnEvent | None:
    """Return the PowerEvent as this VEN's; None where it has not what this VEN writes, although it has the label."""
    notes, spec = found.metadata.annotations, found.model.spec
    seen_s, start_s = epoch_seconds(notes.get(SEEN)), epoch_seconds(spec.start)
    end_s = FOREVER if spec.end is None else epoch_seconds(spec.end)
    if (
        seen_s is None
        or start_s is None
        or end_s is None
        or notes.get(PAYLOAD) not in LIMIT_KINDS
        or not is_object_id(notes.get(EVENT, ""))
    ):
        return None
    kind = LimitKind(notes[PAYLOAD])
    interval = notes.get(INTERVAL, "")
    interval_id = int(interval) if _INTERVAL_ID.fullmatch(interval) else None
    return OwnEvent(found, notes[EVENT], interval_id, kind, seen_s, start_s, end_s)


def name_of(limit: DomainLimit) -> str:
    """Return the name of the PowerEvent: the same for an interval whose times change, of a subscription for each part.

    A digest, since ids of OpenADR may have characters and lengths that names of Kubernetes may not.
    """
    part = int(limit.start_s) if limit.kind is LimitKind.SUBSCRIPTION else ""
    text = f"{limit.event_id}/{limit.index}/{limit.kind}/{part}"
    return f"openadr-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


def spec_of(limit: DomainLimit, settings: VenSettings, renewed: str) -> PowerEventSpec:
    """Return the spec; times are whole seconds that contain those of the limit."""
    keeps = limit.kind is LimitKind.SUBSCRIPTION
    return PowerEventSpec(
        domain=settings.power_domain,
        limit_watts=limit.watts,
        baseline=settings.baseline,
        start=rfc3339(math.floor(limit.start_s), "seconds"),
        end=None if limit.end_s == FOREVER else rfc3339(math.ceil(limit.end_s), "seconds"),
        standing=limit.end_s == FOREVER,
        priority=limit.priority,
        may_affect=settings.may_affect,
        if_source_lost=SourceLoss.KEEP_UNTIL_END if keeps else settings.if_source_lost,
        source_timeout_seconds=int(settings.source_timeout),
        source_lost_limit_watts=None if keeps else settings.source_lost_limit_watts,
        source_renewed=renewed,
        source_ref=f"{limit.event_id}/{limit.interval_id}",
    )


def metadata_of(limit: DomainLimit) -> dict[str, Any]:
    """Return labels and annotations."""
    return {
        "labels": {MANAGED_BY: MANAGER},
        "annotations": {
            EVENT: limit.event_id,
            INTERVAL: str(limit.interval_id),
            PAYLOAD: limit.kind.value,
            SEEN: rfc3339(limit.seen_s, "seconds"),
        },
    }


def difference(own: OwnEvent, wanted: PowerEventSpec, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a merge patch has to change, apart from the renewal; empty where nothing differs."""
    live, fields = own.found.model.spec.dump(), wanted.dump()
    live.pop("sourceRenewed", None)
    fields.pop("sourceRenewed", None)
    changed = {key: value for key, value in fields.items() if live.get(key) != value}
    removed = {key: None for key in live if key not in fields}
    notes = metadata["annotations"]
    patch: dict[str, Any] = {"spec": changed | removed} if changed or removed else {}
    if any(own.found.metadata.annotations.get(key) != value for key, value in notes.items()):
        patch["metadata"] = {"annotations": notes}
    return patch
