"""The service between the API server and simulated BMCs. `cluster` and its helpers are in conftest."""

from dataclasses import replace

import pytest
from services.outofband.tests.objects import cap, capped, ready_node

from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import POWER, RESET


async def test_state_power_and_capability_are_published(cluster, serve):
    cluster.put_bmc(await serve("plain"))
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped"))
    status = cluster.status()
    assert (status["powerState"], status["powerWatts"], status["intervalSeconds"]) == ("On", 344, 60)
    assert status["capability"]["capPath"] == POWER
    assert cluster.condition("Reachable") == ("True", "Answers")
    assert cluster.condition("PowerAsDesired") == ("True", "Unmanaged")
    assert cluster.condition("Capped") == ("False", "NoCap")
    assert cluster.condition("WakeProven") == ("Unknown", "NotTried")


async def test_an_unchanged_status_is_written_once_in_a_heartbeat(cluster, serve):
    served = await serve(replace(PROFILES["plain"], reading_interval_s=0))
    cluster.put_bmc(served)
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped"))
    version = cluster.api.get("NodeBMC", "n1")["metadata"]["resourceVersion"]
    before = len(served.bmc.requests)
    served.bmc.server.demand_watts = 400
    await cluster.until(lambda: len(served.bmc.requests) > before + 6)
    assert cluster.api.get("NodeBMC", "n1")["metadata"]["resourceVersion"] == version


async def test_a_heartbeat_brings_the_newest_reading(cluster, serve):
    served = await serve(replace(PROFILES["plain"], reading_interval_s=0))
    cluster.put_bmc(served)
    cluster.start(STATUS_HEARTBEAT="100ms")
    await cluster.until(lambda: cluster.status().get("powerWatts") == 344)
    served.bmc.server.demand_watts = 400
    await cluster.until(lambda: cluster.status().get("powerWatts") == 400)


async def test_the_session_is_deleted_when_the_service_ends(cluster, serve):
    served = await serve("plain")
    cluster.put_bmc(served)
    cluster.start()
    await cluster.until(lambda: served.bmc.sessions)
    await cluster.stop()
    assert served.bmc.sessions == {}


# --- power ------------------------------------------------------------------------------------------------------------


async def test_a_node_is_powered_off_and_on_and_its_boot_is_timed(cluster, serve):
    served = await serve("plain")
    cluster.api.put(ready_node("before"))
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.start()
    await cluster.until(lambda: cluster.status().get("powerState") == "Off")
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "AsDesired"))
    cluster.change(desiredPower="On")
    await cluster.until(lambda: cluster.status().get("powerState") == "On")
    assert cluster.condition("WakeProven") == ("Unknown", "NotTried")
    cluster.api.put(ready_node("after"))
    await cluster.until(lambda: cluster.condition("WakeProven") == ("True", "Woken"))
    assert served.bmc.server.resets == ["GracefulShutdown", "On"]
    assert cluster.status()["recentBoots"] == [cluster.status()["bootSeconds"]]


async def test_a_graceful_shutdown_that_is_ignored_is_followed_by_a_forced_one(cluster, serve):
    served = await serve(replace(PROFILES["plain"], graceful_off_s=None))
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.start()
    await cluster.until(lambda: cluster.status().get("powerState") == "Off")
    assert served.bmc.server.resets == ["GracefulShutdown", "ForceOff"]


@pytest.mark.parametrize(
    ("profile", "resets"),
    [("openbmc", ["GracefulShutdown"]), ("supermicro", ["GracefulShutdown"]), ("button", ["PushPowerButton"])],
)
async def test_a_server_is_shut_down_gracefully_by_what_its_bmc_has_for_that(cluster, serve, profile, resets):
    served = await serve(profile)
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.start()
    await cluster.until(lambda: cluster.status().get("powerState") == "Off")
    assert served.bmc.server.resets == resets


async def test_a_server_without_a_graceful_shutdown_is_forced_off_only_by_a_persons_word(cluster, serve):
    served = await serve("switch")
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "ResetTypeMissing"))
    assert (served.bmc.server.resets, ("POST", RESET) in served.bmc.requests) == ([], False)
    cluster.change(forcedOff="Allowed")
    await cluster.until(lambda: cluster.status().get("powerState") == "Off")
    assert served.bmc.server.resets == ["ForceOff"]


async def test_never_is_never_powered_off(cluster, serve):
    served = await serve("plain")
    cluster.put_bmc(served, powerOff="Never", desiredPower="Off")
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "PowerOffNotAllowed"))
    assert (served.bmc.server.resets, ("POST", RESET) in served.bmc.requests) == ([], False)


async def test_a_power_off_that_the_operator_left_behind_does_not_cut_off_a_node_that_takes_pods(cluster, serve):
    served = await serve("plain")
    cluster.api.put(ready_node("before"))
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.api.patch("NodeBMC", "n1", {"metadata": {"annotations": {"joulie.io/requested-power": "Off"}}})
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "NodeNotTainted"))
    assert (served.bmc.server.resets, ("POST", RESET) in served.bmc.requests) == ([], False)
    cluster.api.put(ready_node("before", tainted=True))
    await cluster.until(lambda: cluster.status().get("powerState") == "Off")


