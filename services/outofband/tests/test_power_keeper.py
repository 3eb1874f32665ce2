"""The power of one server: which resets are sent, and what is read and stored before."""

from dataclasses import replace

import pytest
from services.outofband.tests.doubles import CAPABILITY, NOW_S, REPORT, Bmc, bench, node_bmc, raw_node_bmc
from services.outofband.tests.objects import ready_node

from joulie_api.errors import NotFound, ServerError
from joulie_core.kinds import NodeBMCStatus
from joulie_core.kinds.node_bmc import BmcBoot, PowerState
from joulie_core.timestamps import rfc3339
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.power_keeper import PowerKeeper
from joulie_outofband.reasons import BmcError, BmcReason

OPERATORS = {"joulie.io/requested-power": "Off"}
SHUTDOWN, FORCED = ("reset", "GracefulShutdown"), ("reset", "ForceOff")
READ_BMC, READ = ("nodebmcs.joulie.io", "n1", None), ("nodes", "n1", None)
PROOF = BmcFinding.unknown(BmcReason.NOT_TRIED)


def start(state=PowerState.ON, *, status=None, node="before", tainted=False, answers=True):
    capability = CAPABILITY if answers else CAPABILITY.model_copy(update={"reset_types": ("On",)})
    report = replace(REPORT, power_state=state, answers=answers, capability=capability)
    found = bench(Bmc(report), status)
    found.api.nodes["n1"] = NotFound(404, "", "") if node is None else ready_node(node, tainted=tainted)
    found.keeper = PowerKeeper("n1", found.publisher, found.parts)
    return found


async def keep(found, desired="Off", *, annotations=None, power_off="Allowed", forced_off="AfterShutdown", newest=None):
    given = {"annotations": annotations, "desiredPower": desired, "powerOff": power_off, "forcedOff": forced_off}
    wanted = node_bmc(**given)
    found.api.bmcs["n1"] = raw_node_bmc(**given) if newest is None else newest
    finding = await found.keeper.keep(found.bmc, wanted, found.bmc.now)
    return finding.status.value, finding.reason, finding.message


def become(found, state):
    found.bmc.now = replace(found.bmc.now, power_state=state)


async def test_a_reset_is_requested_counted_and_awaited():
    found = start()
    assert not found.keeper.is_changing
    assert await keep(found) == ("False", BmcReason.CHANGING, "GracefulShutdown requested")
    assert (found.bmc.calls, found.observer.actions, found.keeper.is_changing) == ([SHUTDOWN], [("reset", True)], True)
    assert await keep(found) == ("False", BmcReason.CHANGING, "the server is On")
    found.time.now = 180.0
    await keep(found)
    assert found.bmc.calls == [SHUTDOWN, FORCED]
    become(found, PowerState.OFF)
    assert await keep(found) == ("True", BmcReason.AS_DESIRED, "")
    assert not found.keeper.is_changing


async def test_nothing_is_requested_by_a_process_that_does_not_lead():
    found = start()
    found.leads = False
    await keep(found)
    become(found, PowerState.OFF)
    await keep(found, "On")
    assert (found.bmc.calls, found.api.applied, found.keeper.is_changing) == ([], [], False)


@pytest.mark.parametrize("reason", [BmcReason.REFUSED, BmcReason.FAILED])
async def test_a_shutdown_that_is_refused_is_repeated_and_forced_only_after_one_that_was_taken(reason):
    found = start()
    found.bmc.fail["reset"] = BmcError(reason, "no")
    assert await keep(found) == ("False", reason, "GracefulShutdown: no")
    assert found.observer.actions == [("reset", False)]
    found.bmc.fail.clear()
    assert (await keep(found))[1] is BmcReason.REFUSED
    assert (found.bmc.calls, found.keeper.is_changing) == ([SHUTDOWN], True)
    found.time.now = 60.0
    await keep(found)
    assert found.bmc.calls == [SHUTDOWN, SHUTDOWN]
    found.bmc.fail["reset"] = BmcError(reason, "no")
    found.time.now = 60.0 + 180.0
    await keep(found)
    assert found.bmc.calls == [SHUTDOWN, SHUTDOWN, FORCED]


