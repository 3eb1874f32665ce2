"""PowerEvents as the VEN writes them, and which it takes for its own."""

import json
import re
from dataclasses import replace

import pytest
from services.ven.tests.limits import LIMIT, NOW_S, SETTINGS

from joulie_api.wire import decode_kind
from joulie_core.kinds import PowerEvent
from joulie_core.kinds.power_event import EventBaseline, SourceLoss
from joulie_core.timestamps import rfc3339
from joulie_ven.limits import DomainLimit, LimitKind
from joulie_ven.objects import OwnEvent, difference, metadata_of, name_of, read_own, spec_of
from joulie_ven.times import FOREVER

SUBSCRIPTION = LimitKind.SUBSCRIPTION
RENEWED = rfc3339(NOW_S, "seconds")


def stored(limit=LIMIT, *, notes=None, settings=SETTINGS, **spec):
    """The PowerEvent of a limit as it is stored; notes and fields of None are absent."""
    metadata = metadata_of(limit)
    metadata["annotations"] |= notes or {}
    metadata["annotations"] = {key: each for key, each in metadata["annotations"].items() if each is not None}
    fields = spec_of(limit, settings, RENEWED).dump() | spec
    raw = {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "PowerEvent",
        "metadata": {"name": "openadr-1", "resourceVersion": "5", "uid": "u"} | metadata,
        "spec": {key: each for key, each in fields.items() if each is not None},
    }
    return decode_kind(PowerEvent)(json.dumps(raw).encode())


def own_of(*given, **fields):
    return read_own(stored(*given, **fields))


# --- names ------------------------------------------------------------------------------------------------------------


def test_the_name_is_a_digest_that_no_release_changes():
    assert name_of(LIMIT) == "openadr-1ddf615688ab4c2a46ae"
    assert re.fullmatch(r"openadr-[0-9a-f]{20}", name_of(LIMIT))


@pytest.mark.parametrize("fields", [{"event_id": "e1"}, {"index": 1}, {"kind": LimitKind.SIMPLE}], ids=str)
def test_each_limit_has_a_name_of_its_own(fields):
    assert name_of(replace(LIMIT, **fields)) != name_of(LIMIT)


def test_a_limit_whose_times_change_keeps_its_name_but_for_the_parts_of_a_subscription():
    moved = {"start_s": LIMIT.start_s + 1, "end_s": LIMIT.end_s + 1, "interval_id": 9, "watts": 1}
    assert name_of(replace(LIMIT, **moved)) == name_of(LIMIT)
    part = replace(LIMIT, kind=SUBSCRIPTION)
    assert name_of(replace(part, start_s=part.start_s + 1)) != name_of(part)
    assert name_of(replace(part, start_s=part.start_s + 0.5, end_s=FOREVER)) == name_of(part)


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_limit_of_a_schedule_is_written_as_the_settings_say():
    settings = SETTINGS.model_copy(
        update={
            "baseline": EventBaseline.LAST_HOUR, "if_source_lost": SourceLoss.LIMIT, "source_lost_limit_watts": 9_000,
            "source_timeout": 240.9, "may_affect": SETTINGS.may_affect[:1],
        }
    )  # fmt: skip
    limit = replace(LIMIT, start_s=NOW_S + 0.9, end_s=NOW_S + 60.1)
    assert spec_of(limit, settings, RENEWED).dump() == {
        "domain": "site",
        "limitWatts": 400_000,
        "baseline": "LastHour",
        "start": RENEWED,
        "end": rfc3339(NOW_S + 61, "seconds"),
        "standing": False,
        "rampDownSeconds": 0,
        "rampUpSeconds": 0,
        "priority": 7,
        "mayAffect": ["standard"],
        "ifSourceLost": "Limit",
        "sourceTimeoutSeconds": 240,
        "sourceLostLimitWatts": 9_000,
        "sourceRenewed": RENEWED,
        "sourceRef": "e0/3",
    }


