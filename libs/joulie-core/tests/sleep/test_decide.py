"""Decisions about sleeping nodes: docs/decisions/0024-sleeping-nodes.md."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SpareOf
from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_core.sleep import (
    AwakeWindow,
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepReason,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
    intent_of,
)
from joulie_core.sleep.model import OTHERS, NodeTaint, PodToleration

NOW = 100_000.0
SETTINGS = SleepSettings(min_awake={"count": 1, "spare": 0})
POD = SleepPod({"cpu": 4.0})


def facts(state: PowerState = PowerState.ON, **changes) -> NodePowerFacts:
    known = NodePowerFacts(
        state=state, sampled_at_s=NOW, reachable=True, wake_proven=True, off_allowed=True, boot_s=300.0
    )
    return replace(known, **changes)


def awake_node(name: str, **changes) -> SleepNode:
    node = SleepNode(
        name=name, group="cpu", free={"cpu": 8.0}, idle_watts=100.0, ready=True, protected_pods=0, power=facts()
    )
    return replace(node, **changes)


def sleeping_node(name: str, **changes) -> SleepNode:
    return awake_node(name, **({"ready": False, "cordoned": True, "power": facts(PowerState.OFF)} | changes))


def record(state: SleepState = SleepState.AWAKE, since_s: float = 0.0, **changes) -> SleepRecord:
    idle_since_s = 0.0 if state is SleepState.AWAKE else None
    return SleepRecord(state=state, since_s=since_s, **({"idle_since_s": idle_since_s} | changes))


def states(nodes, records, pending=(), *, windows=(), settings=SETTINGS, now_s=NOW) -> dict[str, SleepState]:
    decided = decide(SleepCluster(nodes=nodes, pending=pending, windows=windows), records, now_s, settings)
    return {name: each.state for name, each in decided.items()}


def one(node: SleepNode, before: SleepRecord, settings=SETTINGS) -> SleepRecord:
    """Return the record after a decision in which the node is not needed, and another one is awake."""
    busy = awake_node("busy", protected_pods=1, zone="other")
    return decide(SleepCluster(nodes=[node, busy], pending=()), {node.name: before}, NOW, settings)[node.name]


def test_a_node_without_a_record_is_awake():
    assert states([awake_node("a")], {}) == {"a": SleepState.AWAKE}


def test_an_idle_node_that_the_others_do_without_is_cordoned_first():
    nodes = [awake_node("a"), awake_node("b")]
    assert states(nodes, {"a": record(), "b": record()}) == {"a": SleepState.CORDONED, "b": SleepState.AWAKE}


@pytest.mark.parametrize(
    "changes",
    [
        {"control_plane": True},
        {"power": None},
        {"power": facts(off_allowed=False)},
        {"power": facts(wake_proven=None)},
        {"power": facts(wake_proven=False)},
        {"power": facts(reachable=None)},
        {"power": facts(sampled_at_s=None)},
        {"power": facts(sampled_at_s=NOW - 181.0)},
        {"power": facts(PowerState.UNKNOWN)},
        {"power": facts(PowerState.POWERING_ON)},
        {"ready": None},
        {"ready": False},
        {"unschedulable": True},
        {"protected_pods": None},
        {"protected_pods": 1},
        {"movable_pods": (POD,)},
        {"rollout_waiting": True},
    ],
)
def test_a_node_that_must_not_sleep_stays_awake(changes):
    assert one(awake_node("a", **changes), record()).state is SleepState.AWAKE


@pytest.mark.parametrize("changes", [{"ready": None}, {"protected_pods": None}, {"protected_pods": 1}, {"power": None}])
@pytest.mark.parametrize("state", [SleepState.CORDONED, SleepState.DRAINING])
def test_a_node_that_must_not_sleep_any_more_is_brought_back(changes, state):
    assert one(awake_node("a", **changes), record(state, NOW - 10.0)).state is SleepState.AWAKE


@pytest.mark.parametrize(
    "changes", [{"idle_since_s": NOW - 599.0}, {"since_s": NOW - 899.0}, {"not_before_s": NOW + 1.0}]
)
def test_a_node_is_idle_and_awake_for_a_time_before_it_sleeps(changes):
    kept = record(**changes)
    assert states([awake_node("a"), awake_node("b", protected_pods=1)], {"a": kept}) == dict.fromkeys(
        "ab", SleepState.AWAKE
    )


def test_pending_pods_that_are_unknown_keep_every_node_awake():
    nodes = [awake_node("a"), awake_node("b")]
    assert set(states(nodes, {"a": record(), "b": record()}, pending=None).values()) == {SleepState.AWAKE}


def test_a_node_on_which_a_pending_pod_has_room_does_not_sleep():
    nodes = [awake_node("a"), awake_node("b", free={"cpu": 1.0}, protected_pods=1)]
    assert states(nodes, {"a": record(), "b": record()}, pending=[POD])["a"] is SleepState.AWAKE


def test_the_minimum_and_the_spare_nodes_of_each_group_stay_awake():
    nodes = [awake_node(f"{group}{number}", group=group) for group in ("cpu", "gpu") for number in range(5)]
    records = {node.name: record() for node in nodes}
    for settings, kept in (
        (SleepSettings(min_awake={"count": 4, "spare": 0}), 4),
        (SleepSettings(min_awake={"count": 1, "spare": 3}), 3),
    ):
        decided = states(nodes, records, settings=settings)
        for group in ("cpu", "gpu"):
            assert sum(state is SleepState.AWAKE for name, state in decided.items() if name.startswith(group)) == kept


def test_families_that_offer_the_same_resources_may_share_their_spare_nodes():
    families = {"old": {}, "new": {}, "a100": {"nvidia.com/gpu": 8.0}, "h100": {"nvidia.com/gpu": 0.0}}
    nodes = [
        awake_node(f"{group}-{number}", group=group, free={"cpu": 8.0} | gpus)
        for group, gpus in families.items()
        for number in range(3)
    ]
    records = {node.name: record() for node in nodes}
    kept = {}
    for spare_of in SpareOf:
        least = MinAwakeSpec(count=0, spare=2, spare_of=spare_of)
        settings = SleepSettings(min_awake=least, max_asleep_percent=90, rates={"powering_off": 12})
        decided = states(nodes, records, settings=settings)
        awake = [name for name, state in decided.items() if state is SleepState.AWAKE]
        kept[spare_of] = sum("100" in name for name in awake), sum("100" not in name for name in awake)
    # What came is unknown here.
    assert kept == {SpareOf.FAMILY: (4, 4), SpareOf.RESOURCES: (2, 2), SpareOf.ARRIVALS: (2, 2)}


def test_a_shared_spare_node_is_woken_in_any_family_that_with_the_fewest_watts_first():
    nodes = [
        awake_node("busy", group="old", protected_pods=1),
        sleeping_node("old", group="old", idle_watts=200.0),
        sleeping_node("new", group="new", idle_watts=90.0),
        sleeping_node("gpu", group="gpu", idle_watts=50.0, free={"cpu": 8.0, "nvidia.com/gpu": 4.0}),
    ]
    records = {name: record(SleepState.ASLEEP) for name in ("old", "new", "gpu")}
    settings = SleepSettings(min_awake=MinAwakeSpec(count=0, spare=1, spare_of=SpareOf.RESOURCES))
    decided = states(nodes, records, settings=settings)
    assert {name for name, state in decided.items() if state is SleepState.WAKING} == {"new", "gpu"}


def test_a_node_that_something_else_decides_about_is_no_spare_node():
    nodes = [awake_node("other", group=OTHERS, power=None), awake_node("own"), sleeping_node("asleep")]
    settings = SleepSettings(min_awake=MinAwakeSpec(count=0, spare=1, spare_of=SpareOf.RESOURCES))
    assert states(nodes, {"asleep": record(SleepState.ASLEEP)}, settings=settings)["own"] is SleepState.AWAKE
    nodes[1] = replace(nodes[1], protected_pods=1)
    assert states(nodes, {"asleep": record(SleepState.ASLEEP)}, settings=settings)["asleep"] is SleepState.WAKING


def test_no_more_than_half_of_a_zone_is_off_or_not_ready():
    nodes = [awake_node(f"n{number}", zone="z") for number in range(5)] + [awake_node("broken", zone="z", ready=False)]
    decided = states(nodes, {node.name: record() for node in nodes}, settings=SleepSettings(min_awake={"spare": 0}))
    assert sum(state is SleepState.CORDONED for state in decided.values()) == 2


def test_only_a_few_nodes_go_off_at_a_time_those_with_the_most_watts_first():
    nodes = [awake_node(f"n{number}", idle_watts=float(number)) for number in range(20)]
    decided = states(
        nodes,
        {node.name: record() for node in nodes},
        settings=SleepSettings(min_awake={"spare": 0}, rates={"powering_off": 3}),
    )
    assert {name for name, state in decided.items() if state is SleepState.CORDONED} == {"n19", "n18", "n17"}


def test_among_equal_nodes_the_one_that_has_slept_least_goes_first():
    nodes = [awake_node("a"), awake_node("b")]
    assert states(nodes, {"a": record(sleeps=3), "b": record(sleeps=2)})["b"] is SleepState.CORDONED


def test_a_node_with_few_pods_is_drained_if_they_have_room_elsewhere():
    settings = SleepSettings(min_awake={"spare": 0}, consolidation={"mode": "Act", "below_percent": 40})
    small = awake_node("a", movable_pods=(SleepPod({"cpu": 3.0}),), free={"cpu": 5.0}, idle_watts=200.0)
    for free, expected in ((3.0, SleepState.CORDONED), (2.0, SleepState.AWAKE)):
        other = awake_node("b", protected_pods=1, free={"cpu": free})
        assert states([small, other], {"a": record()}, settings=settings)["a"] is expected
    assert states([small, other], {"a": record()}, settings=SETTINGS)["a"] is SleepState.AWAKE


def test_the_states_of_a_node_that_goes_to_sleep_follow_what_is_seen():
    cordoned = record(SleepState.CORDONED, NOW - 30.0)
    assert one(awake_node("a"), cordoned).state is SleepState.CORDONED
    draining = one(awake_node("a", cordoned=True), cordoned)
    assert draining.state is SleepState.DRAINING
    assert one(awake_node("a", cordoned=True, movable_pods=(POD,)), draining).state is SleepState.DRAINING
    off = one(awake_node("a", cordoned=True), draining)
    assert (off.state, off.sleeps) == (SleepState.POWERING_OFF, 1)
    assert one(sleeping_node("a"), off).state is SleepState.ASLEEP


@pytest.mark.parametrize(
    "node",
    [
        sleeping_node("a", ready=True),
        sleeping_node("a", ready=None),
        sleeping_node("a", power=facts(PowerState.ON)),
        sleeping_node("a", power=facts(PowerState.OFF, reachable=None)),
        sleeping_node("a", power=facts(PowerState.OFF, sampled_at_s=NOW - 1000.0)),
    ],
)
def test_off_is_believed_only_when_bmc_and_kubelet_agree(node):
    assert one(node, record(SleepState.POWERING_OFF, NOW - 100.0)).state is SleepState.POWERING_OFF


def test_a_drain_that_takes_too_long_is_undone_and_not_repeated_at_once():
    after = one(awake_node("a", cordoned=True, movable_pods=(POD,)), record(SleepState.DRAINING, NOW - 601.0))
    assert (after.state, after.reason, after.not_before_s) == (
        SleepState.AWAKE,
        SleepReason.DRAIN_TIMEOUT,
        NOW + SETTINGS.back_off_seconds,
    )


@pytest.mark.parametrize(
    ("node", "since_s", "reason"),
    [
        (awake_node("a", cordoned=True, protected_pods=1), NOW - 10.0, SleepReason.PODS_PRESENT),
        (awake_node("a", cordoned=True), NOW - 301.0, SleepReason.OFF_TIMEOUT),
    ],
)
def test_a_node_that_gets_a_pod_or_does_not_go_off_is_switched_on(node, since_s, reason):
    after = one(node, record(SleepState.POWERING_OFF, since_s))
    assert (after.state, after.reason) == (SleepState.WAKING, reason)


def test_a_node_that_a_person_switches_on_is_taken_up():
    node = awake_node("a", cordoned=True)
    waking = one(node, record(SleepState.ASLEEP))
    assert (waking.state, waking.reason) == (SleepState.WAKING, SleepReason.SWITCHED_ON)
    assert one(node, waking).state is SleepState.AWAKE


def test_a_pod_without_room_wakes_the_nodes_that_it_takes_and_no_more():
    nodes = [sleeping_node(name, idle_watts=watts) for name, watts in (("a", 90.0), ("b", 80.0), ("c", 100.0))]
    records = {name: record(SleepState.ASLEEP) for name in "abc"}
    settings = SleepSettings(min_awake={"count": 0, "spare": 0})
    assert states(nodes, records, [POD, POD], settings=settings)["b"] is SleepState.WAKING
    decided = states(nodes, records, [POD] * 3, settings=settings)
    assert decided == {"a": SleepState.WAKING, "b": SleepState.WAKING, "c": SleepState.ASLEEP}
    assert states(nodes, records, [SleepPod({"cpu": 9.0})], settings=settings) == dict.fromkeys(
        "abc", SleepState.ASLEEP
    )


def test_one_large_node_is_woken_before_two_small_ones():
    nodes = [sleeping_node("a", idle_watts=50.0), sleeping_node("b", idle_watts=50.0), sleeping_node("c")]
    nodes[2] = replace(nodes[2], free={"cpu": 16.0})
    records = {name: record(SleepState.ASLEEP) for name in "abc"}
    decided = states(nodes, records, [POD] * 4, settings=SleepSettings(min_awake={"count": 0, "spare": 0}))
    assert [name for name, state in decided.items() if state is SleepState.WAKING] == ["c"]


@pytest.mark.parametrize(
    ("pod", "woken"),
    [
        (replace(POD, node_selector={"disk": "ssd"}), "a"),
        (replace(POD, node_selector={"disk": "hdd"}), None),
        (replace(POD, required_terms=(Term((Requirement("n", SelectorOperator.GT, ("2",)),)),)), "a"),
        (replace(POD, required_terms=(Term((Requirement("n", SelectorOperator.LT, ("3",)),)),)), None),
        (replace(POD, required_terms=(Term((Requirement("disk", SelectorOperator.NOT_IN, ("ssd",)),)),)), "tainted"),
        (replace(POD, required_terms=(Term(),)), None),
        (replace(POD, required_terms=(Term((Requirement("x", SelectorOperator.EXISTS),)),)), None),
    ],
)
def test_labels_and_taints_of_the_sleeping_node_decide_what_it_is_woken_for(pod, woken):
    nodes = [
        sleeping_node("a", labels={"disk": "ssd", "n": "3"}),
        sleeping_node("tainted", taints=(NodeTaint("team", "a"),), idle_watts=1.0),
    ]
    pod = replace(pod, tolerations=(PodToleration("team", "a", "NoSchedule"),)) if woken == "tainted" else pod
    records = {node.name: record(SleepState.ASLEEP) for node in nodes}
    decided = states(nodes, records, [pod], settings=SleepSettings(min_awake={"count": 0, "spare": 0}))
    assert [name for name, state in decided.items() if state is SleepState.WAKING] == ([woken] if woken else [])


@pytest.mark.parametrize("changes", [{"reachable": False}, {"reachable": None}, {"sampled_at_s": NOW - 181.0}])
def test_a_node_whose_bmc_does_not_answer_is_woken_only_where_no_other_helps(changes):
    silent = sleeping_node("silent", free={"cpu": 64.0}, idle_watts=1.0, power=facts(PowerState.OFF, **changes))
    nodes = [silent, sleeping_node("a"), sleeping_node("b")]
    records = {node.name: record(SleepState.ASLEEP) for node in nodes}
    settings = SleepSettings(min_awake={"count": 0, "spare": 0})
    asleep, waking = SleepState.ASLEEP, SleepState.WAKING
    assert states(nodes, records, [POD] * 3, settings=settings) == {"silent": asleep, "a": waking, "b": waking}
    assert states(nodes, records, [SleepPod({"cpu": 32.0})], settings=settings)["silent"] is waking
    spare = SleepSettings(min_awake={"count": 1, "spare": 0})
    assert states(nodes, records, settings=spare) == {"silent": asleep, "a": waking, "b": asleep}


def test_a_node_that_is_still_draining_is_taken_before_one_that_has_to_boot():
    nodes = [awake_node("a", cordoned=True), sleeping_node("b", idle_watts=1.0)]
    records = {"a": record(SleepState.DRAINING, NOW - 10.0), "b": record(SleepState.ASLEEP)}
    nodes[0] = replace(nodes[0], movable_pods=(SleepPod({}),))
    decided = states(nodes, records, [POD], settings=SleepSettings(min_awake={"count": 0, "spare": 0}))
    assert decided == {"a": SleepState.AWAKE, "b": SleepState.ASLEEP}


def test_a_pod_waits_for_the_node_that_boots_until_its_usual_boot_time_is_over():
    nodes = [sleeping_node("a"), sleeping_node("b")]
    for since_s, expected in ((NOW - 300.0, SleepState.ASLEEP), (NOW - 301.0, SleepState.WAKING)):
        records = {"a": record(SleepState.WAKING, since_s), "b": record(SleepState.ASLEEP)}
        assert (
            states(nodes, records, [POD], settings=SleepSettings(min_awake={"count": 0, "spare": 0}))["b"] is expected
        )


def test_at_most_a_few_nodes_boot_at_a_time():
    nodes = [sleeping_node(f"n{number}") for number in range(9)]
    records = {node.name: record(SleepState.ASLEEP) for node in nodes}
    decided = states(nodes, records, [POD] * 18, settings=SleepSettings(rates={"waking": 4}))
    assert list(decided.values()).count(SleepState.WAKING) == 4


def test_a_used_spare_node_is_replaced():
    nodes = [awake_node("a"), awake_node("b", protected_pods=1), sleeping_node("c"), sleeping_node("d")]
    records = {"c": record(SleepState.ASLEEP), "d": record(SleepState.ASLEEP)}
    decided = states(nodes, records, settings=SleepSettings(min_awake={"spare": 2}))
    assert list(decided.values()).count(SleepState.WAKING) == 1
    # The spare node that a pending pod is about to get counts no longer.
    nodes[1] = replace(nodes[1], free={"cpu": 0.0})
    assert (
        list(states(nodes, records, [POD], settings=SleepSettings(min_awake={"spare": 1})).values()).count(
            SleepState.WAKING
        )
        == 1
    )


def test_a_roll_out_of_a_daemon_set_wakes_the_node_that_it_waits_for():
    assert (
        states([sleeping_node("a", rollout_waiting=True), awake_node("b")], {"a": record(SleepState.ASLEEP)})["a"]
        is SleepState.WAKING
    )


def test_a_boot_that_does_not_come_is_repeated_after_a_back_off_and_then_given_up():
    node = sleeping_node("a", power=facts(PowerState.ON))
    booting = {"since_s": NOW - 1300.0, "boots_since_s": NOW - 1201.0}
    after = one(node, record(SleepState.WAKING, **booting))
    assert (after.state, after.failed_boots, after.not_before_s) == (SleepState.POWERING_OFF, 1, NOW + 600.0)
    asleep = one(sleeping_node("a"), after)
    assert asleep.state is SleepState.ASLEEP
    assert one(sleeping_node("a"), asleep).state is SleepState.ASLEEP
    assert one(sleeping_node("a"), replace(asleep, not_before_s=NOW)).state is SleepState.WAKING
    second = one(node, record(SleepState.WAKING, **booting, failed_boots=1))
    assert second.not_before_s == NOW + 1200.0
    assert one(node, record(SleepState.WAKING, **booting, failed_boots=2)).state is SleepState.QUARANTINED


@pytest.mark.parametrize(
    "changes", [{"protected_pods": 1}, {"protected_pods": None}, {"ready": None}, {"cordoned": False}]
)
def test_a_node_that_may_have_pods_is_not_switched_off_for_another_boot(changes):
    node = sleeping_node("a", power=facts(PowerState.ON), **changes)
    before = record(SleepState.WAKING, NOW - 1300.0, boots_since_s=NOW - 1201.0)
    assert one(node, before).state is SleepState.QUARANTINED


def test_a_node_in_quarantine_takes_pods_and_does_not_sleep_until_a_person_clears_it():
    kept = record(SleepState.QUARANTINED, idle_since_s=0.0)
    assert one(awake_node("a"), kept).state is SleepState.QUARANTINED
    assert intent_of(SleepState.QUARANTINED).cordon is False
    assert one(awake_node("a", quarantine_cleared=True), kept).state is SleepState.AWAKE
    assert one(sleeping_node("a", quarantine_cleared=True), kept).state is SleepState.WAKING


def test_power_is_off_in_two_states_only_and_pods_are_evicted_in_one():
    off = {state for state in SleepState if intent_of(state).power is DesiredPower.OFF}
    assert off == {SleepState.POWERING_OFF, SleepState.ASLEEP}
    assert {state for state in SleepState if intent_of(state).evict} == {SleepState.DRAINING}


def _at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()  # noqa: TID251 - a constant of the test


@pytest.mark.parametrize(
    ("now", "awake"),
    [
        # 7:00 in Berlin is 5:00 UTC in summer and 6:00 in winter; the nodes boot in five minutes.
        ("2026-07-06T04:54:00", 1),
        ("2026-07-06T04:55:00", 3),
        ("2026-01-05T05:54:00", 1),
        ("2026-01-05T05:55:00", 3),
        ("2026-07-06T15:59:00", 3),
        ("2026-07-06T16:00:00", 1),
        ("2026-07-05T10:00:00", 1),
    ],
)
def test_a_window_of_the_week_begins_earlier_by_the_time_of_a_boot(now, awake):
    window = AwakeWindow(
        weekdays=frozenset({0, 1, 2, 3, 4}),
        from_minute=7 * 60,
        to_minute=18 * 60,
        time_zone=ZoneInfo("Europe/Berlin"),
        min_awake=3,
    )
    now_s = _at(now)
    on, off = facts(sampled_at_s=now_s), facts(PowerState.OFF, sampled_at_s=now_s)
    nodes = [awake_node("a", power=on), *(sleeping_node(name, power=off) for name in "bcd")]
    records = {"a": record(), **{name: record(SleepState.ASLEEP) for name in "bcd"}}
    decided = states(nodes, records, windows=[window], now_s=now_s)
    assert sum(state in (SleepState.AWAKE, SleepState.WAKING) for state in decided.values()) == awake
