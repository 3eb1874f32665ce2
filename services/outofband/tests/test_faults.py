"""Faults of BMCs and of the service. `cluster` and its helpers are in conftest."""

import asyncio
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from services.outofband.tests.conftest import secret
from services.outofband.tests.objects import cap, capped, ready_node

from joulie_core.timestamps import rfc3339
from joulie_sim.bmc.faults import BmcFault
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import POWER, SYSTEM
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import serve_bmc

BUSY, CONFLICT = 503, 409
WRITES = frozenset({"PATCH"})


# --- answers that do not come -----------------------------------------------------------------------------------------


async def test_a_bmc_that_is_unreachable_is_unknown_until_it_answers_again(cluster, clock, tmp_path):
    profile = PROFILES["plain"]
    bmc = SimulatedBmc(profile, SimulatedServer(profile, clock=clock), user="root", password="calvin")
    async with serve_bmc(bmc, tmp_path / "before") as served:
        cluster.put_bmc(served)
        cluster.start()
        await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "Unreachable"))
    assert cluster.status()["powerState"] == "Unknown"
    async with serve_bmc(bmc, tmp_path / "after", port=int(served.address.rpartition(":")[2])) as again:
        cluster.put_credentials(again)
        await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
        assert cluster.status()["powerState"] == "On"


async def test_a_bmc_that_accepts_a_connection_and_never_answers_ends_at_the_deadline(cluster, serve):
    accepted = asyncio.Event()

    async def nothing(reader, writer):
        accepted.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(nothing, "127.0.0.1", 0) as listener:
        address = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        cluster.put_bmc(SimpleNamespace(address=address, ca=(await serve()).ca))
        app = cluster.start(BMC_REQUEST_TIMEOUT="300ms")
        await cluster.until(lambda: cluster.condition("Reachable") == ("False", "TimedOut"))
        assert accepted.is_set()
        app.stop()


async def test_a_slow_bmc_names_the_setting_of_one_request_and_works_with_a_higher_one(cluster, serve):
    # A hundredth of 25 s for each answer.
    served = await serve(replace(PROFILES["plain"], latency_s=0.25))
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="Off")
    cluster.start(BMC_REQUEST_TIMEOUT="100ms")
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "TimedOut"))
    assert "no answer within 0.1 s (BMC_REQUEST_TIMEOUT)" in message(cluster, "Reachable")
    await cluster.stop()
    cluster.restart(BMC_REQUEST_TIMEOUT="1s", BMC_PASS_TIMEOUT="1s")
    await cluster.until(lambda: "pass not complete within 1 s (BMC_PASS_TIMEOUT)" in message(cluster, "Reachable"))
    await cluster.stop()
    cluster.restart(BMC_REQUEST_TIMEOUT="2s", BMC_PASS_TIMEOUT="10s")
    await cluster.until(lambda: cluster.status().get("powerState") == "Off")
    assert served.bmc.server.resets[0] == "GracefulShutdown"


def message(cluster, kind):
    return next(each["message"] for each in cluster.status()["conditions"] if each["type"] == kind)


async def test_a_bmc_that_hangs_delays_no_other_and_its_state_is_unknown(cluster, serve):
    cluster.put_bmc(await serve(replace(PROFILES["plain"], latency_s=60)), "n1")
    cluster.put_bmc(await serve("plain"), "n2")
    cluster.start(BMC_REQUEST_TIMEOUT="300ms")
    await cluster.until(lambda: cluster.condition("Reachable", "n1") == ("False", "TimedOut"))
    await cluster.until(lambda: cluster.condition("Reachable", "n2") == ("True", "Answers"))
    assert cluster.status("n1")["powerState"] == "Unknown"


async def test_a_reading_is_unknown_three_intervals_after_the_last_answer(cluster, serve):
    served = await serve(replace(PROFILES["plain"], reading_interval_s=0.2))
    cluster.put_bmc(served)
    cluster.start(BMC_REQUEST_TIMEOUT="200ms")
    await cluster.until(lambda: cluster.status().get("powerWatts") == 344)
    served.bmc.profile = replace(served.bmc.profile, latency_s=60)
    await cluster.until(lambda: cluster.status()["powerState"] == "Unknown")
    await cluster.until(lambda: "powerWatts" not in cluster.status())
    assert "sampledAt" in cluster.status()


# --- a busy BMC -------------------------------------------------------------------------------------------------------


async def test_a_busy_bmc_is_left_alone_for_as_long_as_it_asks_and_keeps_its_session(cluster, serve):
    busy, other = await serve(), await serve()
    cluster.put_bmc(busy, "n1")
    cluster.put_bmc(other, "n2")
    cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable", "n1") == ("True", "Answers"))
    busy.bmc.fault = BmcFault(status=BUSY, retry_after_s=3600)
    await cluster.until(lambda: cluster.condition("Reachable", "n1") == ("False", "Busy"))
    busy.bmc.fault = None
    cluster.change("n1", desiredPower="On")
    asked, passes = len(busy.bmc.requests), len(other.bmc.requests)
    await cluster.until(lambda: len(other.bmc.requests) > passes + 30)
    assert (len(busy.bmc.requests), len(busy.bmc.sessions)) == (asked, 1)


