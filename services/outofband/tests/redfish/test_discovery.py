"""What is found by links, and in which sequence of places."""

import pytest
from services.outofband.tests.redfish.tree import (
    CHASSIS,
    CONTROL,
    CONTROLS,
    ENVIRONMENT,
    POWER,
    RESET,
    ROOT,
    SENSOR,
    SYSTEM,
    Tree,
    link,
    members,
    plain,
)

from joulie_core.kinds.node_bmc import LimitException
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.discovery import BmcLayout, discover, reading_watts
from joulie_outofband.redfish.limits import ControlLimit, EnvironmentLimit, PowerControlLimit


async def test_a_server_with_power_has_its_reading_its_limit_and_its_resets():
    tree = Tree(plain())
    assert await discover(tree, None) == BmcLayout(
        system=SYSTEM,
        reset=RESET,
        reset_types=("On", "ForceOff"),
        reading=POWER,
        interval_s=120.0,
        limit=PowerControlLimit(POWER),
        exception=LimitException.LOG_EVENT_ONLY,
    )
    assert tree.asked == [("GET", each) for each in (f"{ROOT}/Systems", SYSTEM, CHASSIS, POWER)]


async def test_a_system_that_is_named_is_not_searched_for():
    tree = Tree(plain())
    assert (await discover(tree, SYSTEM)).system == SYSTEM
    assert ("GET", f"{ROOT}/Systems") not in tree.asked


@pytest.mark.parametrize("count", [0, 2])
async def test_one_of_several_systems_has_to_be_named(count):
    resources = plain() | {f"{ROOT}/Systems": members(*[f"{ROOT}/Systems/{each}" for each in range(count)])}
    with pytest.raises(BmcError, match=f"^{count} systems; spec.system must name one") as caught:
        await discover(Tree(resources), None)
    assert caught.value.reason is BmcReason.MALFORMED


def environment(**fields):
    resources = plain()
    resources[CHASSIS]["EnvironmentMetrics"] = link(ENVIRONMENT)
    return resources | {ENVIRONMENT: fields}


async def test_environment_metrics_come_before_power_and_the_exception_is_that_of_power():
    watts = {"Reading": 374, "DataSourceUri": SENSOR}
    resources = environment(PowerWatts=watts, PowerLimitWatts={"SetPoint": 500}) | {SENSOR: {"SensingInterval": "PT5S"}}
    layout = await discover(Tree(resources), None)
    assert (layout.reading, layout.interval_s, layout.limit) == (ENVIRONMENT, 5.0, EnvironmentLimit(ENVIRONMENT))
    assert layout.exception is LimitException.LOG_EVENT_ONLY


@pytest.mark.parametrize("source", [None, SENSOR, 3])
async def test_a_reading_without_a_sensor_has_no_interval(source):
    layout = await discover(Tree(environment(PowerWatts={"Reading": 374, "DataSourceUri": source})), None)
    assert (layout.reading, layout.interval_s, layout.limit) == (ENVIRONMENT, None, PowerControlLimit(POWER))


async def test_a_control_comes_before_power():
    resources = plain() | {CONTROLS: members(f"{CONTROL}/0", CONTROL), f"{CONTROL}/0": {}}
    resources[CHASSIS]["Controls"] = link(CONTROLS)
    resources[CONTROL] = {"ControlType": "Power", "SetPointUnits": "W"}
    assert (await discover(Tree(resources), None)).limit == ControlLimit(CONTROL)


async def test_the_chassis_are_searched_where_the_system_names_none_and_the_first_that_has_something_counts():
    other = f"{ROOT}/Chassis/0"
    resources = plain() | {f"{ROOT}/Chassis": members(other, CHASSIS, f"{other}/2"), other: {}}
    resources[f"{other}/2"] = {"Power": link(f"{other}/2/Power")}
    resources[f"{other}/2/Power"] = {"PowerControl": [{"PowerConsumedWatts": 7, "PowerLimit": {"LimitInWatts": 7}}]}
    del resources[SYSTEM]["Links"]
    layout = await discover(Tree(resources), None)
    assert (layout.reading, layout.interval_s, layout.limit, layout.exception) == (
        POWER,
        120.0,
        PowerControlLimit(POWER),
        LimitException.LOG_EVENT_ONLY,
    )


async def test_no_more_than_sixteen_members_are_read():
    paths = [f"{ROOT}/Chassis/{each}" for each in range(17)]
    resources = plain() | {each: {} for each in paths}
    resources[SYSTEM]["Links"]["Chassis"] = [link(each) for each in paths]
    tree = Tree(resources)
    layout = await discover(tree, None)
    assert [each for _, each in tree.asked if each in paths] == paths[:16]
    assert (layout.reading, layout.limit, layout.interval_s, layout.exception) == ("", None, None, None)


