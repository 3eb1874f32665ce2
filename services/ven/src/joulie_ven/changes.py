"""Writes that make the PowerEvents of this VEN those that the VTN wants. No I/O.

Order: creations, then changes, then deletions, so that at no moment there is less of a limit than before and after.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joulie_core.timestamps import age_seconds, rfc3339
from joulie_ven.limits import DomainLimit
from joulie_ven.objects import OwnEvent, difference, metadata_of, name_of, spec_of
from joulie_ven.settings import VenSettings

#: How long an ended PowerEvent is kept, with its figures.
KEPT_S: Final = 7 * 86_400.0
#: Renewals in the time after which the source counts as lost.
_RENEWALS: Final = 3


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes by the name of the PowerEvent."""

    create: Mapping[str, Mapping[str, Any]]
    patch: Mapping[str, Mapping[str, Any]]
    """With the resourceVersion that was read."""
    delete: Mapping[str, str]
    """The resourceVersion that was read."""


def changes(
    limits: Iterable[DomainLimit],
    own: Iterable[OwnEvent],
    *,
    listed: frozenset[str],
    decided: frozenset[str],
    settings: VenSettings,
    now_s: float,
) -> Changes:
    """Return the writes.

    Args:
        limits: what the VTN wants.
        own: the PowerEvents of this VEN.
        listed: ids of the events that the VTN has. Their ended PowerEvents are kept, since they say when an event that
            starts now was first read.
        decided: ids of the events that were read and understood, and of those that the VTN has no more. What belongs to
            another event stays as it is.
        settings: what the PowerEvents have in common.
        now_s: seconds since the epoch.
    """
    wanted = {name_of(each): each for each in limits}
    present = {each.name: each for each in own}
    renewed = rfc3339(now_s, "seconds")
    create = {
        name: {"metadata": metadata_of(limit), "spec": spec_of(limit, settings, renewed).dump()}
        for name, limit in wanted.items()
        if name not in present
    }
    patch, delete = {}, {}
    for name, each in present.items():
        limit = wanted.get(name)
        if limit is None and _is_over(each, listed, decided, now_s):
            delete[name] = each.found.metadata.resource_version
        elif change := _change(each, limit, settings, now_s, renewed):
            patch[name] = change
    return Changes(create, patch, delete)


def _is_over(own: OwnEvent, listed: frozenset[str], decided: frozenset[str], now_s: float) -> bool:
    if own.end_s > now_s:
        return own.event_id in decided
    return own.event_id not in listed and now_s - own.end_s > KEPT_S


def _change(
    own: OwnEvent, limit: DomainLimit | None, settings: VenSettings, now_s: float, renewed: str
) -> dict[str, Any]:
    """Return the patch, empty where there is nothing to change and no renewal is due."""
    found = {} if limit is None else difference(own, spec_of(limit, settings, renewed), metadata_of(limit))
    age_s = age_seconds(own.found.model.spec.source_renewed, now_s)
    due = own.end_s > now_s and not 0 <= age_s < settings.source_timeout / _RENEWALS
    if not found and not due:
        return {}
    found["spec"] = found.get("spec", {}) | {"sourceRenewed": renewed}
    found["metadata"] = found.get("metadata", {}) | {"resourceVersion": own.found.metadata.resource_version}
    return found