async def test_a_shutdown_that_is_refused_is_forced_at_once_by_a_persons_word():
    found = start()
    found.bmc.fail["reset"] = BmcError(BmcReason.REFUSED, "no")
    await keep(found, forced_off="Allowed")
    await keep(found, forced_off="Allowed")
    assert found.bmc.calls == [SHUTDOWN, FORCED]


async def test_a_shutdown_that_a_busy_bmc_did_not_take_is_repeated():
    found = start()
    found.bmc.fail["reset"] = BmcError(BmcReason.BUSY, "busy")
    assert (await keep(found))[1] is BmcReason.BUSY
    found.bmc.fail.clear()
    await keep(found)
    assert found.bmc.calls == [SHUTDOWN, SHUTDOWN]


async def test_a_shutdown_without_an_answer_may_have_been_carried_out_and_is_awaited():
    found = start()
    found.bmc.fail["reset"] = BmcError(BmcReason.TIMED_OUT, "late")
    await keep(found)
    found.bmc.fail.clear()
    await keep(found)
    assert (found.bmc.calls, found.keeper.is_changing) == ([SHUTDOWN], True)


# --- power-offs of the operator ---------------------------------------------------------------------------------------


async def test_a_power_off_of_the_operator_needs_the_taint_of_sleeping_nodes():
    found = start()
    status, reason, message = await keep(found, annotations=OPERATORS)
    assert (status, reason) == ("False", BmcReason.NODE_NOT_TAINTED)
    assert "Remove spec.desiredPower" in message
    assert (found.bmc.calls, found.api.read, found.keeper.is_changing) == ([], [READ_BMC, READ], False)
    found.api.nodes["n1"] = ready_node("before", tainted=True)
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN]


@pytest.mark.parametrize(
    "newest",
    [
        raw_node_bmc(annotations={"joulie.io/requested-power": "On"}, desiredPower="On"),
        raw_node_bmc(),
        raw_node_bmc(desiredPower="Off"),
        NotFound(404, "", ""),
        {"metadata": {"name": "n1"}, "spec": {"desiredPower": 1}},
    ],
    ids=["woken", "withdrawn", "of a person", "gone", "unreadable"],
)
async def test_a_power_off_that_the_operator_has_withdrawn_is_not_carried_out_though_the_watch_is_behind(newest):
    found = start(tainted=True)
    withdrawn = "the power-off was withdrawn meanwhile: nothing was requested"
    assert await keep(found, annotations=OPERATORS, newest=newest) == ("False", BmcReason.CHANGING, withdrawn)
    assert (found.bmc.calls, found.keeper.is_changing) == ([], False)
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN]


async def test_a_power_off_that_is_withdrawn_after_the_shutdown_is_not_forced():
    found = start(tainted=True)
    await keep(found, annotations=OPERATORS)
    found.time.now = 180.0
    await keep(found, annotations=OPERATORS, newest=raw_node_bmc())
    assert found.bmc.calls == [SHUTDOWN]


async def test_without_the_newest_nodebmc_nothing_is_powered_off():
    found = start(tainted=True)
    with pytest.raises(ServerError):
        await keep(found, annotations=OPERATORS, newest=ServerError(500, "", ""))
    assert found.bmc.calls == []


async def test_a_power_off_of_the_operator_to_a_node_that_is_gone_is_not_carried_out():
    found = start(node=None)
    assert (await keep(found, annotations=OPERATORS))[1] is BmcReason.NODE_NOT_TAINTED
    assert found.bmc.calls == []


async def test_a_node_that_cannot_be_read_is_not_powered_off():
    found = start()
    found.api.nodes["n1"] = ServerError(500, "", "")
    with pytest.raises(ServerError):
        await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == []


