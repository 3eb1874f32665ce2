"""The annotation of a NodeBMC whose server Joulie has switched off."""

import json

import pytest
from services.operator.tests.sleep.sleep_objects import REQUESTED, SWITCHED_OFF

from joulie_core.kinds.node_bmc import MOST_OF_BOOT_ID
from joulie_core.sleep import Shutdown
from joulie_operator.sleep.records import mark_text, marked_shutdown

AT_S, AT = 1_800_000_000.0, "2027-01-15T08:00:00Z"


def test_a_mark_says_in_whole_seconds_when_and_which_boot_was_switched_off():
    text = mark_text(AT_S + 0.25, "first")
    assert json.loads(text) == {"at": AT, "bootID": "first"}
    assert marked_shutdown({SWITCHED_OFF: text}) == Shutdown(AT_S, "first")


@pytest.mark.parametrize("requested", ["Off", "On", None])
def test_a_mark_counts_whatever_is_requested_now(requested):
    annotations = {SWITCHED_OFF: mark_text(AT_S, "first")} | ({} if requested is None else {REQUESTED: requested})
    assert marked_shutdown(annotations) == Shutdown(AT_S, "first")


def test_a_mark_without_a_boot_is_of_an_unknown_one():
    assert marked_shutdown({SWITCHED_OFF: json.dumps({"at": AT})}) == Shutdown(AT_S, "")


def test_a_mark_of_a_later_version_is_read_by_what_is_known_of_it():
    text = json.dumps({"at": AT, "bootID": "first", "by": "ada"})
    assert marked_shutdown({SWITCHED_OFF: text}) == Shutdown(AT_S, "first")


def test_a_mark_with_a_time_that_is_none_is_of_an_unknown_time():
    assert marked_shutdown({SWITCHED_OFF: json.dumps({"at": "now", "bootID": "first"})}) == Shutdown(None, "first")


@pytest.mark.parametrize("text", ["", "yes", "{}", '{"at":1}', f'{{"at":"{AT}","bootID":1}}'])
@pytest.mark.parametrize("requested", ["Off", "On"])
def test_a_mark_that_cannot_be_read_is_one_of_an_unknown_time_and_boot(text, requested):
    assert marked_shutdown({SWITCHED_OFF: text, REQUESTED: requested}) == Shutdown(None)


@pytest.mark.parametrize(("more", "expected"), [(0, Shutdown(AT_S, "a" * MOST_OF_BOOT_ID)), (1, Shutdown(None))])
def test_a_boot_has_no_longer_an_id_than_a_kubelet_reports(more, expected):
    text = json.dumps({"at": AT, "bootID": "a" * (MOST_OF_BOOT_ID + more)})
    assert marked_shutdown({SWITCHED_OFF: text}) == expected


@pytest.mark.parametrize(("requested", "expected"), [("Off", Shutdown(None)), ("On", None), (None, None)])
def test_a_power_off_of_an_earlier_version_without_a_mark_counts(requested, expected):
    assert marked_shutdown({} if requested is None else {REQUESTED: requested}) == expected
