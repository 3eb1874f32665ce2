"""A server that shuts down looks awake: when one is believed to be on, when a boot has failed, and who wakes it."""

from dataclasses import replace

import pytest

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.sleep import (
    NodePowerFacts,
    Shutdown,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepReason,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
)
from joulie_core.sleep.machine import STALE_AFTER_S, advance
from joulie_core.sleep.shutdowns import longest_shutdown_s, may_go_off

NOW = 100_000.0
SETTINGS = SleepSettings(min_awake={"count": 1, "spare": 0}, off_timeout_seconds=30.0, boot_timeout_seconds=600.0)
#: Longer than any shutdown by the defaults of the out-of-band service.
LONG = longest_shutdown_s(SETTINGS) + 1.0
POWER = NodePowerFacts(state=PowerState.ON, sampled_at_s=NOW, reachable=True, wake_proven=True, off_allowed=True)
#: A node that shuts down: on and ready for all that is seen.
ON = SleepNode(
    name="a",
    group="cpu",
    free={"cpu": 8.0},
    idle_watts=100.0,
    ready=True,
    cordoned=True,
    protected_pods=0,
    power=POWER,
    boot_id="first",
)
OFF = replace(ON, ready=False, power=replace(POWER, state=PowerState.OFF))
SILENT = replace(POWER, state=PowerState.UNKNOWN, reachable=False)
STALE = replace(POWER, sampled_at_s=NOW - STALE_AFTER_S - 1.0)
REQUESTED = Shutdown(NOW - 10.0, "first")
POD = SleepPod({"cpu": 1.0})
BUSY = replace(ON, name="busy", cordoned=False, protected_pods=1, zone="other")


def record(state, **changes):
    return SleepRecord(state=state, **({"since_s": NOW - 10.0} | changes))


def waking(**changes):
    return record(SleepState.WAKING, **({"shutdown": REQUESTED} | changes))


def after(node, before, *, now_s=NOW, settings=SETTINGS):
    """Return the next record of a node that is not needed by itself."""
    fresh = replace(node, power=replace(node.power, sampled_at_s=node.power.sampled_at_s + now_s - NOW))
    cluster = SleepCluster(nodes=(fresh, BUSY), pending=())
    return decide(cluster, {fresh.name: before, BUSY.name: record(SleepState.AWAKE)}, now_s, settings)[fresh.name]


def result(node, before, **options):
    found = after(node, before, **options)
    return found.state, found.reason


# --- when a server that was asked to go off is on ---------------------------------------------------------------------


def test_the_boot_and_the_time_of_a_power_off_are_remembered_before_it_is_requested():
    found = after(ON, record(SleepState.DRAINING))
    assert (found.state, found.shutdown) == (SleepState.POWERING_OFF, Shutdown(NOW, "first"))


@pytest.mark.parametrize("changes", [{"protected_pods": 1}, {"movable_pods": (POD,)}])
def test_a_node_with_a_pod_that_shuts_down_is_not_awake_while_bmc_and_kubelet_still_say_so(changes):
    node = replace(ON, **changes)
    found = after(node, record(SleepState.POWERING_OFF, shutdown=REQUESTED))
    assert (found.state, found.reason) == (SleepState.WAKING, SleepReason.PODS_PRESENT)
    later = after(node, found, now_s=NOW + longest_shutdown_s(SETTINGS))
    assert later.state is SleepState.WAKING


def test_an_off_time_that_is_shorter_than_a_shutdown_does_not_make_a_node_awake():
    found = after(ON, record(SleepState.POWERING_OFF, since_s=NOW - 31.0, shutdown=REQUESTED))
    assert (found.state, found.reason) == (SleepState.WAKING, SleepReason.OFF_TIMEOUT)
    assert after(ON, found, now_s=NOW + 31.0).state is SleepState.WAKING
    assert after(ON, found, now_s=NOW + LONG).state is SleepState.AWAKE


def test_an_off_time_that_is_longer_than_a_shutdown_counts():
    settings = SETTINGS.model_copy(update={"off_timeout_seconds": 900.0})
    assert longest_shutdown_s(settings) == 900.0
    assert after(ON, waking(), now_s=NOW + LONG, settings=settings).state is SleepState.WAKING