async def test_a_taint_that_goes_keeps_the_power_from_being_forced_off_and_a_new_one_begins_gracefully():
    found = start(tainted=True)
    await keep(found, annotations=OPERATORS)
    found.api.nodes["n1"] = ready_node("before")
    found.time.now = 180.0
    assert (await keep(found, annotations=OPERATORS))[1] is BmcReason.NODE_NOT_TAINTED
    found.api.nodes["n1"] = ready_node("before", tainted=True)
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN, SHUTDOWN]


async def test_the_request_of_a_person_needs_no_taint_and_no_look_at_pods():
    found = start()
    await keep(found, annotations={"joulie.io/requested-power": "On"})
    assert (found.bmc.calls, found.api.read, found.api.listed) == ([SHUTDOWN], [], [])


# --- pods that would be lost ------------------------------------------------------------------------------------------

LIST = ("pods", "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", True)


def pod(name, owner=None, **metadata):
    owners = [{"kind": owner, "name": "o", "controller": True}] if owner else []
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": owners, **metadata}}


@pytest.mark.parametrize("owner", [None, "ReplicaSet", "Job", "Workflow"])
async def test_a_node_with_a_pod_is_not_powered_off_however_it_came_there(owner):
    found = start(tainted=True)
    found.api.pods = [[pod("agent", "DaemonSet"), pod("debug", owner)]]
    status, reason, message = await keep(found, annotations=OPERATORS)
    assert (status, reason) == ("False", BmcReason.PODS_ON_NODE)
    assert message.startswith("default/debug is on the node")
    assert (found.bmc.calls, found.api.listed, found.keeper.is_changing) == ([], [LIST], False)


async def test_pods_that_end_with_the_node_keep_nothing_on():
    found = start(tainted=True)
    static = pod("static", annotations={"kubernetes.io/config.mirror": "abc"})
    found.api.pods = [[pod("agent", "DaemonSet"), pod("proxy", "Node"), static]]
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN]


async def test_a_node_whose_pods_cannot_be_listed_is_not_powered_off():
    found = start(tainted=True)
    found.api.pods = [ServerError(500, "", "")]
    with pytest.raises(ServerError):
        await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == []


async def test_nothing_is_between_the_look_at_pods_and_the_request():
    found = start(tainted=True)
    order = found.api.listed = found.api.read = found.bmc.calls
    await keep(found, annotations=OPERATORS)
    assert order == [READ_BMC, READ, LIST, SHUTDOWN, LIST]


async def test_a_pod_that_comes_while_the_shutdown_is_requested_is_named_and_the_power_is_not_forced_off():
    found = start(tainted=True)
    late = [pod("late")]
    found.api.pods = [[], late]
    status, reason, message = await keep(found, annotations=OPERATORS)
    assert (status, reason, found.bmc.calls) == ("False", BmcReason.PODS_ON_NODE, [SHUTDOWN])
    assert message.startswith("default/late came while the server was asked to shut down")
    assert found.keeper.is_changing
    found.time.now, found.api.pods = 180.0, [late]
    assert (await keep(found, annotations=OPERATORS))[1] is BmcReason.PODS_ON_NODE
    assert found.bmc.calls == [SHUTDOWN]
    # Gone, it is asked again, and not forced at once.
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN, SHUTDOWN]


@pytest.mark.parametrize("desired", ["On", "Unmanaged"])
async def test_a_server_that_shuts_down_is_looked_at_often_until_it_is_off_whatever_is_desired_by_then(desired):
    found = start(tainted=True)
    await keep(found, annotations=OPERATORS)
    found.time.now = 179.0
    assert (await keep(found, desired))[0] == "True"
    assert found.keeper.is_changing
    become(found, PowerState.OFF)
    await keep(found, desired)
    if desired == "On":
        assert found.bmc.calls == [SHUTDOWN, ("reset", "On")]
    else:
        assert not found.keeper.is_changing


