"""Power limits and readings of resources, and the PATCH that changes one."""

import pytest

from joulie_core.kinds.node_bmc import LimitException, PowerLimitUnit
from joulie_outofband.bmc import PowerLimit
from joulie_outofband.redfish.limits import (
    ControlLimit,
    EnvironmentLimit,
    PowerControlLimit,
    limit_exception,
    number,
    part,
    power_controls,
    text,
)

POWER, ENVIRONMENT, CONTROL = PowerControlLimit("/p"), EnvironmentLimit("/e"), ControlLimit("/c")


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (344, 344.0), (0.5, 0.5), (10**9, 1e9)])
def test_a_number_is_a_number(value, expected):
    assert (number(value), type(number(value))) == (expected, float)


@pytest.mark.parametrize(
    "value", [True, False, None, "3", [3], -1, 10**9 + 1, int("9" * 400), float("inf"), float("nan")]
)
def test_anything_else_is_unknown(value):
    assert number(value) is None


def test_a_part_is_an_object_and_a_text_a_string():
    assert part({"a": {"b": 1}}, "a") == {"b": 1}
    assert [part(each, "a") for each in ({"a": [1]}, {}, [], None)] == [{}] * 4
    assert (text("x"), text(3), text(None)) == ("x", "", "")


@pytest.mark.parametrize("found", [None, {}, "x", []])
def test_without_power_controls_there_is_no_limit(found):
    body = {"PowerControl": found}
    assert (power_controls(body), POWER.read(body), limit_exception(body)) == ([], None, None)


def test_power_controls_that_are_no_objects_are_left_out():
    assert power_controls({"PowerControl": [1, {"a": 1}]}) == [{"a": 1}]


@pytest.mark.parametrize(
    ("element", "limit"),
    [
        ({"PowerLimit": {"LimitInWatts": 500}, "PowerCapacityWatts": 800}, PowerLimit(500.0, max_watts=800.0)),
        ({"PowerLimit": {"LimitInWatts": None}}, PowerLimit(None)),
        ({"PowerLimit": {"LimitInWatts": 0}, "PowerCapacityWatts": 0}, PowerLimit(None)),
        ({"PowerLimit": {}}, None),
        ({}, None),
    ],
)
def test_the_limit_of_the_first_power_control_is_that_of_the_server(element, limit):
    assert POWER.read({"PowerControl": [element, {"PowerLimit": {"LimitInWatts": 7}}]}) == limit


def test_the_patch_of_a_power_control_leaves_the_others_as_they_are():
    body = {"PowerControl": [{}, {"a": 1}, {"b": 2}]}
    assert POWER.change(body, 300.9) == {"PowerControl": [{"PowerLimit": {"LimitInWatts": 300}}, {}, {}]}
    assert POWER.change({"PowerControl": [{}]}, None) == {"PowerControl": [{"PowerLimit": {"LimitInWatts": None}}]}


@pytest.mark.parametrize(
    ("value", "exception"),
    [
        ("NoAction", LimitException.NO_ACTION),
        ("HardPowerOff", LimitException.HARD_POWER_OFF),
        ("LogEventOnly", LimitException.LOG_EVENT_ONLY),
        ("Oem", LimitException.OTHER),
        (["x"], LimitException.OTHER),
        ({}, LimitException.OTHER),
        (None, None),
    ],
)
def test_an_exception_that_is_not_known_is_not_taken_for_a_harmless_one(value, exception):
    first = {"PowerLimit": {"LimitException": value}}
    assert limit_exception({"PowerControl": [first, {"PowerLimit": {"LimitException": "NoAction"}}]}) is exception


@pytest.mark.parametrize(
    ("stanza", "limit"),
    [
        (
            {"SetPoint": 500, "AllowableMin": 150, "AllowableMax": 1000},
            PowerLimit(500.0, PowerLimitUnit.WATTS, 150.0, 1000.0),
        ),
        ({"SetPoint": 500, "ControlMode": "Disabled"}, PowerLimit(None)),
        (
            {"SetPoint": 0, "ControlMode": "Automatic", "AllowableMin": 0, "AllowableMax": 0},
            PowerLimit(None, min_watts=0.0),
        ),
        ({"SettingRangeMin": 10, "SettingRangeMax": 20}, PowerLimit(None, PowerLimitUnit.WATTS, 10.0, 20.0)),
    ],
)
def test_a_set_point_is_the_limit_unless_it_is_disabled(stanza, limit):
    assert ENVIRONMENT.read({"PowerLimitWatts": stanza}) == limit
    assert CONTROL.read({"ControlType": "Power", "SetPointUnits": "W", **stanza}) == limit


def test_a_resource_without_a_set_point_has_no_limit():
    assert ENVIRONMENT.read({"PowerWatts": {"Reading": 3}}) is None
    assert CONTROL.read({"ControlType": "Temperature", "SetPoint": 3}) is None


@pytest.mark.parametrize(
    ("units", "unit"), [("%", PowerLimitUnit.PERCENT), ("kW", PowerLimitUnit.OTHER), (["W"], PowerLimitUnit.OTHER)]
)
def test_a_limit_in_another_unit_has_no_watts(units, unit):
    body = {"ControlType": "Power", "SetPointUnits": units, "SetPoint": 50, "AllowableMax": 100}
    assert CONTROL.read(body) == PowerLimit(None, unit)


@pytest.mark.parametrize(
    ("modes", "mode"),
    [
        (None, "Automatic"),
        (["Automatic", "Manual", "Disabled"], "Automatic"),
        (["Manual", "Disabled"], "Manual"),
        (["Override", "Disabled"], "Automatic"),
        ("Manual", "Automatic"),
    ],
)
def test_the_patch_of_a_set_point_has_a_mode_that_the_bmc_takes(modes, mode):
    stanza = {} if modes is None else {"ControlMode@Redfish.AllowableValues": modes}
    assert CONTROL.change(stanza, 300.9) == {"SetPoint": 300, "ControlMode": mode}
    assert ENVIRONMENT.change({"PowerLimitWatts": stanza}, 300) == {
        "PowerLimitWatts": {"SetPoint": 300, "ControlMode": mode}
    }
    assert CONTROL.change(stanza, None) == {"ControlMode": "Disabled"}