def test_the_time_of_a_shutdown_counts_from_the_last_moment_at_which_it_may_have_been_requested():
    found = after(replace(ON, protected_pods=1), record(SleepState.POWERING_OFF, shutdown=REQUESTED))
    assert found.shutdown == Shutdown(NOW, "first", sampled_at_s=NOW)


def test_a_node_whose_bmc_has_read_off_and_then_on_is_awake():
    off = after(OFF, waking())
    assert (off.state, off.shutdown.off_seen) == (SleepState.WAKING, True)
    assert after(ON, off).state is SleepState.AWAKE


@pytest.mark.parametrize("boot_id", ["first", "second"])
def test_a_server_that_is_switched_on_while_off_is_requested_may_be_shut_down_again(boot_id):
    """By an out-of-band service that has started since: it does not know that the server was off."""
    seen = replace(REQUESTED, off_seen=True)
    on = replace(ON, boot_id=boot_id)
    for state in (SleepState.ASLEEP, SleepState.POWERING_OFF):
        waking = after(on, record(state, since_s=NOW - 31.0, shutdown=seen))
        assert (waking.state, waking.shutdown) == (SleepState.WAKING, Shutdown(NOW, "", sampled_at_s=NOW))
        assert after(replace(on, boot_id="second"), waking, now_s=NOW + 300.0).state is SleepState.WAKING
        assert after(on, waking, now_s=NOW + LONG).state is SleepState.AWAKE
        off = after(OFF, waking, now_s=NOW + 1.0)
        assert (off.state, off.shutdown.off_seen) == (SleepState.WAKING, True)
        assert after(ON, off, now_s=NOW + 2.0).state is SleepState.AWAKE


@pytest.mark.parametrize("sampled_at_s", [NOW, NOW - 1.0])
def test_an_answer_of_the_bmc_from_before_a_server_was_switched_on_says_nothing_of_the_time_since(sampled_at_s):
    """The kubelet is ready before the BMC is asked again, and a shutdown may be on its way."""
    off = replace(OFF.power, sampled_at_s=NOW)
    waking = after(replace(OFF, ready=True, power=off), record(SleepState.ASLEEP, shutdown=REQUESTED))
    assert (waking.state, waking.shutdown.off_seen) == (SleepState.WAKING, False)
    again = replace(OFF, ready=True, power=replace(off, sampled_at_s=sampled_at_s))
    found = advance(waking, again, NOW, SETTINGS)
    assert found.shutdown.off_seen is False
    assert after(ON, found, now_s=NOW + 2.0).state is SleepState.WAKING


def test_a_server_that_is_off_when_its_time_to_go_off_is_over_has_gone_off():
    still_ready = replace(OFF, ready=True)
    waking = after(still_ready, record(SleepState.POWERING_OFF, since_s=NOW - 31.0, shutdown=REQUESTED))
    assert (waking.state, waking.shutdown.off_seen) == (SleepState.WAKING, True)


def test_off_that_was_seen_while_the_kubelet_still_seemed_ready_counts():
    found = after(replace(OFF, ready=True), record(SleepState.POWERING_OFF, shutdown=REQUESTED))
    assert (found.state, found.shutdown.off_seen) == (SleepState.POWERING_OFF, True)


@pytest.mark.parametrize(
    ("boot_id", "asked", "marked", "state"),
    [
        ("second", "first", None, SleepState.AWAKE),
        ("first", "first", None, SleepState.WAKING),
        ("", "first", None, SleepState.WAKING),
        ("second", "", None, SleepState.WAKING),
        ("second", "first", "second", SleepState.WAKING),
        ("second", "first", "", SleepState.WAKING),
        ("third", "first", "second", SleepState.AWAKE),
    ],
)
def test_another_boot_than_any_that_was_asked_to_end_is_one_after_the_shutdown(boot_id, asked, marked, state):
    switched_off = None if marked is None else Shutdown(NOW - 5.0, marked)
    node = replace(ON, boot_id=boot_id, power=replace(POWER, switched_off=switched_off))
    assert after(node, waking(shutdown=Shutdown(NOW - 10.0, asked))).state is state