async def test_a_server_that_ignored_a_shutdown_is_looked_at_often_until_its_deadline():
    found = start(tainted=True)
    await keep(found, annotations=OPERATORS)
    found.time.now = 180.0
    await keep(found, "Unmanaged")
    assert not found.keeper.is_changing


async def test_a_shutdown_is_awaited_where_the_pods_after_it_cannot_be_listed():
    found = start(tainted=True)
    found.api.pods = [[], ServerError(500, "", "")]
    with pytest.raises(ServerError):
        await keep(found, annotations=OPERATORS)
    assert (found.bmc.calls, found.keeper.is_changing) == ([SHUTDOWN], True)
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN]


async def test_pods_are_not_asked_for_after_a_shutdown_that_was_refused():
    found = start(tainted=True)
    found.bmc.fail["reset"] = BmcError(BmcReason.REFUSED, "no")
    assert (await keep(found, annotations=OPERATORS))[1] is BmcReason.REFUSED
    assert found.api.listed == [LIST]


async def test_a_node_is_powered_on_whatever_pods_it_has():
    found = start(PowerState.OFF)
    await keep(found, "On", annotations={"joulie.io/requested-power": "On"})
    assert (found.bmc.calls, found.api.listed) == ([("reset", "On")], [])


async def test_a_server_that_a_person_switched_on_stays_on_until_the_next_request():
    found = start(PowerState.OFF, tainted=True)
    await keep(found, annotations=OPERATORS)
    become(found, PowerState.ON)
    status, reason, message = await keep(found, annotations=OPERATORS)
    assert (status, reason, "switched on by a person" in message) == ("False", BmcReason.SWITCHED_ON, True)
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == []
    await keep(found, "On", annotations={"joulie.io/requested-power": "On"})
    await keep(found, annotations=OPERATORS)
    assert found.bmc.calls == [SHUTDOWN]


# --- boots ------------------------------------------------------------------------------------------------------------


async def test_a_boot_is_stored_with_the_boot_id_before_the_power_on_is_requested():
    found = start(PowerState.OFF)
    found.api.on_apply = lambda: found.bmc.calls.append(("stored",))
    await keep(found, "On")
    assert found.bmc.calls == [("stored",), ("reset", "On")]
    assert found.api.status["pendingBoot"] == {"requestedAt": rfc3339(NOW_S), "bootId": "before"}
    found.time.wall, found.time.now = NOW_S + 60, 60.0
    await keep(found, "On")
    assert found.bmc.calls == [("stored",), ("reset", "On"), ("reset", "On")]
    assert found.publisher.status.pending_boot.requested_at == rfc3339(NOW_S)


async def test_a_power_on_is_not_requested_where_the_boot_cannot_be_stored():
    found = start(PowerState.OFF)
    found.api.failure = ServerError(500, "", "")
    with pytest.raises(ServerError):
        await keep(found, "On")
    assert found.bmc.calls == []


async def test_a_node_that_was_never_there_has_no_boot_id():
    found = start(PowerState.OFF, node=None)
    await keep(found, "On")
    assert found.api.status["pendingBoot"]["bootId"] == ""


async def test_a_boot_is_given_up_when_the_server_shall_be_off():
    found = start(PowerState.ON, status=NodeBMCStatus(pending_boot=BmcBoot(requested_at=rfc3339(NOW_S))))
    assert found.keeper.is_changing
    await keep(found, "On")
    assert found.publisher.status.pending_boot is not None
    await keep(found, "Off")
    assert found.publisher.status.pending_boot is None


def booting(**how):
    boot = BmcBoot(requested_at=rfc3339(NOW_S), boot_id="before")
    return start(status=NodeBMCStatus(pending_boot=boot, recent_boots=(500.0,)), **how)


