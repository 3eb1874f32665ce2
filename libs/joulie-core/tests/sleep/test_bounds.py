"""Bounds of sleep: power cycles of a node in a day, and boots in a rack at a time."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import MOST_CYCLES
from joulie_core.labels import RACK
from joulie_core.sleep import (
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepReason,
    SleepRecord,
    SleepRefusal,
    SleepSettings,
    SleepState,
    decide,
)
from joulie_core.sleep.bounds import BootRoom
from joulie_core.sleep.machine import advance, moved, sleep_refusal
from joulie_core.sleep.power_cycles import cycles_of_day, with_cycle

NOW = 1_000_000.0
HOUR_S = 3600.0
POWER = NodePowerFacts(
    state=PowerState.ON, sampled_at_s=NOW, reachable=True, wake_proven=True, off_allowed=True, boot_s=300.0
)
SETTINGS = SleepSettings(
    min_awake={"count": 0, "spare": 0}, max_asleep_percent=50, rates={"power_cycles_per_day": 3, "waking_per_rack": 2}
)
POD = SleepPod({"cpu": 8.0})


def awake_node(name="a", rack=None, **changes):
    labels = {} if rack is None else {RACK: rack}
    node = SleepNode(
        name=name,
        group="g",
        labels=labels,
        free={"cpu": 8.0},
        idle_watts=100.0,
        ready=True,
        protected_pods=0,
        power=POWER,
    )
    return replace(node, **changes)


def off_node(name, rack=None, **changes):
    off = replace(POWER, state=PowerState.OFF)
    return awake_node(name, rack, **({"ready": False, "cordoned": True, "power": off} | changes))


def asleep(**changes):
    return SleepRecord(state=SleepState.ASLEEP, since_s=NOW - HOUR_S, **changes)


def idle(*ago_s):
    return SleepRecord(since_s=0.0, idle_since_s=0.0, cycles_s=tuple(NOW - each for each in ago_s))


def woken(nodes, *, records=None, pending=(), settings=SETTINGS):
    """Return the nodes that were asleep and boot after one decision."""
    records = records or {node.name: asleep() for node in nodes}
    decided = decide(SleepCluster(nodes=nodes, pending=pending), records, NOW, settings)
    return {
        name
        for name, record in decided.items()
        if record.state is SleepState.WAKING and records[name].state is not SleepState.WAKING
    }


def test_a_node_that_was_powered_off_as_often_as_its_policy_permits_stays_awake():
    for ago_s, expected in (((1, 2), SleepState.CORDONED), ((1, 2, 3), SleepState.AWAKE)):
        before = idle(*(each * HOUR_S for each in ago_s))
        cluster = SleepCluster(nodes=[awake_node(), awake_node("other", protected_pods=1)], pending=())
        assert decide(cluster, {"a": before}, NOW, SETTINGS)["a"].state is expected


def test_the_bound_is_named_and_ends_with_the_day_of_its_oldest_power_cycle():
    before = idle(24 * HOUR_S - 1, 2 * HOUR_S, HOUR_S)
    assert sleep_refusal(awake_node(), before, NOW, SETTINGS) is SleepRefusal.POWER_CYCLES
    assert sleep_refusal(awake_node(), before, NOW + 1, SETTINGS) is None


def test_another_refusal_is_named_before_the_bound():
    assert sleep_refusal(awake_node(power=None), idle(1, 2, 3), NOW, SETTINGS) is SleepRefusal.NO_BMC


@pytest.mark.parametrize("state", [SleepState.CORDONED, SleepState.DRAINING])
def test_the_bound_undoes_nothing_of_a_node_that_is_on_its_way(state):
    # Its policy was changed since to permit fewer power cycles.
    before = SleepRecord(state=state, since_s=NOW - 1, cycles_s=(NOW - 4, NOW - 3, NOW - 2))
    assert sleep_refusal(awake_node(), before, NOW, SETTINGS) is None
    assert advance(before, awake_node(), NOW, SETTINGS).state is state


def test_a_time_in_the_future_counts():
    assert cycles_of_day(idle(-HOUR_S), NOW) == 1


def test_a_power_off_after_a_drain_is_a_power_cycle():
    draining = SleepRecord(
        state=SleepState.DRAINING, since_s=NOW - 10, sleeps=4, cycles_s=(NOW - 50 * HOUR_S, NOW - 60)
    )
    after = advance(draining, awake_node(cordoned=True), NOW, SETTINGS)
    assert (after.state, after.sleeps, after.cycles_s) == (SleepState.POWERING_OFF, 5, (NOW - 60, NOW))


@pytest.mark.parametrize(
    ("measured", "modelled", "remembered"),
    [
        (212.5, 100.0, (212.5, True)),
        (None, 100.0, (100.0, False)),
        (0.0, 100.0, (100.0, False)),
        (1e9, 100.0, (100.0, False)),
        (None, 0.0, (None, False)),
    ],
)
def test_what_a_node_drew_before_it_was_put_to_sleep_is_remembered_with_its_source(measured, modelled, remembered):
    times = {"since_s": NOW - 10, "empty_since_s": NOW - 600}
    draining = SleepRecord(state=SleepState.DRAINING, **times, idle_watts=1.0, idle_measured=True)
    node = awake_node(cordoned=True, idle_watts=modelled, power=replace(POWER, watts=measured))
    after = advance(draining, node, NOW, SETTINGS)
    assert (after.idle_watts, after.idle_measured) == remembered


@pytest.mark.parametrize(
    ("sampled_at_s", "remembered"),
    [(NOW - 21, (100.0, False)), (NOW - 20, (212.5, True)), (NOW, (212.5, True))],
)
def test_a_reading_from_before_a_node_was_without_pods_is_not_what_it_draws_without_work(sampled_at_s, remembered):
    draining = SleepRecord(state=SleepState.DRAINING, since_s=NOW - 10, empty_since_s=NOW - 20)
    node = awake_node(cordoned=True, idle_watts=100.0, power=replace(POWER, watts=212.5, sampled_at_s=sampled_at_s))
    after = advance(draining, node, NOW, SETTINGS)
    assert (after.state, after.idle_watts, after.idle_measured) == (SleepState.POWERING_OFF, *remembered)


def test_a_node_is_without_pods_since_it_was_first_seen_so_and_through_its_drain():
    busy = awake_node(protected_pods=1)
    record = advance(SleepRecord(since_s=NOW - 5_000), busy, NOW - 1_000, SETTINGS)
    assert record.empty_since_s is None
    record = advance(record, awake_node(), NOW - 900, SETTINGS)
    record = advance(record, awake_node(), NOW - 100, SETTINGS)
    assert record.empty_since_s == NOW - 900
    cordoned = moved(record, SleepState.CORDONED, SleepReason.IDLE, NOW)
    assert moved(cordoned, SleepState.DRAINING, SleepReason.CORDON_SEEN, NOW).empty_since_s == NOW - 900
    assert advance(record, busy, NOW, SETTINGS).empty_since_s is None
    assert moved(record, SleepState.POWERING_OFF, SleepReason.IDLE, NOW).empty_since_s is None


def test_what_a_node_draws_while_its_boot_fails_is_not_what_it_drew_without_work():
    times = {"since_s": NOW - 2 * HOUR_S, "boots_since_s": NOW - 2 * HOUR_S}
    waking = SleepRecord(state=SleepState.WAKING, **times, idle_watts=212.5, idle_measured=True)
    node = awake_node(ready=False, cordoned=True, power=replace(POWER, watts=600.0))
    after = advance(waking, node, NOW, SETTINGS)
    assert (after.state, after.idle_watts, after.idle_measured) == (SleepState.POWERING_OFF, 212.5, True)


def test_a_power_off_after_a_boot_that_failed_is_a_power_cycle_and_the_bound_does_not_prevent_it():
    """Pods may wait for the node: the bound keeps nodes from sleeping, and never from being woken."""
    times = {"since_s": NOW - 2 * HOUR_S, "boots_since_s": NOW - 2 * HOUR_S}
    waking = SleepRecord(state=SleepState.WAKING, **times, cycles_s=(NOW - 3, NOW - 2, NOW - 1))
    node = awake_node(ready=False, cordoned=True)
    after = advance(waking, node, NOW, SETTINGS)
    assert (after.state, after.reason) == (SleepState.POWERING_OFF, SleepReason.BOOT_TIMEOUT)
    assert len(after.cycles_s) == 4
    assert advance(after, node, NOW + 1, SETTINGS).cycles_s == after.cycles_s


@given(st.lists(st.floats(min_value=0.0, max_value=10 * HOUR_S), max_size=100))
def test_a_record_stays_small_and_never_counts_fewer_than_a_policy_can_permit(gaps_s):
    record, now_s = SleepRecord(since_s=NOW), NOW
    times = []
    for gap_s in gaps_s:
        now_s += gap_s
        times.append(now_s)
        off = moved(record, SleepState.POWERING_OFF, SleepReason.EMPTY, now_s)
        record = with_cycle(record, off, awake_node(), now_s)
        record = moved(record, SleepState.AWAKE, SleepReason.READY, now_s)
    assert len(record.cycles_s) <= MOST_CYCLES
    assert record.sleeps == len(gaps_s)
    of_day = sum(each > now_s - 24 * HOUR_S for each in times)
    assert cycles_of_day(record, now_s) == min(MOST_CYCLES, of_day)


RACKS = [off_node(f"{rack}{number}", rack) for rack in "rs" for number in range(4)]


def by_rack(names):
    return Counter(name[0] for name in names)


def test_no_more_nodes_of_a_rack_boot_for_pods_than_may_and_other_racks_take_the_rest():
    assert by_rack(woken(RACKS, pending=[POD] * 8)) == {"r": 2, "s": 2}
    nodes = [*RACKS, off_node("r8", "r"), off_node("r9", "r")]
    records = {node.name: asleep() for node in RACKS}
    records |= {name: SleepRecord(state=SleepState.WAKING, since_s=NOW - 60) for name in ("r8", "r9")}
    # The pods that the nodes which boot will take are not waited for.
    assert by_rack(woken(nodes, records=records, pending=[POD] * 4)) == {"s": 2}


def test_the_minimum_and_the_spare_nodes_are_woken_within_the_bound_from_other_racks():
    assert by_rack(
        woken(
            RACKS,
            settings=SETTINGS.model_copy(update={"min_awake": SETTINGS.min_awake.model_copy(update={"count": 4})}),
        )
    ) == {"r": 2, "s": 2}
    assert by_rack(
        woken(
            RACKS,
            settings=SETTINGS.model_copy(update={"min_awake": SETTINGS.min_awake.model_copy(update={"spare": 3})}),
        )
    ) == {"r": 2, "s": 1}


def test_requests_of_people_and_roll_outs_are_woken_within_the_bound():
    wanted = [replace(node, wake_requested=True) for node in RACKS]
    assert by_rack(woken(wanted)) == {"r": 2, "s": 2}
    wanted = [replace(node, rollout_waiting=True) for node in RACKS]
    assert by_rack(woken(wanted)) == {"r": 2, "s": 2}


def test_a_request_comes_before_pods_where_both_do_not_fit():
    nodes = [off_node("r1", "r"), off_node("r2", "r"), off_node("r3", "r", wake_requested=True, free={"cpu": 1.0})]
    assert woken(nodes, pending=[POD] * 3) == {"r1", "r3"}


def test_the_bound_on_all_boots_holds_across_racks():
    assert (
        len(
            woken(
                RACKS,
                pending=[POD] * 8,
                settings=SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking": 3})}),
            )
        )
        == 3
    )


def test_nodes_without_the_label_are_one_rack():
    nodes = [off_node(f"n{number}") for number in range(5)]
    assert len(woken(nodes, pending=[POD] * 5)) == 2


def test_the_key_of_the_label_is_that_of_the_settings():
    nodes = [off_node(f"{each}{number}", labels={"dc/rack": each}) for each in "rs" for number in range(4)]
    settings = SETTINGS.model_copy(update={"rack_label": "dc/rack"})
    assert by_rack(woken(nodes, pending=[POD] * 8, settings=settings)) == {"r": 2, "s": 2}
    assert len(woken(nodes, pending=[POD] * 8)) == 2


def test_boots_after_a_failure_wait_for_their_turn_those_that_slept_longest_first():
    nodes = [off_node(f"r{number}", "r") for number in range(4)]
    records = {node.name: replace(asleep(failed_boots=1), since_s=NOW - 60 * at) for at, node in enumerate(nodes)}
    assert woken(nodes, records=records) == {"r2", "r3"}
    records["r3"] = SleepRecord(state=SleepState.WAKING, since_s=NOW - 1)
    assert woken(nodes, records=records) == {"r2"}


def test_nodes_that_people_have_switched_on_boot_already_and_count():
    on = replace(POWER, state=PowerState.ON)
    nodes = [off_node(f"r{number}", "r", power=on) for number in range(3)] + [off_node("r9", "r")]
    assert woken(nodes, pending=[POD] * 4) == {"r0", "r1", "r2"}


@pytest.mark.parametrize(
    ("asked_s", "boots", "permitted"), [(180.0, False, False), (180.1, False, True), (180.1, True, False)]
)
def test_a_node_whose_bmc_does_not_answer_does_not_hold_up_its_rack(asked_s, boots, permitted):
    """It draws no inrush current as far as is known, and others must wake."""
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking_per_rack": 1})})
    boots_since_s = NOW - 50 if boots else None
    waking = SleepRecord(state=SleepState.WAKING, since_s=NOW - asked_s, boots_since_s=boots_since_s)
    assert BootRoom.beside([(off_node("r1", "r"), waking)], NOW, settings).permits(off_node("r2", "r")) is permitted


def test_nodes_whose_bmcs_do_not_answer_are_woken_within_the_bound_of_all_that_are():
    """They boot together once their BMCs answer."""
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking_per_rack": 1})})
    waking = SleepRecord(state=SleepState.WAKING, since_s=NOW - 600)
    room = BootRoom.beside([(off_node("r1", "r"), waking)], NOW, settings)
    silent = replace(off_node("r2", "r"), power=None)
    assert [room.permits(off_node("r2", "r")), room.permits(silent)] == [True, False]
    assert room.permits(replace(off_node("s1", "s"), power=None))


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_all_nodes_wake_in_the_end_however_small_the_bound(limit):
    rates = SETTINGS.rates.model_copy(update={"waking_per_rack": limit})
    least = SETTINGS.min_awake.model_copy(update={"count": len(RACKS)})
    settings = SETTINGS.model_copy(update={"rates": rates, "min_awake": least})
    nodes = {node.name: node for node in RACKS}
    records = {name: asleep() for name in nodes}
    for _ in range(2 * len(nodes)):
        records = decide(SleepCluster(nodes=list(nodes.values()), pending=()), records, NOW, settings)
        booting = [name for name, record in records.items() if record.state is SleepState.WAKING]
        assert max(by_rack(booting).values(), default=0) <= limit
        nodes |= {name: replace(nodes[name], ready=True, power=POWER) for name in booting}
    assert {record.state for record in records.values()} == {SleepState.AWAKE}