async def test_a_link_to_what_the_model_does_not_have_is_nothing_and_a_failure_is_a_failure():
    tree = Tree(environment())
    del tree.resources[ENVIRONMENT]
    assert (await discover(tree, None)).reading == POWER
    tree.failures[ENVIRONMENT] = BmcReason.BUSY
    with pytest.raises(BmcError) as caught:
        await discover(tree, None)
    assert caught.value.reason is BmcReason.BUSY


@pytest.mark.parametrize("links", [None, [], [3, {"@odata.id": 3}, {}], {"a": 1}])
async def test_links_that_are_none_are_not_followed(links):
    resources = plain() | {f"{ROOT}/Chassis": {"Members": links}}
    resources[SYSTEM]["Links"]["Chassis"] = links
    layout = await discover(Tree(resources), None)
    assert (layout.reading, layout.limit) == ("", None)


@pytest.mark.parametrize(
    ("types", "kept"),
    [
        (["On", "GracefulShutdownGracefulRestart", "Nmi"], ("On", "GracefulShutdown", "GracefulRestart", "Nmi")),
        (["ForceOnOn", "On", "ForceOff2", "OnForceOffX"], ("ForceOn", "On", "ForceOff2", "OnForceOffX")),
        (["OnForceOff" * 6] * 32, ("On", "ForceOff")),
        (None, ()),
        ("On", ()),
        (["On", 3, None, {}, "a b", "x" * 65, "", "On\n", "x" * 64], ("On", "x" * 64)),
        ([f"A{each}" for each in range(40)], tuple(f"A{each}" for each in range(32))),
    ],
)
async def test_reset_types_are_words_and_a_limited_number_of_them(types, kept):
    resources = plain()
    resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"] = {"ResetType@Redfish.AllowableValues": types}
    layout = await discover(Tree(resources), None)
    assert (layout.reset_types, layout.reset) == (kept, "")


INFO = f"{SYSTEM}/ResetActionInfo"
OTHER = {"Name": "Other", "AllowableValues": ["ForceOff"]}
BY_INFO = {"target": RESET, "@Redfish.ActionInfo": INFO}


@pytest.mark.parametrize(
    ("info", "kept"),
    [
        ({"Parameters": [OTHER, {"Name": "ResetType", "AllowableValues": ["On", "Nmi"]}]}, ("On", "Nmi")),
        ({"Parameters": [3, {"Name": "ResetType"}, OTHER]}, ()),
        ({"Parameters": {}}, ()),
        ({}, ()),
        (None, ()),
    ],
)
async def test_reset_types_are_those_of_the_actions_info_where_the_action_names_none(info, kept):
    resources = plain() | ({} if info is None else {INFO: info})
    resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"] = BY_INFO
    tree = Tree(resources)
    layout = await discover(tree, None)
    assert (layout.reset_types, layout.reset) == (kept, RESET)
    assert ("GET", INFO) in tree.asked


async def test_an_action_that_names_its_reset_types_is_believed_without_its_info():
    resources = plain()
    resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"]["@Redfish.ActionInfo"] = INFO
    tree = Tree(resources)
    assert (await discover(tree, None)).reset_types == ("On", "ForceOff")
    assert ("GET", INFO) not in tree.asked


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT30S", 30.0),
        ("PT1M", 60.0),
        ("PT2M1.5S", 121.5),
        ("PT0.5S", 0.5),
        ("PT999999M", 59_999_940.0),
        ("PT", None),
        ("P1D", None),
        ("PT1H", None),
        ("PT1S ", None),
        ("PT" + "9" * 400 + "S", None),
        (30, None),
        (None, None),
    ],
)
async def test_an_interval_is_a_duration_of_minutes_and_seconds(text, seconds):
    resources = environment(PowerWatts={"Reading": 374, "DataSourceUri": SENSOR})
    resources[SENSOR] = {"SensingInterval": text}
    assert (await discover(Tree(resources), None)).interval_s == seconds


async def test_an_interval_of_power_that_is_no_number_is_unknown():
    resources = plain()
    resources[POWER]["PowerControl"][0]["PowerMetrics"] = {"IntervalInMin": int("9" * 400)}
    layout = await discover(Tree(resources), None)
    assert (layout.reading, layout.interval_s) == (POWER, None)


def test_the_reading_is_that_of_the_environment_or_of_the_first_power_control():
    assert reading_watts({"PowerWatts": {"Reading": 0}, "PowerControl": [{"PowerConsumedWatts": 7}]}) == 0.0
    assert reading_watts({"PowerControl": [{"PowerConsumedWatts": 7}, {"PowerConsumedWatts": 8}]}) == 7.0
    assert reading_watts({"PowerControl": [{}, {"PowerConsumedWatts": 8}]}) is None
    assert reading_watts({}) is None