async def test_a_bmc_that_was_busy_is_read_again_at_its_time(cluster, serve):
    served = await serve()
    served.bmc.fault = BmcFault(frozenset({"GET"}), status=BUSY, retry_after_s=1)
    cluster.put_bmc(served)
    cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "Busy"))
    served.bmc.fault = None
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "NoCap"))
    assert cluster.status()["capability"]["cappable"] is True


@pytest.mark.parametrize("status", [BUSY, CONFLICT])
async def test_a_cap_that_a_busy_bmc_does_not_take_is_written_later(cluster, serve, status):
    served = await serve()
    served.bmc.fault = BmcFault(WRITES, status=status)
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped") == ("Unknown", "Busy"))
    served.bmc.fault = None
    await cluster.until(capped(cluster, 300))
    assert (served.bmc.server.limit_watts, "originalWatts" in cluster.status()["cap"]) == (300, False)


async def test_a_limit_that_cannot_be_restored_is_overdue_until_it_is(cluster, serve):
    served = await serve()
    cluster.put_bmc(served, cap=cap(300))
    app = cluster.start()

    async def overdue():
        text = (await app.registry.render()).decode()
        return [line[-3:] for line in text.splitlines() if line.startswith('joulie_bmc_cap_overdue{node="n1"}')]

    await cluster.until(capped(cluster, 300))
    assert await overdue() == ["0.0"]
    served.bmc.fault = BmcFault(WRITES, status=BUSY)
    cluster.change(cap=None)
    await cluster.until(lambda: cluster.condition("Capped") == ("Unknown", "Busy"))
    assert await overdue() == ["1.0"]
    served.bmc.fault = None
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "NoCap"))
    assert (await overdue(), served.bmc.server.limit_watts) == ([], None)


async def test_a_graceful_shutdown_that_a_busy_bmc_does_not_take_is_not_forced(cluster, serve):
    served = await serve()
    cluster.put_bmc(served, powerOff="Allowed")
    cluster.start(GRACEFUL_OFF_TIMEOUT="1h")
    await cluster.until(lambda: cluster.condition("PowerAsDesired"))
    served.bmc.fault = BmcFault(frozenset({"POST"}), status=BUSY)
    cluster.change(desiredPower="Off")
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "Busy"))
    served.bmc.fault = None
    await cluster.until(lambda: cluster.status()["powerState"] == "Off")
    assert served.bmc.server.resets == ["GracefulShutdown"]


async def test_eight_sessions_of_others_are_left_to_them(cluster, serve):
    served = await serve()
    served.bmc.sessions.update({f"of others {number}": "token" for number in range(8)})
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(capped(cluster, 300))
    await cluster.stop()
    assert len(served.bmc.sessions) == 8


# --- power that does not follow ---------------------------------------------------------------------------------------


async def test_an_off_that_never_comes_is_reported(cluster, serve):
    cluster.put_bmc(
        await serve(replace(PROFILES["plain"], graceful_off_s=None, forced_off_s=None)),
        powerOff="Allowed",
        desiredPower="Off",
    )
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "NotFollowed"))
    assert cluster.status()["powerState"] == "On"


async def test_a_boot_that_never_comes_is_reported(cluster, serve):
    cluster.api.put(ready_node("before"))
    cluster.put_bmc(await serve("plain", on=False), desiredPower="On")
    cluster.start(BOOT_TIMEOUT="300ms")
    await cluster.until(lambda: cluster.condition("WakeProven") == ("False", "BootTimedOut"))
    assert "bootSeconds" not in cluster.status()


# --- the service ends in the middle -----------------------------------------------------------------------------------


