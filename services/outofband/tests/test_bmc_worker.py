"""Passes of one worker over one BMC: what a failure ends, shows and delays."""

import asyncio
import json
from dataclasses import replace

import pytest
from services.outofband.tests.doubles import CAPABILITY, NOW_S, REPORT, TIMES, Bmc, bench, conditions, counted, node_bmc
from services.outofband.tests.objects import cap
from structlog.testing import capture_logs

from joulie_api.errors import ServerError, TransportError
from joulie_core.kinds import NodeBMCStatus
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_bmc import BmcCapStatus, PowerState
from joulie_core.labels import REQUESTED_POWER
from joulie_core.timestamps import rfc3339
from joulie_outofband.bmc import PowerLimit
from joulie_outofband.bmc_worker import BmcWorker
from joulie_outofband.reasons import BmcError, BmcReason


@pytest.fixture(autouse=True)
def _no_tracebacks():
    """Keep what is logged from being rendered, which takes most of the time of a test with a defect."""
    with capture_logs():
        yield


def start(found, **spec):
    found.worker = BmcWorker(node_bmc(**spec), found.publisher, found.parts)
    return found.worker


async def one_pass(found):
    await found.worker._pass(found.worker._object)


def error(reason, message="x", **how):
    return BmcError(reason, message, **how)


async def paused_s(worker, monkeypatch):
    """Return how long the worker waits before its next pass: while the BMC is busy, and unless the spec changes."""
    waited = []

    async def wait(event, wait_s):
        waited.append((event is worker._ended, wait_s))

    monkeypatch.setattr("joulie_outofband.bmc_worker._wait", wait)
    await worker._pause()
    (busy, busy_s), (changed, wait_s) = waited
    assert (busy, changed) == (True, False)
    return max(0.0, busy_s), wait_s


# --- a pass -----------------------------------------------------------------------------------------------------------


async def test_a_pass_publishes_what_was_read_and_every_condition_with_the_generation():
    found = bench()
    start(found)
    await one_pass(found)
    (resource, name, _, status), written = found.api.applied[-1], found.api.status
    assert (resource, name, status) == ("nodebmcs.joulie.io", "n1", True)
    assert (written["powerState"], written["powerWatts"], written["intervalSeconds"]) == ("On", 344.0, 60.0)
    assert written["sampledAt"] == rfc3339(NOW_S, "seconds")
    assert written["capability"] == CAPABILITY.dump()
    assert conditions(written) == {
        "Capped": ("False", "NoCap"),
        "PowerAsDesired": ("True", "Unmanaged"),
        "Reachable": ("True", "Answers"),
        "WakeProven": ("Unknown", "NotTried"),
    }
    assert {each["observedGeneration"] for each in written["conditions"]} == {3}
    assert found.observer.passes == [("Answers", 0.0)]


async def test_a_server_that_never_answers_has_no_time_of_an_answer():
    found = bench(Bmc(replace(REPORT, answers=False, power_state=PowerState.UNKNOWN, watts=None)))
    start(found)
    await one_pass(found)
    assert "sampledAt" not in found.api.status
    assert conditions(found.api.status)["Reachable"] == ("Unknown", "NeverAnswers")


async def test_a_bmc_is_connected_once_and_after_a_failure_again():
    found = bench()
    start(found)
    await one_pass(found)
    await one_pass(found)
    assert len(found.connected) == 1
    found.bmc.fail["report"] = error(BmcReason.FAILED)
    await one_pass(found)
    assert found.bmc.count("close") == 1
    found.bmc.fail.clear()
    await one_pass(found)
    assert len(found.connected) == 2


