"""One cap: what is stored and what is written, in which sequence."""

from dataclasses import replace

import pytest
from services.outofband.tests.doubles import CAPABILITY, NOW_S, REPORT, Bmc, bench, node_bmc

from joulie_api.errors import ServerError
from joulie_core.kinds import NodeBMCStatus
from joulie_core.kinds.node_bmc import BmcCapStatus, CapOwner, LimitException
from joulie_core.timestamps import rfc3339
from joulie_outofband.bmc import PowerLimit
from joulie_outofband.cap_keeper import CapKeeper
from joulie_outofband.reasons import BmcError, BmcReason

CAP = {"watts": 300, "expiresAt": rfc3339(NOW_S + 60, "seconds")}
IN_FORCE = BmcCapStatus(watts=300, requested_watts=300, confirmed_watts=300, original_watts=700, owner=CapOwner.JOULIE)


def start(watts=None, entry=None):
    found = bench(Bmc(replace(REPORT, limit=PowerLimit(watts))), NodeBMCStatus(cap=entry))
    found.keeper = CapKeeper("n1", found.publisher, found.parts)
    return found


async def keep(found, cap=CAP):
    spec = node_bmc(**({} if cap is None else {"cap": cap})).model.spec
    finding = await found.keeper.keep(found.bmc, spec, found.bmc.now)
    return finding.status.value, finding.reason, finding.message


def entry(found):
    return found.publisher.status.cap


async def test_the_original_is_stored_before_the_cap_is_written_and_read_back():
    found = start(700.0)
    found.api.on_apply = lambda: found.bmc.calls.append(("stored",))
    assert await keep(found) == ("True", BmcReason.IN_FORCE, "300 W in force")
    assert found.bmc.calls == [("stored",), ("set_limit", 300.0), ("limit",)]
    assert found.api.status["cap"] == {
        "watts": 700.0,
        "requestedWatts": 300.0,
        "originalWatts": 700.0,
        "owner": "Joulie",
    }
    assert (entry(found), found.keeper.written_watts) == (IN_FORCE, 300.0)
    assert found.observer.actions == [("cap", True)]


async def test_nothing_is_written_where_the_original_cannot_be_stored():
    found = start(700.0)
    found.api.failure = ServerError(500, "", "")
    with pytest.raises(ServerError):
        await keep(found)
    assert found.bmc.calls == []


async def test_a_cap_in_force_is_not_written_again():
    found = start(300.0, IN_FORCE)
    assert await keep(found) == ("True", BmcReason.IN_FORCE, "300 W in force")
    assert (found.bmc.calls, found.api.applied) == ([], [])


async def test_a_write_that_fails_is_reported_and_may_have_been_carried_out():
    found = start(700.0)
    found.bmc.fail["set_limit"] = BmcError(BmcReason.TIMED_OUT, "no answer")
    assert await keep(found) == ("Unknown", BmcReason.TIMED_OUT, "no answer")
    assert (entry(found).requested_watts, entry(found).confirmed_watts) == (300.0, None)
    assert found.observer.actions == [("cap", False)]
    found.bmc.fail.clear()
    await keep(found)
    assert (entry(found).original_watts, found.bmc.count("set_limit")) == (700.0, 2)


async def test_a_limit_that_is_not_there_after_the_write_is_not_in_force():
    found = start(700.0)

    def gone(_watts):
        return None

    found.bmc.reads = gone
    assert await keep(found) == ("False", BmcReason.NOT_READ_BACK, "300 W written, no limit read")


async def test_a_bmc_that_loses_its_limit_with_the_write_is_not_in_force():
    found = start(700.0)

    async def without(_):
        found.bmc.calls.append(("set_limit", _))
        found.bmc.now = replace(REPORT, limit=None)

    found.bmc.set_limit = without
    assert (await keep(found))[:2] == ("False", BmcReason.NOT_READ_BACK)
    assert entry(found).confirmed_watts is None


@pytest.mark.parametrize("cap", [None, {**CAP, "expiresAt": rfc3339(NOW_S, "seconds")}])
async def test_the_original_is_restored_when_a_cap_is_removed_or_ends(cap):
    found = start(300.0, IN_FORCE)
    reason = (await keep(found, cap))[1]
    assert reason is (BmcReason.NO_CAP if cap is None else BmcReason.EXPIRED)
    assert found.bmc.calls == [("set_limit", 700.0), ("limit",)]
    assert (entry(found), found.keeper.written_watts) == (BmcCapStatus(watts=700), None)
    assert found.observer.actions == [("restore", True)]