def test_a_subscribed_capacity_stays_until_its_end_whatever_the_settings_say():
    settings = SETTINGS.model_copy(update={"if_source_lost": SourceLoss.LIMIT, "source_lost_limit_watts": 9_000})
    found = spec_of(replace(LIMIT, kind=SUBSCRIPTION, end_s=FOREVER), settings, RENEWED)
    assert (found.if_source_lost, found.source_lost_limit_watts) == (SourceLoss.KEEP_UNTIL_END, None)
    assert (found.standing, found.end) == (True, None)


def test_labels_and_annotations_say_what_it_is_of():
    assert metadata_of(LIMIT) == {
        "labels": {"app.kubernetes.io/managed-by": "joulie-ven"},
        "annotations": {
            "joulie.io/openadr-event": "e0",
            "joulie.io/openadr-interval": "3",
            "joulie.io/openadr-payload": "IMPORT_CAPACITY_LIMIT",
            "joulie.io/openadr-seen": rfc3339(NOW_S - 60, "seconds"),
        },
    }


# --- what is read -----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_as_it_was():
    found = stored()
    own = read_own(found)
    assert own == OwnEvent(found, "e0", 3, LimitKind.CAPACITY_LIMIT, LIMIT.seen_s, LIMIT.start_s, LIMIT.end_s)
    assert own.name == "openadr-1"
    assert own.as_past() == DomainLimit(
        "e0", 0, 0, LimitKind.CAPACITY_LIMIT, LIMIT.start_s, LIMIT.end_s, 0, 0, LIMIT.seen_s
    )
    assert own_of(replace(LIMIT, kind=SUBSCRIPTION, end_s=FOREVER)).end_s == FOREVER
    assert own_of(replace(LIMIT, interval_id=-(2**31))).interval_id == -(2**31)


@pytest.mark.parametrize(
    "fields",
    [
        {"notes": {"joulie.io/openadr-seen": None}},
        {"notes": {"joulie.io/openadr-seen": "yesterday"}},
        {"notes": {"joulie.io/openadr-payload": None}},
        {"notes": {"joulie.io/openadr-payload": "PRICE"}},
        {"notes": {"joulie.io/openadr-event": None}},
        {"notes": {"joulie.io/openadr-event": ""}},
        {"start": None},
    ],
    ids=str,
)
def test_a_power_event_without_what_this_ven_writes_is_not_its_own(fields):
    assert own_of(**fields) is None


@pytest.mark.parametrize("interval", [None, "", "x", "1.5", "1" * 11, "\u0663"])
def test_an_interval_that_is_no_number_is_not_known_and_is_written_again(interval):
    own = own_of(notes={"joulie.io/openadr-interval": interval})
    assert own.interval_id is None
    wanted = metadata_of(LIMIT)
    patch = difference(own, spec_of(LIMIT, SETTINGS, RENEWED), wanted)
    assert patch == {"metadata": {"annotations": wanted["annotations"]}}


# --- differences ------------------------------------------------------------------------------------------------------


def changed(limit=LIMIT, *, own=None, settings=SETTINGS, renewed=RENEWED):
    return difference(own or own_of(), spec_of(limit, settings, renewed), metadata_of(limit))


def test_nothing_is_changed_where_only_the_renewal_differs():
    assert changed(renewed=rfc3339(NOW_S + 60, "seconds")) == {}
    assert changed(own=own_of(sourceRenewed=None)) == {}


def test_only_what_differs_is_changed_and_what_is_too_much_is_removed():
    lost = SETTINGS.model_copy(update={"if_source_lost": SourceLoss.LIMIT, "source_lost_limit_watts": 9_000})
    assert changed(replace(LIMIT, watts=1)) == {"spec": {"limitWatts": 1}}
    assert changed(settings=lost) == {"spec": {"ifSourceLost": "Limit", "sourceLostLimitWatts": 9_000}}
    assert changed(own=own_of(settings=lost)) == {
        "spec": {"ifSourceLost": "KeepUntilEnd", "sourceLostLimitWatts": None}
    }
    later = replace(LIMIT, seen_s=NOW_S)
    assert changed(later) == {"metadata": {"annotations": metadata_of(later)["annotations"]}}
    both = replace(later, watts=1)
    assert changed(both).keys() == {"spec", "metadata"}


def test_annotations_of_others_stay():
    assert changed(own=own_of(notes={"someone/else": "x"})) == {}