async def test_a_boot_that_proved_the_wake_path_stays_proved():
    found = bench()
    start(found)
    await one_pass(found)
    proved = {"status": ConditionStatus.TRUE, "reason": "Woken"}
    before = found.publisher.status.conditions
    found.publisher.change(
        conditions=tuple(each.model_copy(update=proved) if each.type == "WakeProven" else each for each in before)
    )
    await one_pass(found)
    assert conditions(found.publisher.status)["WakeProven"] == ("True", "Woken")


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [BmcReason.UNREACHABLE, BmcReason.MALFORMED, BmcReason.ADDRESS_NOT_APPROVED])
async def test_a_failure_is_shown_in_the_status_and_the_power_state_is_unknown(reason):
    found = bench()
    start(found)
    await one_pass(found)
    found.time.now = 7.0
    found.bmc.fail["report"] = error(reason, "a\x9b")
    await one_pass(found)
    reachable = next(each for each in found.api.status["conditions"] if each["type"] == "Reachable")
    assert (reachable["status"], reachable["reason"], reachable["message"]) == (
        "False",
        reason.value,
        "a\N{REPLACEMENT CHARACTER}",
    )
    assert found.api.status["powerState"] == "Unknown"
    assert found.api.status["powerWatts"] == 344.0
    assert found.observer.passes[-1] == (reason.value, 0.0)


@pytest.mark.parametrize("place", ["report", "close"])
async def test_a_defect_ends_one_pass_is_counted_as_a_defect_and_shown(place):
    found = bench()
    start(found)
    await one_pass(found)
    found.bmc.fail = {"report": ValueError("calvin")} | ({"close": ValueError("calvin")} if place == "close" else {})
    await one_pass(found)
    assert conditions(found.api.status)["Reachable"] == ("False", "InternalError")
    reachable = next(each for each in found.api.status["conditions"] if each["type"] == "Reachable")
    assert reachable["message"].startswith("ValueError: ")
    assert "calvin" not in json.dumps(found.api.status)
    assert counted(found.registry, "joulie_internal_errors", work="bmc pass") == 1
    assert counted(found.registry, "joulie_internal_errors", work="close bmc") == (place == "close")
    assert counted(found.registry, "joulie_invalid_input", source="bmc") == 0
    found.bmc.fail.clear()
    await one_pass(found)
    assert conditions(found.api.status)["Reachable"] == ("True", "Answers")


@pytest.mark.parametrize(
    ("failure", "level", "cause"),
    [
        (error(BmcReason.UNREACHABLE, "no route"), "warning", "Unreachable"),
        (error(BmcReason.MALFORMED, "no route"), "warning", "no route"),
        (ServerError(500, "", "no route"), "warning", "ServerError"),
        (ValueError("no route"), "error", "ValueError"),
    ],
)
async def test_a_failure_is_logged_once_with_its_node_until_a_pass_works_again(failure, level, cause):
    found = bench()
    with capture_logs() as logs:
        start(found)
        for failures in ({"report": failure}, {"report": failure}, {}, {"report": failure}):
            found.bmc.fail = failures
            await one_pass(found)
    assert [each["log_level"] for each in logs] == [level, "info", level]
    assert {each["node"] for each in logs} == {"n1"}
    assert {each["cause"] for each in logs if each["log_level"] == level} == {cause}
    assert all("no route" in each["problem"] for each in logs if each["log_level"] == level)


async def test_a_defect_when_a_bmc_is_closed_is_logged_with_its_node():
    found = bench()
    with capture_logs() as logs:
        start(found)
        found.bmc.fail = {"report": error(BmcReason.UNREACHABLE), "close": ValueError("x")}
        await one_pass(found)
    defects = [each for each in logs if each["log_level"] == "error"]
    assert [(each["node"], each["cause"], each["exc_info"]) for each in defects] == [
        ("n1", "ValueError", found.bmc.fail["close"])
    ]


async def test_the_failures_of_an_object_that_is_gone_are_forgotten():
    found = bench()
    found.bmc.fail["report"] = error(BmcReason.MALFORMED)
    with capture_logs() as logs:
        for _ in range(2):
            worker = start(found)
            await one_pass(found)
            worker.end()
            await worker.run()
    assert [each["log_level"] for each in logs] == ["warning", "warning"]