@pytest.mark.parametrize(("boot_id", "state"), [("first", SleepState.WAKING), ("second", SleepState.AWAKE)])
@pytest.mark.parametrize("power", [SILENT, STALE])
def test_a_kubelet_of_another_boot_needs_no_bmc_to_be_awake(boot_id, state, power):
    node = replace(ON, boot_id=boot_id, power=power)
    assert after(node, waking(shutdown=replace(REQUESTED, off_seen=True))).state is state


@pytest.mark.parametrize(("waited_s", "state"), [(0.0, SleepState.WAKING), (LONG, SleepState.AWAKE)])
@pytest.mark.parametrize("shutdown", [Shutdown(NOW - LONG, ""), replace(REQUESTED, off_seen=True), None])
def test_a_kubelet_that_stays_ready_is_believed_where_there_is_no_nodebmc_to_ask(shutdown, waited_s, state):
    """People switch a server on by hand whose NodeBMC was deleted."""
    before = waking(since_s=NOW - waited_s, shutdown=shutdown)
    found = advance(before, replace(ON, power=None, boot_id="first"), NOW, SETTINGS)
    assert found.state is state
    assert (
        advance(before, replace(ON, power=None, boot_id="first", ready=False), NOW, SETTINGS).state
        is not SleepState.AWAKE
    )


def test_a_node_that_was_never_asked_to_go_off_is_awake_at_once():
    assert after(ON, waking(shutdown=None)).state is SleepState.AWAKE


def test_a_power_off_at_an_unknown_time_may_still_be_carried_out():
    assert may_go_off(record(SleepState.AWAKE, shutdown=Shutdown(None, "first")), ON, NOW, SETTINGS)


# --- what Joulie switched off and people took for awake ---------------------------------------------------------------


def marked(node, at_s=NOW - 10.0, boot_id="first", **power):
    return replace(node, power=replace(node.power, switched_off=Shutdown(at_s, boot_id), **power))


AWAKE = record(SleepState.AWAKE)


def test_a_server_that_joulie_switched_off_is_woken_when_its_record_is_gone():
    asleep = after(marked(OFF), AWAKE)
    assert (asleep.state, asleep.reason) == (SleepState.WAKING, SleepReason.LEFT_OFF)
    assert asleep.shutdown.off_seen


def test_servers_that_were_left_off_are_woken_no_more_than_may_boot_at_a_time():
    nodes = tuple(marked(replace(OFF, name=f"n{number}")) for number in range(4))
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking": 2})})
    found = decide(SleepCluster(nodes=(*nodes, BUSY), pending=()), {}, NOW, settings)
    states = [found[node.name].state for node in nodes]
    assert states == [SleepState.WAKING] * 2 + [SleepState.ASLEEP] * 2


def test_a_server_that_joulie_asked_to_shut_down_gets_its_taint_back_when_people_removed_it():
    found = after(marked(replace(ON, cordoned=False)), AWAKE)
    assert (found.state, found.reason) == (SleepState.WAKING, SleepReason.LEFT_OFF)
    assert found.shutdown == Shutdown(NOW, "first")


@pytest.mark.parametrize("power", [SILENT, STALE])
@pytest.mark.parametrize(
    ("ready", "state"), [(False, SleepState.WAKING), (None, SleepState.WAKING), (True, SleepState.AWAKE)]
)
def test_a_server_of_which_neither_bmc_nor_kubelet_says_that_it_is_on_is_not_taken_for_awake(power, ready, state):
    found = after(marked(replace(OFF, power=power, ready=ready), NOW - LONG), AWAKE)
    assert found.state is state


@pytest.mark.parametrize(
    "node", [marked(ON, boot_id="other"), marked(ON, NOW - LONG), ON, OFF], ids=["booted", "long ago", "on", "by hand"]
)
def test_a_server_that_is_on_or_was_switched_off_by_a_person_is_left_alone(node):
    assert after(node, AWAKE).state is SleepState.AWAKE


def test_a_persons_power_off_takes_the_place_of_joulies():
    assert after(marked(OFF, requested=DesiredPower.OFF), AWAKE).state is SleepState.AWAKE


@pytest.mark.parametrize("changes", [{"maintenance": True}, {"unschedulable": True}])
def test_a_server_that_was_left_off_stays_so_while_people_keep_it_from_pods(changes):
    found = after(marked(replace(OFF, **changes)), AWAKE)
    assert (found.state, found.reason) == (SleepState.ASLEEP, SleepReason.LEFT_OFF)
    assert after(marked(replace(OFF, **changes)), found).state is SleepState.ASLEEP
    assert after(marked(OFF), found).state is SleepState.WAKING


