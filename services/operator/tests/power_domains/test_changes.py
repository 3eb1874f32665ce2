"""Changes of a status that are worth a write, and when."""

import pytest

from joulie_core.kinds import PowerDomainStatus
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.changes import StatusChange, change_of, is_due

_NOW_S = 1_800_000_000.0
_ACCEPTED = {"type": "Accepted", "status": "True", "reason": "Valid"}
_BASE = {
    "observedGeneration": 3,
    "mode": "Observe",
    "nodes": 4,
    "unknownNodes": 0,
    "allocatedWatts": 900,
    "inForceWatts": 1_500,
    "drawn": {"measuredWatts": 600, "measuredNodes": 4},
    "guaranteedWatts": 300,
    "headroomWatts": 0,
    "shortfallWatts": 0,
    "limitedNodes": 4,
    "loweredNodes": 1,
    "lowered": [{"node": "n1", "wantedWatts": 300, "allocatedWatts": 250, "reason": "limit of a"}],
    "conditions": [_ACCEPTED],
}


def status(age_s=0.0, **fields):
    return PowerDomainStatus.model_validate(_BASE | {"lastUpdated": rfc3339(_NOW_S - age_s)} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"observedGeneration": 4},
        {"mode": None},
        {"nodes": 5},
        {"unknownNodes": 1},
        {"inForceWatts": None},
        {"drawn": {"unknownNodes": 4}},
        {"drawn": None},
        {"conditions": [_ACCEPTED | {"status": "False"}]},
        {"conditions": [_ACCEPTED | {"reason": "NoNodes"}]},
        {"conditions": [_ACCEPTED | {"message": "n2 is selected by a, b"}]},
        {"conditions": []},
    ],
    ids=str,
)
def test_a_state_that_has_changed_is_due_at_once(fields):
    assert change_of(status(), status(**fields), 1_000) is StatusChange.STATE
    assert is_due(status(), status(**fields), 1_000, _NOW_S)


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"allocatedWatts": 910}, StatusChange.NONE),
        ({"allocatedWatts": 911}, StatusChange.NUMBERS),
        ({"allocatedWatts": 889}, StatusChange.NUMBERS),
        ({"inForceWatts": 1_511}, StatusChange.NUMBERS),
        ({"guaranteedWatts": 311}, StatusChange.NUMBERS),
        ({"headroomWatts": 11}, StatusChange.NUMBERS),
        ({"shortfallWatts": 11}, StatusChange.NUMBERS),
        ({"drawn": {"measuredWatts": 611, "measuredNodes": 4}}, StatusChange.NUMBERS),
        ({"drawn": {"measuredWatts": 600, "measuredNodes": 3, "unknownNodes": 1}}, StatusChange.NUMBERS),
        ({"drawn": {"measuredWatts": 600, "measuredNodes": 4, "modelledNodes": 1}}, StatusChange.NUMBERS),
        ({"drawn": {"measuredWatts": 600, "measuredNodes": 4, "unknownNodes": 1}}, StatusChange.NUMBERS),
        ({"drawn": {"measuredWatts": 600, "measuredNodes": 5}}, StatusChange.NUMBERS),
        ({"limitedNodes": 3}, StatusChange.NUMBERS),
        ({"loweredNodes": 2}, StatusChange.NUMBERS),
        ({"lowered": [_BASE["lowered"][0] | {"node": "n2"}]}, StatusChange.NUMBERS),
        ({"lowered": [_BASE["lowered"][0] | {"wantedWatts": 301}]}, StatusChange.NONE),
        ({"conditions": [_ACCEPTED | {"lastTransitionTime": rfc3339(_NOW_S)}]}, StatusChange.NONE),
    ],
    ids=str,
)
def test_watts_count_from_one_percent_of_the_limit_on(fields, change):
    assert change_of(status(), status(**fields), 1_000) is change


@pytest.mark.parametrize(("age_s", "due"), [(59, False), (60, True)])
def test_numbers_are_due_once_a_minute(age_s, due):
    assert is_due(status(age_s), status(allocatedWatts=500), 1_000, _NOW_S) is due


@pytest.mark.parametrize(("age_s", "due"), [(0, False), (1, False), (299, False), (300, True), (-1, True)])
def test_what_has_not_changed_is_due_with_the_heartbeat(age_s, due):
    assert is_due(status(age_s), status(), 1_000, _NOW_S) is due


def test_modelled_watts_count_as_measured_ones_do():
    before = status(drawn={"modelledWatts": 600, "modelledNodes": 4})
    after = status(drawn={"modelledWatts": 611, "modelledNodes": 4})
    assert change_of(before, after, 1_000) is StatusChange.NUMBERS


_OVER = {"raised": False, "permittedWatts": 1_300, "fallbackWatts": 900, "breakerDamagePercent": 50.0, "reason": "warm"}


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"raised": True}, StatusChange.STATE),
        ({"fallbackWatts": None}, StatusChange.STATE),
        ({"permittedWatts": 1_311}, StatusChange.NUMBERS),
        ({"fallbackWatts": 911}, StatusChange.NUMBERS),
        ({"reason": "an event"}, StatusChange.NUMBERS),
        ({"breakerDamagePercent": 60.0}, StatusChange.NUMBERS),
        ({"breakerDamagePercent": 54.0}, StatusChange.NONE),
        ({"permittedWatts": 1_310}, StatusChange.NONE),
    ],
    ids=str,
)
def test_a_raise_is_due_at_once_and_what_it_is_made_of_once_a_minute(fields, change):
    before, after = (status(oversubscription=_OVER | each) for each in ({}, fields))
    assert change_of(before, after, 1_000) is change


@pytest.mark.parametrize(("watts", "change"), [(410, StatusChange.NONE), (411, StatusChange.NUMBERS)])
def test_the_rest_of_servers_counts_as_other_watts_do(watts, change):
    before, after = (status(rest={"watts": each, "modelledNodes": 4}) for each in (400, watts))
    assert change_of(before, after, 1_000) is change


def test_where_nothing_is_observed_nothing_changes():
    empty = {name: None for name in _BASE if name != "conditions"} | {"lowered": []}
    assert change_of(status(**empty), status(**empty), 1_000) is StatusChange.NONE


def test_a_status_without_a_time_is_due():
    assert is_due(PowerDomainStatus(), PowerDomainStatus(), 1_000, _NOW_S)