async def test_a_malformed_answer_is_counted_as_invalid_input_and_other_failures_are_not():
    found = bench()
    start(found)
    for reason in (BmcReason.MALFORMED, BmcReason.UNREACHABLE, BmcReason.MALFORMED):
        found.bmc.fail["report"] = error(reason)
        await one_pass(found)
    assert counted(found.registry, "joulie_invalid_input", source="bmc") == 2
    assert counted(found.registry, "joulie_internal_errors", work="bmc pass") == 0


async def test_a_pass_that_takes_too_long_ends_at_its_deadline_and_the_bmc_is_left():
    hang = asyncio.Event().wait
    found = bench(times=replace(TIMES, pass_timeout_s=0.05))
    start(found)
    found.bmc.fail = {"report": hang, "close": hang}
    async with asyncio.timeout(30):
        await one_pass(found)
    assert conditions(found.api.status)["Reachable"] == ("False", "TimedOut")
    assert found.worker._connected is None


async def test_a_status_that_cannot_be_written_ends_nothing():
    found = bench()
    start(found)
    found.bmc.fail["report"] = error(BmcReason.UNREACHABLE)
    found.api.failure = TransportError("down")
    await one_pass(found)
    found.bmc.fail.clear()
    await one_pass(found)
    assert found.observer.passes == [("Unreachable", 0.0), ("Refused", 0.0)]
    found.api.failure = None
    await one_pass(found)
    assert conditions(found.api.status)["Reachable"] == ("True", "Answers")


async def test_a_reading_is_kept_for_three_intervals_of_the_bmc_and_not_longer():
    found = bench()
    start(found)
    await one_pass(found)
    found.bmc.fail["report"] = error(BmcReason.UNREACHABLE)
    found.time.wall = NOW_S + 180
    await one_pass(found)
    assert found.publisher.status.power_watts == 344.0
    found.time.wall = NOW_S + 181
    await one_pass(found)
    assert found.publisher.status.power_watts is None
    assert found.publisher.status.sampled_at == rfc3339(NOW_S, "seconds")


async def test_a_reading_from_the_future_is_not_kept():
    found = bench()
    start(found)
    await one_pass(found)
    found.bmc.fail["report"] = error(BmcReason.UNREACHABLE)
    found.time.wall = NOW_S - 181
    await one_pass(found)
    assert found.publisher.status.power_watts is None


async def test_a_reading_without_an_interval_is_kept_for_three_passes():
    found = bench(Bmc(replace(REPORT, interval_s=None)))
    start(found)
    await one_pass(found)
    found.bmc.fail["report"] = error(BmcReason.UNREACHABLE)
    found.time.wall = NOW_S + 90
    await one_pass(found)
    assert found.publisher.status.power_watts == 344.0
    found.time.wall = NOW_S + 91
    await one_pass(found)
    assert found.publisher.status.power_watts is None


# --- pauses -----------------------------------------------------------------------------------------------------------


async def test_passes_are_spread_by_chance_and_faster_while_the_power_changes(monkeypatch):
    found = bench()
    start(found, desiredPower="On")
    await one_pass(found)
    assert await paused_s(found.worker, monkeypatch) == (0.0, 27.0)
    found.bmc.now = replace(REPORT, power_state=PowerState.OFF)
    found.api.nodes["n1"] = {}
    await one_pass(found)
    assert await paused_s(found.worker, monkeypatch) == (0.0, 4.5)


async def test_a_bmc_that_refused_the_credentials_is_left_alone_until_the_spec_changes(monkeypatch):
    found = bench()
    start(found)
    found.time.now = 1000.0
    found.bmc.fail["report"] = error(BmcReason.UNAUTHORIZED)
    await one_pass(found)
    found.time.now = 1010.0
    assert await paused_s(found.worker, monkeypatch) == (0.0, 290.0)
    found.worker.update(node_bmc(generation=4))
    assert (await paused_s(found.worker, monkeypatch), found.worker._changed.is_set()) == ((0.0, 290.0), False)
    found.worker.update(node_bmc(desiredPower="On"))
    assert (await paused_s(found.worker, monkeypatch), found.worker._changed.is_set()) == ((0.0, 27.0), True)


