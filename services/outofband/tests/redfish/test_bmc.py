"""The requests of one Redfish BMC."""

import pytest
from services.outofband.tests.redfish.tree import POWER, RESET, ROOT, SYSTEM, Tree, plain

from joulie_core.kinds.node_bmc import BmcCapability, LimitException, PowerLimitUnit, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.bmc import RedfishBmc


def start(resources=None, system=None):
    tree = Tree(resources or plain())
    return tree, RedfishBmc(tree, system=system)


async def test_a_report_has_everything_and_discovers_once():
    tree, bmc = start()
    assert await bmc.report() == BmcReport(
        power_state=PowerState.ON,
        watts=344.0,
        interval_s=120.0,
        limit=PowerLimit(500.0, max_watts=800.0),
        capability=BmcCapability(
            readable=True,
            cappable=True,
            unit=PowerLimitUnit.WATTS,
            max_watts=800.0,
            limit_exception=LimitException.LOG_EVENT_ONLY,
            cap_path=POWER,
            reading_path=POWER,
            reset_types=("On", "ForceOff"),
        ),
        answers=True,
    )
    tree.asked.clear()
    await bmc.report()
    assert tree.asked == [("GET", SYSTEM), ("GET", POWER), ("GET", POWER)]


async def test_the_system_that_is_named_is_reported():
    resources = plain() | {f"{ROOT}/Systems": {}}
    tree, bmc = start(resources, SYSTEM)
    assert (await bmc.report()).power_state is PowerState.ON
    assert ("GET", f"{ROOT}/Systems") not in tree.asked


@pytest.mark.parametrize(
    ("value", "state"),
    [("Off", PowerState.OFF), ("PoweringOn", PowerState.POWERING_ON), ("Paused", PowerState.UNKNOWN),
     (None, PowerState.UNKNOWN), (["On"], PowerState.UNKNOWN)],
)  # fmt: skip
async def test_a_power_state_that_is_not_known_is_unknown(value, state):
    resources = plain()
    resources[SYSTEM]["PowerState"] = value
    assert (await start(resources)[1].report()).power_state is state


async def test_a_limit_in_percent_is_shown_and_not_cappable():
    resources = plain()
    control = "/redfish/v1/Chassis/1/Controls/1"
    resources["/redfish/v1/Chassis/1"]["Controls"] = {"@odata.id": "/c"}
    resources |= {"/c": {"Members": [{"@odata.id": control}]}}
    resources[control] = {"ControlType": "Power", "SetPointUnits": "%"}
    capability = (await start(resources)[1].report()).capability
    assert (capability.cappable, capability.unit, capability.cap_path) == (False, PowerLimitUnit.PERCENT, control)


async def test_the_range_that_a_bmc_allows_for_its_limit_is_shown():
    resources = plain()
    control = "/redfish/v1/Chassis/1/Controls/1"
    resources["/redfish/v1/Chassis/1"]["Controls"] = {"@odata.id": "/c"}
    resources |= {"/c": {"Members": [{"@odata.id": control}]}}
    resources[control] = {"ControlType": "Power", "SetPointUnits": "W", "AllowableMin": 150, "AllowableMax": 900}
    capability = (await start(resources)[1].report()).capability
    assert (capability.cappable, capability.min_watts, capability.max_watts) == (True, 150.0, 900.0)


async def test_a_bmc_without_power_reports_and_refuses():
    resources = plain()
    resources["/redfish/v1/Chassis/1"] = {}
    del resources[SYSTEM]["Actions"]
    tree, bmc = start(resources)
    report = await bmc.report()
    assert (report.watts, report.limit, report.interval_s) == (None, None, None)
    assert report.capability == BmcCapability(readable=False, cappable=False)
    assert await bmc.limit() is None
    tree.asked.clear()
    with pytest.raises(BmcError, match="no power limit") as limit:
        await bmc.set_limit(300)
    with pytest.raises(BmcError, match="no reset action") as reset:
        await bmc.reset("On")
    assert (limit.value.reason, reset.value.reason) == (BmcReason.NO_LIMIT, BmcReason.RESET_TYPE_MISSING)
    assert tree.asked == []


async def test_nothing_is_requested_before_the_first_report():
    tree, bmc = start()
    assert await bmc.limit() is None
    for call in (bmc.set_limit(300), bmc.reset("On")):
        with pytest.raises(BmcError):
            await call
    assert tree.asked == []


async def test_a_limit_is_read_at_its_place():
    tree, bmc = start()
    await bmc.report()
    tree.asked.clear()
    assert await bmc.limit() == PowerLimit(500.0, max_watts=800.0)
    assert tree.asked == [("GET", POWER)]


@pytest.mark.parametrize(("watts", "sent"), [(300.9, 300), (None, None)])
async def test_a_limit_is_a_patch_of_its_resource(watts, sent):
    tree, bmc = start()
    await bmc.report()
    tree.asked.clear()
    await bmc.set_limit(watts)
    assert tree.asked == [("GET", POWER), ("PATCH", POWER, {"PowerControl": [{"PowerLimit": {"LimitInWatts": sent}}]})]


async def test_a_reset_is_an_action_of_the_system_and_the_end_closes_the_connection():
    tree, bmc = start()
    await bmc.report()
    tree.asked.clear()
    await bmc.reset("ForceOff")
    await bmc.close()
    assert tree.asked == [("POST", RESET, {"ResetType": "ForceOff"}), ("close",)]