@pytest.mark.parametrize("carried_out", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("wanted", [True, False], ids=["cap stays", "cap removed"])
async def test_a_service_killed_between_journal_and_result_sets_or_restores(cluster, serve, carried_out, wanted):
    served = await serve()
    server = served.bmc.server
    server.limit_watts = 700
    fault = served.bmc.fault = BmcFault(WRITES, carried_out=carried_out)
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(fault.met.is_set)
    assert (cluster.status()["cap"]["originalWatts"], "confirmedWatts" in cluster.status()["cap"]) == (700, False)
    await cluster.kill()
    assert server.limit_watts == (300 if carried_out else 700)
    served.bmc.fault = None
    if not wanted:
        cluster.change(cap=None)
    cluster.restart()
    if wanted:
        await cluster.until(capped(cluster, 300))
        assert (server.limit_watts, cluster.status()["cap"]["originalWatts"]) == (300, 700)
    else:
        await cluster.until(lambda: cluster.condition("Capped") == ("False", "NoCap"))
        assert (server.limit_watts, cluster.status()["cap"]) == (700, {"watts": 700, "owner": "External"})


async def test_a_cap_that_ended_while_the_service_was_down_is_restored_at_its_start(cluster, serve):
    served = await serve()
    served.bmc.server.limit_watts = 700
    cluster.put_bmc(served, cap=cap(300))
    cluster.start()
    await cluster.until(capped(cluster, 300))
    await cluster.kill()
    cluster.change(cap={"watts": 300, "expiresAt": rfc3339(time.time() - 1, "seconds")})
    assert served.bmc.server.limit_watts == 300
    cluster.restart()
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "Expired"))
    assert served.bmc.server.limit_watts == 700


async def test_a_boot_is_timed_from_its_request_across_a_restart_of_the_service(cluster, serve):
    served = await serve(on=False)
    cluster.api.put(ready_node("before"))
    cluster.put_bmc(served, desiredPower="On")
    cluster.start()
    await cluster.until(lambda: cluster.status().get("powerState") == "On")
    boot = cluster.status()["pendingBoot"]
    assert boot["bootId"] == "before"
    await cluster.kill()
    # The request as it would be read ten minutes later.
    boot["requestedAt"] = rfc3339(time.time() - 600)
    cluster.api.patch("NodeBMC", "n1", {"status": {"pendingBoot": boot}})
    cluster.api.put(ready_node("after"))
    cluster.restart()
    await cluster.until(lambda: cluster.condition("WakeProven") == ("True", "Woken"))
    assert 600 <= cluster.status()["bootSeconds"] < 660
    assert ("pendingBoot" in cluster.status(), served.bmc.server.resets) == (False, ["On"])


async def test_a_boot_is_given_up_when_the_server_shall_be_off(cluster, serve):
    served = await serve(on=False)
    cluster.put_bmc(served, powerOff="Allowed", desiredPower="On")
    cluster.start(BOOT_TIMEOUT="1h")
    await cluster.until(lambda: cluster.status().get("pendingBoot"))
    cluster.change(desiredPower="Off")
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "AsDesired"))
    assert ("pendingBoot" in cluster.status(), cluster.condition("WakeProven")) == (False, ("Unknown", "NotTried"))


async def test_the_cap_of_a_nodebmc_is_not_the_original_of_the_one_that_replaces_it(cluster, serve):
    served = await serve()
    server = served.bmc.server
    server.limit_watts = 700
    cluster.put_bmc(served, cap=cap(300))
    cluster.start(BMC_REQUEST_TIMEOUT="500ms")
    await cluster.until(capped(cluster, 300))
    fault = served.bmc.fault = BmcFault(WRITES)
    cluster.api.remove("NodeBMC", "n1")
    await cluster.until(fault.met.is_set)
    cluster.put_bmc(served, cap=cap(250))
    served.bmc.fault = None
    await cluster.until(capped(cluster, 250))
    assert (server.limit_watts, cluster.status()["cap"]["originalWatts"]) == (250, 700)


async def test_the_status_of_a_nodebmc_is_not_written_to_the_one_that_replaces_it(cluster, serve):
    gone, served = await serve(), await serve()
    cluster.put_bmc(gone)
    cluster.start(BMC_REQUEST_TIMEOUT="500ms")
    await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
    fault = gone.bmc.fault = BmcFault(frozenset({"GET"}))
    await cluster.until(fault.met.is_set)
    cluster.api.remove("NodeBMC", "n1")
    cluster.put_bmc(served)
    await cluster.until(lambda: not gone.bmc.sessions)
    asked = len(served.bmc.requests)
    await cluster.until(lambda: len(served.bmc.requests) > asked + 20)
    assert (cluster.condition("Reachable"), cluster.status()["powerState"]) == (("True", "Answers"), "On")


# --- credentials ------------------------------------------------------------------------------------------------------


async def test_refused_credentials_are_not_tried_again_until_the_spec_changes(cluster, serve):
    served = await serve("plain")
    served.bmc.accounts.administrator.password = "other"
    cluster.put_bmc(served)
    cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "Unauthorized"))
    attempts = len(served.bmc.requests)
    served.bmc.accounts.administrator.password = "calvin"
    cluster.change(desiredPower="On")
    await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
    assert attempts <= 2


async def test_a_missing_secret_is_named_without_any_request(cluster, serve):
    served = await serve("plain")
    cluster.put_bmc(served, credentialsSecretRef={"name": "none"})
    cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "CredentialsMissing"))
    assert served.bmc.requests == []