async def test_a_server_that_a_person_switches_on_while_its_node_sleeps_stays_on(cluster, serve):
    served = await serve("plain")
    server = served.bmc.server
    cluster.api.put(ready_node("before", tainted=True))
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.api.patch("NodeBMC", "n1", {"metadata": {"annotations": {"joulie.io/requested-power": "Off"}}})
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "AsDesired"))
    server.reset("On")
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "SwitchedOn"))
    assert (server.resets, cluster.status()["powerState"]) == (["GracefulShutdown", "On"], "On")
    # The next request of the operator is carried out again.
    cluster.change(desiredPower="On")
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "AsDesired"))
    cluster.change(desiredPower="Off")
    await cluster.until(lambda: cluster.status()["powerState"] == "Off")


async def test_a_taint_that_goes_after_the_graceful_shutdown_keeps_the_power_from_being_forced_off(cluster, serve):
    served = await serve(replace(PROFILES["plain"], graceful_off_s=None))
    cluster.api.put(ready_node("before", tainted=True))
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.api.patch("NodeBMC", "n1", {"metadata": {"annotations": {"joulie.io/requested-power": "Off"}}})
    cluster.start(GRACEFUL_OFF_TIMEOUT="3s")
    await cluster.until(lambda: served.bmc.server.resets == ["GracefulShutdown"])
    cluster.api.put(ready_node("before"))
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "NodeNotTainted"))
    assert served.bmc.server.resets == ["GracefulShutdown"]


# --- caps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["plain", "xcc2", "ami", "openbmc", "tagless"])
async def test_a_cap_is_set_and_the_original_restored_when_it_is_removed(cluster, serve, profile):
    served = await serve(profile)
    served.bmc.server.limit_watts = 700
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(capped(cluster, 300))
    assert (served.bmc.server.limit_watts, cluster.status()["cap"]["originalWatts"]) == (300, 700)
    cluster.change(cap=None)
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "NoCap"))
    assert (served.bmc.server.limit_watts, cluster.status()["cap"]) == (700, {"watts": 700, "owner": "External"})


async def test_a_cap_ends_at_its_time(cluster, serve):
    served = await serve("plain")
    cluster.put_bmc(served, cap=cap(300, for_s=4))
    cluster.start()
    await cluster.until(capped(cluster, 300))
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "Expired"))
    assert served.bmc.server.limit_watts is None


async def test_the_original_is_known_after_the_process_was_killed(cluster, serve):
    served = await serve("plain")
    served.bmc.server.limit_watts = 700
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(capped(cluster, 300))
    await cluster.kill()
    cluster.api.remove("Lease", "joulie-outofband", "joulie-system")
    cluster.change(cap=None)
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "NoCap"))
    assert served.bmc.server.limit_watts == 700


async def test_a_cap_that_may_power_the_server_off_is_not_written(cluster, serve):
    served = await serve("idrac9")
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "LimitExceptionPowersOff"))
    assert (served.bmc.server.limit_watts, ("PATCH", POWER) in served.bmc.requests) == (None, False)


@pytest.mark.parametrize(
    ("profile", "condition"),
    [
        ("bluefield", ("False", "NotInWatts")),
        ("meter", ("False", "NoPowerLimit")),
        ("unlicensed", ("False", "LicenceMissing")),
    ],
)
async def test_a_cap_that_is_not_possible_is_reported_and_readings_go_on(cluster, serve, profile, condition):
    cluster.put_bmc(await serve(profile), cap=cap(300))
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped") == condition)
    assert (cluster.condition("Reachable"), cluster.status()["powerWatts"]) == (("True", "Answers"), 344)


async def test_a_nodebmc_that_is_deleted_leaves_no_cap(cluster, serve):
    served = await serve("plain")
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(capped(cluster, 300))
    cluster.api.remove("NodeBMC", "n1")
    await cluster.until(lambda: not served.bmc.sessions)
    assert served.bmc.server.limit_watts is None


# --- metrics ----------------------------------------------------------------------------------------------------------


async def test_series_exist_as_long_as_the_nodebmc(cluster, serve):
    cluster.put_bmc(await serve("plain"))
    app = cluster.start()
    await cluster.until(lambda: cluster.condition("Capped"))
    text = (await app.registry.render()).decode()
    for line in ('power_watts{node="n1"} 344.0', 'reachable{node="n1"} 1.0', 'power_on{node="n1"} 1.0'):
        assert f"joulie_bmc_{line}" in text
    assert 'joulie_bmc_condition{condition="Capped",node="n1",reason="NoCap",status="False"} 1.0' in text
    assert 'joulie_bmc_cap_overdue{node="n1"}' not in text
    cluster.api.remove("NodeBMC", "n1")
    await cluster.until(lambda: not cluster.api.objects("NodeBMC"))

    async def gone():
        return 'node="n1"' not in (await app.registry.render()).decode()

    while not await gone():
        pass