async def test_a_restore_that_fails_is_reported_and_tried_again():
    found = start(300.0, IN_FORCE)
    found.bmc.fail["set_limit"] = BmcError(BmcReason.BUSY, "busy")
    assert await keep(found, None) == ("Unknown", BmcReason.BUSY, "busy")
    assert (found.keeper.written_watts, found.observer.actions) == (300.0, [("restore", False)])
    found.bmc.fail.clear()
    await keep(found, None)
    assert found.keeper.written_watts is None


async def test_a_cap_that_is_still_read_after_its_restore_is_not_forgotten():
    found = start(300.0, IN_FORCE)

    def stays(_watts):
        return 300.0

    found.bmc.reads = stays
    assert await keep(found, None) == ("Unknown", BmcReason.NOT_READ_BACK, "the cap is still read after its end")
    assert found.keeper.written_watts == 300.0


async def test_an_original_within_a_watt_of_the_cap_counts_as_restored():
    close = IN_FORCE.model_copy(update={"original_watts": 300.5})
    found = start(300.0, close)
    assert (await keep(found, None))[1] is BmcReason.NO_CAP
    assert entry(found) == BmcCapStatus(watts=300.5)


async def test_a_limit_that_is_gone_after_the_restore_is_none():
    found = start(300.0, IN_FORCE.model_copy(update={"original_watts": None}))

    async def without(watts):
        found.bmc.calls.append(("set_limit", watts))
        found.bmc.now = replace(REPORT, limit=None)

    found.bmc.set_limit = without
    assert (await keep(found, None))[1] is BmcReason.NO_CAP
    assert (found.bmc.calls, entry(found)) == ([("set_limit", None), ("limit",)], BmcCapStatus())


async def test_nothing_is_written_by_a_process_that_does_not_lead():
    for entry_, cap in ((None, CAP), (IN_FORCE, None)):
        found = start(300.0, entry_)
        found.bmc.now = replace(REPORT, limit=PowerLimit(700.0 if entry_ is None else 300.0))
        found.leads = False
        await keep(found, cap)
        assert (found.bmc.calls, found.api.applied, found.observer.actions) == ([], [], [])


@pytest.mark.parametrize(("cap", "reason"), [(CAP, BmcReason.NO_LIMIT), (None, BmcReason.NO_CAP)])
async def test_a_bmc_without_a_limit_has_no_entry(cap, reason):
    found = start(300.0, IN_FORCE)
    found.bmc.now = replace(REPORT, limit=None)
    assert await keep(found, cap) == ("False", reason, "")
    assert (entry(found), found.bmc.calls) == (None, [])


async def test_the_limit_exception_of_the_bmc_refuses_a_cap():
    found = start(700.0)
    capability = CAPABILITY.model_copy(update={"limit_exception": LimitException.HARD_POWER_OFF})
    found.bmc.now = replace(found.bmc.now, capability=capability)
    assert (await keep(found))[1] is BmcReason.HARD_POWER_OFF
    assert (found.bmc.calls, entry(found)) == ([], BmcCapStatus(watts=700))


# --- BMCs that do not take a cap --------------------------------------------------------------------------------------

REFUSED = ["Refused", "LicenceMissing", "TagRefused", "Unauthorized", "NoPowerLimit"]


def ignores(_watts):
    return 700.0


@pytest.mark.parametrize("reason", REFUSED)
async def test_a_cap_that_the_bmc_refuses_is_not_requested_any_more_and_tried_again_after_a_pause(reason):
    found = start(700.0)
    found.bmc.fail["set_limit"] = BmcError(BmcReason(reason), "403")
    why = "403; the cap is not in force, and is tried again in 15 s"
    assert await keep(found) == ("False", BmcReason(reason), why)
    assert (entry(found), found.keeper.written_watts) == (BmcCapStatus(watts=700), None)
    assert found.bmc.calls == [("set_limit", 300.0), ("limit",)]
    found.time.now = 14.9
    assert await keep(found) == ("False", BmcReason(reason), why)
    assert (found.bmc.count("set_limit"), entry(found)) == (1, BmcCapStatus(watts=700))
    found.time.now = 15.0
    assert (await keep(found))[2] == "403; the cap is not in force, and is tried again in 30 s"
    found.bmc.fail.clear()
    found.time.now = 46.0
    assert (await keep(found))[1] is BmcReason.IN_FORCE
    assert entry(found) == IN_FORCE


async def test_the_pauses_after_refusals_are_bounded():
    found = start(700.0)
    found.bmc.fail["set_limit"] = BmcError(BmcReason.REFUSED, "no")
    for _ in range(10):
        message = (await keep(found))[2]
        found.time.now += 1000
    assert message.endswith("tried again in 150 s")