async def test_an_address_that_the_secret_does_not_approve_gets_no_connection(cluster, serve):
    served, other = await serve(), await serve()
    cluster.put_bmc(served)
    cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
    cluster.change(address=other.address)
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "AddressNotApproved"))
    assert (other.bmc.requests, served.bmc.sessions) == ([], {})
    cluster.put_credentials(served, addresses="https://127.0.0.0/8", ca_crt=other.ca.read_text())
    await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
    assert other.bmc.requests


async def test_certificates_that_only_the_nodebmc_names_verify_nothing(cluster, serve):
    served = await serve()
    cluster.put_bmc(served, caSecretRef={"name": "n1-ca"})
    cluster.put_credentials(served, ca_crt=None)
    cluster.api.put(secret("n1-ca", ca_crt=served.ca.read_text()))
    cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "CertificatesNotApproved"))
    cluster.change(caSecretRef=None)
    await cluster.until(lambda: cluster.condition("Reachable") == ("False", "CertificateRefused"))
    assert served.bmc.requests == []


# --- hostile BMCs and objects -----------------------------------------------------------------------------------------


def redfish(address):
    return {"address": address}


def ipmi(address):
    return {"protocol": "ipmi", "address": address}


def wol(address):
    reached = {"protocol": "wol", "address": address, "mac": "52:54:00:12:34:56", "credentialsSecretRef": None}
    return reached | {"desiredPower": "On"}


INVALID = [
    wol("wol://h:abc"),
    wol("wol://[fd00::1]"),
    wol("wol://h:99999"),
    redfish("https://h:99999"),
    redfish("https://h\x00"),
    redfish("https://" + "a" * 64),
    ipmi("ipmi://h:99999"),
    ipmi("ipmi://" + "a" * 64),
    ipmi("ipmi://[fd00::1]"),
]


async def test_invalid_addresses_are_shown_at_their_objects_and_end_nothing(cluster, serve):
    for number, spec in enumerate(INVALID):
        cluster.put_bmc(await serve(), f"bad{number}", **spec)
    cluster.put_bmc(await serve(), "good")
    cluster.start()
    for number in range(len(INVALID)):
        name = f"bad{number}"
        await cluster.until(lambda name=name: cluster.condition("Reachable", name) == ("False", "InvalidAddress"))
    await cluster.until(lambda: cluster.condition("Reachable", "good") == ("True", "Answers"))


async def test_an_object_that_cannot_be_decoded_is_shown_with_the_reason_and_ends_nothing(cluster, serve):
    cluster.put_bmc(await serve(), "bad", address="https://h\u00a0x")
    cluster.put_bmc(await serve(), "good")
    cluster.start()
    await cluster.until(lambda: cluster.condition("Accepted", "bad") == ("False", "InvalidSpec"))
    await cluster.until(lambda: cluster.condition("Reachable", "good") == ("True", "Answers"))
    assert "spec.address" in cluster.status("bad")["conditions"][0]["message"]
    # The last valid version stays in force.
    cluster.change("good", address="https://h\u00a0x")
    await cluster.until(lambda: cluster.condition("Accepted", "good") == ("False", "InvalidSpec"))
    assert cluster.condition("Reachable", "good") == ("True", "Answers")
    cluster.change("bad", address="https://h:99999")
    await cluster.until(lambda: cluster.condition("Accepted", "bad") == ("True", "Valid"))


LONG = int("9" * 400)


RESETS = {"target": {}, "ResetType@Redfish.AllowableValues": ["On", "x" * 65, {}, "a\x9b"]}


def control(**fields):
    return {"PowerControl": [fields]}


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (SYSTEM, {"Model": "\x9b\x7f"}),
        (POWER, control(PowerConsumedWatts=LONG, PowerLimit={"LimitInWatts": LONG})),
        (SYSTEM, {"PowerState": {"a": [LONG]}, "@odata.etag": '"a\r\nX: 1"'}),
        (SYSTEM, {"Actions": {"#ComputerSystem.Reset": RESETS}}),
        (POWER, control(PowerLimit={"LimitInWatts": 1, "LimitException": ["x"]})),
        (POWER, control(PowerConsumedWatts=1, PowerMetrics={"IntervalInMin": LONG})),
    ],
    ids=["control characters", "long numbers", "long number as a state", "reset types", "exception", "interval"],
)
async def test_hostile_values_are_unknown_and_the_status_is_written(cluster, serve, monkeypatch, path, change):
    served = await serve()
    resources = served.bmc._resources
    monkeypatch.setattr(served.bmc, "_resources", lambda: (found := resources()) | {path: found[path] | change})
    cluster.put_bmc(served, desiredPower="On")
    app = cluster.start()
    await cluster.until(lambda: cluster.condition("Capped"))
    assert cluster.condition("Reachable") == ("True", "Answers")
    assert json.dumps(cluster.status()).isprintable()
    assert "joulie_internal_errors_total{" not in (await app.registry.render()).decode()
