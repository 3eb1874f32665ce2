"""Spare nodes that suffice by what came into use at a time of day: docs/decisions/0055-spares-by-arrivals.md."""

import pytest

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SpareOf
from joulie_core.sleep import (
    ArrivalHistory,
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepReason,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
)
from joulie_core.sleep.arrivals import MOST_KINDS, MOST_USED
from joulie_core.sleep.model import OTHERS

DAY = 86_400.0
HOUR = 3_600.0
#: A midnight, UTC.
BEGIN = 20_000 * DAY
BOOT = 600.0
SETTINGS = SleepSettings(min_awake=MinAwakeSpec(count=0, spare=4, spare_of=SpareOf.ARRIVALS), max_asleep_percent=90)
CPU = frozenset[str]()
GPU = frozenset({"nvidia.com/gpu"})


def node(name, *, pods=0, kind=CPU, group="family", now_s=BEGIN, boot_s=BOOT):
    power = NodePowerFacts(
        state=PowerState.ON, sampled_at_s=now_s, reachable=True, wake_proven=True, off_allowed=True, boot_s=boot_s
    )
    return SleepNode(
        name=name,
        group=group,
        free={"cpu": 8.0} | dict.fromkeys(kind, 8.0),
        idle_watts=100.0,
        ready=True,
        protected_pods=pods,
        power=power,
    )


def nodes(in_use, of=9, **changes):
    return [node(f"n{number}", pods=int(number < in_use), **changes) for number in range(of)]


def watch(history, begin_s, end_s, in_use, *, step_s=120.0, **changes):
    """Look every two minutes; `in_use` returns the number of nodes with pods at a time."""
    looks = int((end_s - begin_s) / step_s)
    for look in range(looks):
        now_s = begin_s + look * step_s
        history.look(nodes(in_use(now_s), **changes), {}, now_s, SETTINGS)


def at_nine(number, hours=1.0):
    """Return nodes in use: that many from 9:00 on."""
    return lambda now_s: number if 9 * HOUR <= now_s % DAY < (9 + hours) * HOUR else 0


def expected(history, hour, *, day=1, kind=CPU):
    return history.expected(BEGIN + day * DAY + hour * HOUR).get(kind)


def test_a_day_that_was_not_seen_is_unknown():
    history = ArrivalHistory()
    for hour in range(24):
        assert history.expected(BEGIN + hour * HOUR) == {}
        watch(history, BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR, lambda _: 3)
    assert history.expected(BEGIN + DAY + HOUR) == {CPU: 0}


def test_nodes_that_came_into_use_are_expected_at_their_time_of_day_a_boot_ahead():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY + HOUR, at_nine(3))
    assert [expected(history, hour) for hour in (8.0, 8.8, 9.0, 9.8, 15.0)] == [0, 3, 3, 0, 0]


def test_nodes_that_are_in_use_all_along_or_end_are_not_expected():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY + HOUR, lambda now_s: 9 if now_s % DAY < 9 * HOUR else 2)
    assert expected(history, 8.8) == 0


def test_nodes_that_come_slower_than_one_boots_are_expected_one_at_a_time():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY + HOUR, lambda now_s: int(now_s % DAY / HOUR / 3))
    assert {expected(history, hour) for hour in range(24)} == {0, 1}


def test_a_number_that_was_needed_for_a_twentieth_of_the_time_is_not_expected():
    history = ArrivalHistory()
    # With a boot of a minute it is ahead for two of the minutes around, of which there are at least 45.
    watch(history, BEGIN, BEGIN + DAY + HOUR, at_nine(3), boot_s=60.0)
    assert expected(history, 9.0) == 0


def test_a_node_that_boots_for_pods_is_in_use():
    history = ArrivalHistory()
    waking = SleepRecord(state=SleepState.WAKING, reason=SleepReason.PENDING_PODS, since_s=BEGIN)
    spare = SleepRecord(state=SleepState.WAKING, reason=SleepReason.SPARE, since_s=BEGIN)
    for minute in range(25 * 60):
        now_s = BEGIN + 60.0 * minute
        records = {"n0": waking, "n1": waking, "n2": spare} if 9 * HOUR <= now_s % DAY < 10 * HOUR else {}
        history.look(nodes(0), records, now_s, SETTINGS)
    assert expected(history, 8.8) == 2


def test_kinds_of_nodes_are_counted_apart_and_nodes_of_others_not_at_all():
    history = ArrivalHistory()
    for minute in range(25 * 60):
        now_s = BEGIN + 60.0 * minute
        gpus = [node(f"g{number}", pods=at_nine(2)(now_s), kind=GPU) for number in range(3)]
        others = [node(f"o{number}", pods=at_nine(1)(now_s), group=OTHERS) for number in range(5)]
        history.look([*nodes(0), *gpus, *others], {}, now_s, SETTINGS)
    assert history.expected(BEGIN + DAY + 8.8 * HOUR) == {CPU: 0, GPU: 3}