@pytest.mark.parametrize(("asked_s", "left_s"), [(7.0, 7.0), (1e9, 300.0), (None, 0.0)])
async def test_a_busy_bmc_is_left_alone_for_as_long_as_it_asks_within_the_limit_and_keeps_its_session(
    monkeypatch, asked_s, left_s
):
    found = bench()
    start(found)
    found.time.now = 1000.0
    found.bmc.fail["report"] = error(BmcReason.BUSY, retry_after_s=asked_s)
    await one_pass(found)
    assert (await paused_s(found.worker, monkeypatch), found.bmc.count("close")) == ((left_s, 27.0), 0)


@pytest.mark.parametrize("failure", [error(BmcReason.MALFORMED), ValueError("x")])
async def test_pauses_after_malformed_answers_and_defects_grow_to_a_limit_and_shrink_after_a_success(
    monkeypatch, failure
):
    found = bench()
    start(found)
    pauses = []
    for _ in range(6):
        found.bmc.fail["report"] = failure
        await one_pass(found)
        pauses.append((await paused_s(found.worker, monkeypatch))[1])
    assert pauses == [45.0, 60.0, 90.0, 150.0, 180.0, 180.0]
    found.bmc.fail.clear()
    await one_pass(found)
    found.bmc.fail["report"] = failure
    await one_pass(found)
    assert (await paused_s(found.worker, monkeypatch))[1] == 45.0


async def test_an_address_that_is_not_approved_is_looked_at_again_at_the_ordinary_pace(monkeypatch):
    found = bench()
    start(found)
    found.bmc.fail["report"] = error(BmcReason.ADDRESS_NOT_APPROVED)
    await one_pass(found)
    assert await paused_s(found.worker, monkeypatch) == (0.0, 27.0)


# --- the object -------------------------------------------------------------------------------------------------------


async def test_a_version_that_cannot_be_used_is_shown_until_there_is_a_valid_one():
    found = bench()
    worker = start(found)
    worker.reject("spec.address: must be a scheme and a host")
    assert worker._changed.is_set()
    await one_pass(found)
    accepted = next(each for each in found.api.status["conditions"] if each["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"], accepted["message"]) == (
        "False",
        "InvalidSpec",
        "spec.address: must be a scheme and a host",
    )
    worker._changed.clear()
    worker.reject("spec.address: must be a scheme and a host")
    assert not worker._changed.is_set()
    worker.reject(None)
    await one_pass(found)
    assert conditions(found.api.status)["Accepted"] == ("True", "Valid")


def test_a_cap_is_overdue_when_it_is_not_requested_or_its_time_is_over():
    entry = BmcCapStatus(watts=300, requested_watts=300, confirmed_watts=300)
    found = bench(status=NodeBMCStatus(cap=entry))
    assert start(found).cap_overdue is True
    ends = {"watts": 300, "expiresAt": rfc3339(NOW_S + 10, "seconds")}
    assert start(found, cap=ends).cap_overdue is False
    found.time.wall += 10
    assert found.worker.cap_overdue is True
    assert start(bench(), cap=ends).cap_overdue is None


@pytest.mark.parametrize(
    ("desired", "written", "expected"),
    [("Off", "Off", True), ("Off", "On", False), ("Off", None, False), ("On", "On", False), (None, "Off", False)],
)
def test_a_server_is_put_to_sleep_by_the_operators_own_request_only(desired, written, expected):
    annotations = {} if written is None else {REQUESTED_POWER: written}
    worker = start(bench(), annotations=annotations, **({} if desired is None else {"desiredPower": desired}))
    assert worker.put_to_sleep is expected


def test_a_worker_has_the_uid_of_its_object_and_the_newest_status():
    found = bench()
    worker = start(found)
    found.publisher.change(power_watts=7.0)
    assert (worker.name, worker.uid, worker.status.power_watts) == ("n1", "u1", 7.0)


# --- a run ------------------------------------------------------------------------------------------------------------


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - there is nothing that would set an event
            await asyncio.sleep(0)