async def test_a_refusal_of_a_cap_that_is_in_force_nevertheless_is_believed_by_what_is_read():
    found = start(700.0)

    async def refused(watts):
        found.bmc.now = replace(REPORT, limit=PowerLimit(watts))
        raise BmcError(BmcReason.REFUSED, "no")

    found.bmc.set_limit = refused
    assert (await keep(found))[1] is BmcReason.IN_FORCE
    assert entry(found) == IN_FORCE


async def test_another_cap_is_tried_at_once():
    found = start(700.0)
    found.bmc.fail["set_limit"] = BmcError(BmcReason.REFUSED, "no")
    await keep(found)
    found.bmc.fail.clear()
    assert (await keep(found, CAP | {"watts": 400}))[1] is BmcReason.IN_FORCE


async def test_a_cap_that_the_bmc_ignores_counts_as_not_taken_after_five_minutes():
    found = start(700.0)
    found.bmc.reads = ignores
    assert await keep(found) == ("False", BmcReason.NOT_READ_BACK, "300 W written, 700 W read")
    found.time.now = 299.0
    assert (await keep(found))[1] is BmcReason.NOT_READ_BACK
    assert found.keeper.written_watts == 300.0
    found.time.now = 300.0
    why = "300 W written, 700 W read; the cap is not in force, and is tried again in 15 s"
    assert await keep(found) == ("False", BmcReason.NOT_TAKEN, why)
    assert (entry(found), found.bmc.count("set_limit")) == (BmcCapStatus(watts=700), 1)
    found.time.now = 316.0
    assert (await keep(found))[1] is BmcReason.NOT_READ_BACK
    assert found.bmc.count("set_limit") == 2
    found.time.now = 615.0
    assert (await keep(found))[1] is BmcReason.NOT_READ_BACK
    found.time.now = 616.0
    assert (await keep(found))[1] is BmcReason.NOT_TAKEN


async def test_a_cap_whose_writes_have_no_answer_counts_as_not_taken_after_five_minutes():
    found = start(700.0)
    found.bmc.fail["set_limit"] = BmcError(BmcReason.TIMED_OUT, "late")
    for found.time.now in (0.0, 150.0, 299.0):
        assert (await keep(found))[:2] == ("Unknown", BmcReason.TIMED_OUT)
        assert entry(found).requested_watts == 300.0
    found.time.now = 300.0
    assert (await keep(found))[:2] == ("False", BmcReason.NOT_TAKEN)
    assert (entry(found), found.bmc.count("set_limit")) == (BmcCapStatus(watts=700), 3)


async def test_a_cap_that_is_taken_late_is_in_force_and_restored():
    found = start(700.0)
    found.bmc.reads = ignores
    await keep(found)
    found.bmc.now = replace(REPORT, limit=PowerLimit(300.0))
    assert (await keep(found))[1] is BmcReason.IN_FORCE
    assert (entry(found), found.bmc.count("set_limit")) == (IN_FORCE, 1)


@pytest.mark.parametrize("cap", [CAP, None])
async def test_a_cap_that_is_taken_after_it_counted_as_not_taken_is_not_left_at_the_bmc(cap):
    found = start(700.0)
    found.bmc.reads = ignores
    await keep(found)
    found.time.now = 300.0
    await keep(found)
    assert found.keeper.written_watts is None
    found.bmc.now = replace(REPORT, limit=PowerLimit(300.0))
    found.bmc.reads = lambda watts: watts
    await keep(found, cap)
    if cap is None:
        assert (entry(found), found.bmc.calls[-2:]) == (BmcCapStatus(watts=700), [("set_limit", 700.0), ("limit",)])
    else:
        assert (entry(found), found.bmc.count("set_limit")) == (IN_FORCE, 1)


async def test_a_cap_that_was_in_force_for_long_and_is_undone_by_another_program_is_written_again():
    found = start(700.0)
    await keep(found)
    found.time.now = 1000.0
    found.bmc.now = replace(REPORT, limit=PowerLimit(700.0))
    assert (await keep(found))[1] is BmcReason.IN_FORCE
    assert found.bmc.count("set_limit") == 2


async def test_a_cap_that_the_bmc_rounds_up_is_its_own_and_stays():
    found = start(700.0)
    found.bmc.reads = lambda _: 320.0
    for found.time.now in (0.0, 1000.0):
        assert await keep(found) == ("False", BmcReason.NOT_READ_BACK, "300 W written, 320 W read")
    assert (found.keeper.written_watts, found.bmc.count("set_limit")) == (300.0, 1)


def test_without_an_entry_nothing_was_written():
    assert start().keeper.written_watts is None
    assert start(entry=BmcCapStatus(watts=300)).keeper.written_watts is None