def test_time_in_which_pods_were_unknown_or_nothing_was_seen_is_unknown():
    unknown, unseen = ArrivalHistory(), ArrivalHistory()
    for minute in range(25 * 60):
        now_s = BEGIN + 60.0 * minute
        hidden = 9 * HOUR <= now_s % DAY < 10 * HOUR
        seen = nodes(0)
        unknown.look([*seen, node("u", pods=None if hidden else 0)], {}, now_s, SETTINGS)
        if not hidden:
            unseen.look(seen, {}, now_s, SETTINGS)
    for history in (unknown, unseen):
        assert [expected(history, hour) for hour in (8.0, 9.4, 11.0)] == [0, None, 0]


def test_more_nodes_than_are_counted_are_unknown():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY + HOUR, at_nine(MOST_USED), of=MOST_USED)
    assert expected(history, 8.8) is None
    assert expected(history, 8.0) == 0


def test_what_does_not_come_any_more_is_forgotten():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY, at_nine(3))
    assert expected(history, 8.8) == 3
    watch(history, BEGIN + DAY, BEGIN + 8 * DAY + HOUR, lambda _: 0)
    assert expected(history, 8.8, day=8) == 0


def test_a_time_of_day_that_was_seen_long_ago_is_unknown():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY + HOUR, at_nine(3))
    assert expected(history, 8.8, day=2) == 3
    assert expected(history, 8.8, day=10) is None


def test_looks_in_quick_succession_count_the_most():
    history = ArrivalHistory()
    # A node is in use for one second of each minute.
    for second in range(int(2 * HOUR)):
        history.look(nodes(int(second % 60 == 1)), {}, BEGIN + second, SETTINGS)
    watch(history, BEGIN + 2 * HOUR, BEGIN + DAY + HOUR, lambda _: 0)
    assert [expected(history, hour) for hour in (1.0, 5.0)] == [1, 0]


def test_a_clock_that_is_set_back_loses_time_and_nothing_else():
    history = ArrivalHistory()
    watch(history, BEGIN, BEGIN + DAY + HOUR, at_nine(3))
    watch(history, BEGIN + DAY - HOUR, BEGIN + DAY + 2 * HOUR, lambda _: 0)
    assert [expected(history, hour) for hour in (8.0, 8.8)] == [0, 3]


def test_kinds_are_bounded_and_those_that_are_gone_forgotten():
    history = ArrivalHistory()
    many = [node(f"n{number}", kind={f"a.b/{number}"}) for number in range(2 * MOST_KINDS)]
    few = [node("n", kind={"a.b/new"})]
    for step in range(2):
        kinds = few if step else many
        for minute in range(25 * 60):
            history.look(kinds, {}, BEGIN + 2 * step * DAY + 60.0 * minute, SETTINGS)
        known = history.expected(BEGIN + (2 * step + 1) * DAY + 2 * HOUR)
        assert len(known) == (1 if step else MOST_KINDS)


@pytest.mark.parametrize(("known", "awake"), [({CPU: 0}, 0), ({CPU: 1}, 1), ({CPU: 9}, 4), ({GPU: 0}, 4), ({}, 4)])
def test_as_many_nodes_stay_awake_as_suffice_and_no_more_than_the_policy_says(known, awake):
    later = BEGIN + HOUR
    idle = [node(f"n{number}", now_s=later) for number in range(10)]
    records = {each.name: SleepRecord(since_s=BEGIN, idle_since_s=BEGIN) for each in idle}
    # 90 percent of the zone may sleep: one of the ten is a node with pods.
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"powering_off": 100})})
    cluster = SleepCluster(nodes=[*idle, node("busy", pods=1, now_s=later)], pending=(), expected=known)
    decided = decide(cluster, records, later, settings)
    left = [name for name, record in decided.items() if record.state is SleepState.AWAKE and name != "busy"]
    assert len(left) == max(awake, 1)


def test_nodes_that_suffice_are_woken_as_spare_ones():
    later = BEGIN + HOUR
    off = NodePowerFacts(
        state=PowerState.OFF, sampled_at_s=later, reachable=True, wake_proven=True, off_allowed=True, boot_s=BOOT
    )
    asleep = [
        SleepNode(
            name=f"n{number}",
            group="family",
            free={"cpu": 8.0},
            idle_watts=100.0,
            ready=False,
            cordoned=True,
            protected_pods=0,
            power=off,
        )
        for number in range(6)
    ]
    records = {each.name: SleepRecord(state=SleepState.ASLEEP, since_s=BEGIN) for each in asleep}
    for known, woken in (({CPU: 0}, 0), ({CPU: 2}, 2), ({}, 4)):
        decided = decide(SleepCluster(nodes=asleep, pending=(), expected=known), records, later, SETTINGS)
        assert sum(record.state is SleepState.WAKING for record in decided.values()) == woken