async def running(found, holds):
    task = asyncio.create_task(found.worker.run())
    await until(holds)
    return task


FAST = replace(TIMES, poll_s=0.001, transition_s=0.001, credentials_retry_s=0.001)


async def test_a_worker_goes_on_after_every_kind_of_failure_and_closes_its_bmc_when_it_is_cancelled():
    found = bench(times=FAST)
    start(found)
    for failure in (
        error(BmcReason.MALFORMED),
        ValueError("x"),
        error(BmcReason.UNAUTHORIZED),
        ServerError(500, "", ""),
    ):
        found.bmc.fail["report"] = failure
        passes = len(found.observer.passes)
        task = await running(found, lambda before=passes: len(found.observer.passes) > before + 1)
        found.bmc.fail.clear()
        task.cancel()
        await asyncio.wait({task})
    assert conditions(found.publisher.status)["Reachable"][0] in {"True", "False"}
    assert found.worker._connected is None


async def test_another_address_is_connected_to_after_the_one_before_was_closed():
    found = bench(times=FAST)
    start(found)
    task = await running(found, lambda: found.observer.passes)
    found.worker.update(node_bmc(address="https://192.0.2.2", desiredPower="On"))
    await until(lambda: len(found.connected) == 2)
    assert [each.address for each in found.connected] == ["https://192.0.2.1", "https://192.0.2.2"]
    assert found.bmc.count("close") == 1
    found.worker.update(
        node_bmc(address="https://192.0.2.2", desiredPower="Unmanaged", powerOff="Allowed", cap=cap(300))
    )
    await until(lambda: found.bmc.count("set_limit"))
    assert len(found.connected) == 2
    task.cancel()
    await asyncio.wait({task})
    assert found.bmc.count("close") == 2


def capped_status():
    return NodeBMCStatus(cap=BmcCapStatus(watts=300, requested_watts=300, confirmed_watts=300, original_watts=700))


async def test_an_object_that_is_deleted_has_its_limit_restored_and_its_status_is_not_written():
    found = bench(Bmc(replace(REPORT, limit=PowerLimit(300.0))), capped_status(), times=FAST)
    worker = start(found, cap=cap(300))
    worker.end()
    with capture_logs() as logs:
        async with asyncio.timeout(30):
            await worker.run()
    assert [each for each in found.bmc.calls if each[0] in {"set_limit", "close"}] == [("set_limit", 700.0), ("close",)]
    assert [each.address for each in found.connected] == ["https://192.0.2.1"]
    assert [(each["log_level"], each["node"], each["watts"]) for each in logs] == [("info", "n1", 700.0)]
    assert found.api.applied == []


@pytest.mark.parametrize("failure", [error(BmcReason.REFUSED), ValueError("x")])
async def test_a_limit_that_cannot_be_restored_is_tried_three_times_on_new_connections(failure):
    found = bench(Bmc(replace(REPORT, limit=PowerLimit(300.0))), capped_status(), times=FAST)
    worker = start(found, cap=cap(300))
    found.bmc.fail["report"] = failure
    worker.end()
    with capture_logs() as logs:
        async with asyncio.timeout(30):
            await worker.run()
    assert (found.bmc.count("report"), len(found.connected), found.bmc.count("set_limit")) == (3, 3, 0)
    left = [each for each in logs if each["log_level"] == "error" and "watts" in each]
    assert [(each["node"], each["watts"]) for each in left] == [("n1", 300.0)]


async def test_an_object_without_a_cap_is_left_without_a_connection():
    found = bench(times=FAST)
    worker = start(found)
    worker.end()
    await worker.run()
    assert (found.connected, found.bmc.calls) == ([], [])


async def test_a_pass_that_is_under_way_when_the_object_is_deleted_does_not_write_its_status():
    found = bench(times=FAST)
    worker = start(found)

    async def deleted():
        worker.end()

    found.bmc.fail["report"] = deleted
    await worker.run()
    assert (found.api.applied, found.bmc.count("report")) == ([], 1)