# --- pods on a node that sleeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"protected_pods": 1}, {"movable_pods": (POD,)}])
def test_a_pod_on_a_sleeping_node_wakes_it(changes):
    assert result(replace(OFF, **changes), record(SleepState.ASLEEP)) == (SleepState.WAKING, SleepReason.PODS_PRESENT)


@pytest.mark.parametrize("changes", [{}, {"protected_pods": None}])
def test_without_pods_or_while_they_are_unknown_a_node_sleeps_on(changes):
    assert after(replace(OFF, **changes), record(SleepState.ASLEEP)).state is SleepState.ASLEEP


def test_a_pod_on_a_sleeping_node_waits_for_the_back_off_after_a_failed_boot():
    before = record(SleepState.ASLEEP, failed_boots=1, not_before_s=NOW + 1.0)
    assert after(replace(OFF, protected_pods=1), before).state is SleepState.ASLEEP


# --- outages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [SILENT, STALE, replace(OFF.power, on_taken=False)], ids=["silent", "stale", "not"])
def test_the_time_of_a_boot_does_not_run_while_nobody_knows_that_the_server_boots(power):
    before = waking(since_s=NOW - 10_000.0, boots_since_s=NOW - 10_000.0)
    found = after(replace(OFF, power=power), before)
    assert (found.state, found.failed_boots, found.boots_since_s) == (SleepState.WAKING, 0, None)


@pytest.mark.parametrize(
    "power", [replace(OFF.power, on_taken=True), POWER, replace(POWER, state=PowerState.POWERING_ON)]
)
def test_the_time_of_a_boot_runs_from_the_first_moment_at_which_it_is_known_to_boot(power):
    node = replace(OFF, power=power)
    seen = replace(REQUESTED, off_seen=True)
    found = after(node, waking(since_s=NOW - 10_000.0, shutdown=seen))
    assert (found.state, found.boots_since_s) == (SleepState.WAKING, NOW)
    assert after(node, found, now_s=NOW + 600.0).state is SleepState.WAKING
    assert after(node, found, now_s=NOW + 601.0).failed_boots == 1


def test_a_server_that_may_still_shut_down_has_not_failed_to_boot():
    node = replace(ON, ready=False)
    settings = SETTINGS.model_copy(update={"boot_timeout_seconds": 5.0})
    found = after(node, waking(boots_since_s=NOW - 6.0), settings=settings)
    assert (found.state, found.boots_since_s) == (SleepState.WAKING, None)


def test_a_node_that_waits_for_its_bmc_wakes_when_that_is_back():
    before = waking(since_s=NOW - 10_000.0, shutdown=replace(REQUESTED, off_seen=True))
    waited = after(replace(OFF, power=SILENT), before)
    booting = after(replace(OFF, power=replace(OFF.power, on_taken=True)), waited)
    assert after(replace(ON, boot_id="second"), booting).state is SleepState.AWAKE


def test_nodes_whose_bmcs_do_not_answer_hold_up_no_others():
    stuck = [replace(OFF, name=f"stuck{number}", power=SILENT) for number in range(2)]
    records = {node.name: waking(since_s=NOW - 1000.0) for node in stuck}
    good, silent = replace(OFF, name="good", wake_requested=True), replace(OFF, name="silent", wake_requested=True)
    silent = replace(silent, power=SILENT)
    records |= {node.name: record(SleepState.ASLEEP) for node in (good, silent)}
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking": 2})})
    found = decide(SleepCluster(nodes=(*stuck, silent, good, BUSY), pending=()), records, NOW, settings)
    assert found["good"].state is SleepState.WAKING
    assert found["silent"].state is SleepState.ASLEEP, "all of them would boot at once when their BMCs are back"


def test_nodes_that_were_asked_to_boot_a_moment_ago_count_in_the_boots_at_a_time():
    fresh = replace(OFF, name="fresh", power=replace(OFF.power, on_taken=False))
    node = replace(OFF, wake_requested=True)
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking": 1})})
    records = {"fresh": waking(since_s=NOW - 10.0), "a": record(SleepState.ASLEEP)}
    assert decide(SleepCluster(nodes=(fresh, node), pending=()), records, NOW, settings)["a"].state is SleepState.ASLEEP