async def boots(found, proof=PROOF):
    return await found.keeper.boots(found.bmc.now, proof=proof)


async def test_a_boot_that_is_complete_is_timed_and_proves_the_wake_path():
    found = booting(node="after")
    found.time.wall = NOW_S + 612.34
    finding = await boots(found)
    assert (finding.status.value, finding.reason) == ("True", BmcReason.WOKEN)
    assert finding.message == "powered on, and the node became ready"
    status = found.publisher.status
    assert (status.pending_boot, status.recent_boots, status.boot_seconds) == (None, (500.0, 612.3), 612.3)


async def test_a_node_that_became_ready_since_the_request_has_booted_unless_its_clock_is_ahead():
    found = booting()
    (ready,) = found.api.nodes["n1"]["status"]["conditions"]
    ready["lastTransitionTime"] = rfc3339(NOW_S + 61)
    found.time.wall = NOW_S + 60
    assert await boots(found) is PROOF
    found.time.wall = NOW_S + 61
    assert (await boots(found)).reason is BmcReason.WOKEN


async def test_a_boot_that_is_not_complete_is_awaited_until_its_timeout():
    found = booting()
    found.time.wall = NOW_S + 1200
    assert await boots(found) is PROOF
    assert found.publisher.status.pending_boot is not None
    found.time.wall = NOW_S + 1201
    finding = await boots(found)
    assert (finding.status.value, finding.reason, finding.message) == (
        "False",
        BmcReason.BOOT_TIMED_OUT,
        "not ready after 1201 s",
    )
    assert (found.publisher.status.pending_boot, found.publisher.status.boot_seconds) == (None, None)


async def test_a_boot_that_was_requested_ahead_of_the_clock_is_awaited_from_now_and_of_unknown_length():
    found = booting(node="before")
    found.time.wall = NOW_S - 3600
    assert await boots(found) == PROOF
    assert found.publisher.status.pending_boot.requested_at == rfc3339(NOW_S - 3600)
    found.time.wall = NOW_S - 3600 + 1201
    assert (await boots(found)).reason is BmcReason.BOOT_TIMED_OUT
    found = booting(node="after")
    found.time.wall = NOW_S - 3600
    assert (await boots(found)).reason is BmcReason.WOKEN
    assert found.publisher.status.recent_boots == (500.0,)


@pytest.mark.parametrize("state", [PowerState.OFF, PowerState.POWERING_ON, PowerState.UNKNOWN])
async def test_a_node_that_is_ready_while_its_server_is_not_on_has_not_booted(state):
    found = booting(node="after")
    become(found, state)
    assert (await boots(found), found.api.read) == (PROOF, [])


async def test_a_server_that_never_answers_has_booted_with_its_node():
    found = booting(node="after", state=PowerState.UNKNOWN, answers=False)
    assert (await boots(found)).reason is BmcReason.WOKEN


async def test_without_a_boot_the_proof_stays_and_no_node_is_read():
    found = start()
    assert (await boots(found), await boots(found, None), found.api.read) == (PROOF, None, [])


# --- a server that never answers --------------------------------------------------------------------------------------


async def test_a_server_that_never_answers_is_on_while_its_node_is_ready():
    found = start(PowerState.UNKNOWN, answers=False)
    assert await keep(found, "On", power_off="Never") == ("True", BmcReason.AS_DESIRED, "")
    found.api.nodes["n1"] = NotFound(404, "", "")
    await keep(found, "On", power_off="Never")
    assert found.bmc.calls == [("reset", "On")]


async def test_the_node_of_a_server_that_never_answers_is_not_read_unless_it_shall_be_on():
    found = start(PowerState.UNKNOWN, answers=False)
    await keep(found, "Unmanaged", power_off="Never")
    assert found.api.read == []
    answering = start(PowerState.UNKNOWN)
    assert (await keep(answering, "On"))[1] is BmcReason.POWER_STATE_UNKNOWN
    assert answering.api.read == []