# --- what people keep to themselves -----------------------------------------------------------------------------------

KEPT = [{"maintenance": True}, {"unschedulable": True}]


@pytest.mark.parametrize("changes", KEPT)
@pytest.mark.parametrize("reason", ["pending", "bound", "rollout", "min_awake", "retry"])
def test_a_sleeping_node_that_people_keep_from_pods_stays_off(changes, reason):
    node = replace(OFF, **changes, rollout_waiting=reason == "rollout", protected_pods=int(reason == "bound"))
    before = record(SleepState.ASLEEP, failed_boots=int(reason == "retry"))
    pending = [SleepPod({"cpu": 8.0})] if reason == "pending" else []
    settings = SETTINGS.model_copy(
        update={"min_awake": SETTINGS.min_awake.model_copy(update={"count": 2 if reason == "min_awake" else 0})}
    )
    busy = replace(BUSY, free={"cpu": 0.0})
    for each, state in ((node, SleepState.ASLEEP), (replace(node, **dict.fromkeys(changes, False)), SleepState.WAKING)):
        cluster = SleepCluster(nodes=(each, busy), pending=pending)
        assert decide(cluster, {"a": before}, NOW, settings)["a"].state is state


@pytest.mark.parametrize("changes", KEPT)
def test_a_node_that_boots_and_that_people_keep_from_pods_is_no_capacity(changes):
    """Another one is woken in its place."""
    kept = replace(OFF, name="kept", power=replace(OFF.power, on_taken=True, boot_s=300.0), **changes)
    records = {"kept": waking(), "a": record(SleepState.ASLEEP)}
    for node, state in ((kept, SleepState.WAKING), (replace(kept, **dict.fromkeys(changes, False)), SleepState.ASLEEP)):
        cluster = SleepCluster(nodes=(node, OFF), pending=())
        assert decide(cluster, records, NOW, SETTINGS)["a"].state is state


REQUESTS = [{"wake_requested": True}, {"power": replace(OFF.power, requested=DesiredPower.ON)}]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_wakes_a_node_that_is_cordoned_and_not_one_in_maintenance(request_):
    before = record(SleepState.ASLEEP)
    assert after(replace(OFF, unschedulable=True, **request_), before).state is SleepState.WAKING
    assert after(replace(OFF, maintenance=True, **request_), before).state is SleepState.ASLEEP


@pytest.mark.parametrize(
    ("node", "state", "expected"),
    [
        (ON, SleepState.ASLEEP, SleepState.ASLEEP),
        (ON, SleepState.WAKING, SleepState.WAKING),
        (OFF, SleepState.WAKING, SleepState.ASLEEP),
        (OFF, SleepState.POWERING_OFF, SleepState.ASLEEP),
        (ON, SleepState.POWERING_OFF, SleepState.POWERING_OFF),
        (replace(ON, quarantine_cleared=True), SleepState.QUARANTINED, SleepState.QUARANTINED),
        (ON, SleepState.DRAINING, SleepState.AWAKE),
        (ON, SleepState.CORDONED, SleepState.AWAKE),
    ],
)
def test_a_server_that_people_work_on_takes_no_pods_and_is_asked_for_nothing(node, state, expected):
    before = record(state, since_s=NOW - 100_000.0, shutdown=Shutdown(NOW - LONG, "first"))
    if expected is SleepState.AWAKE:
        before = replace(before, since_s=NOW - 1.0)
    assert advance(before, replace(node, maintenance=True), NOW, SETTINGS).state is expected


def test_the_drain_timeout_counts_from_the_drain_and_not_from_the_cordon():
    settings = SleepSettings(drain_timeout_seconds=600.0)
    node = replace(ON, movable_pods=(POD,))
    drained = advance(record(SleepState.CORDONED, since_s=NOW - 590.0), node, NOW, settings)
    assert (drained.state, drained.since_s) == (SleepState.DRAINING, NOW)
    fresh = replace(node, power=replace(POWER, sampled_at_s=NOW + 600.0))
    assert advance(drained, fresh, NOW + 600.0, settings).state is SleepState.DRAINING
    assert advance(drained, fresh, NOW + 601.0, settings).state is SleepState.AWAKE
