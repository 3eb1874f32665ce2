"""The policies that can be used, with their limits, times and nodes."""

import pytest
from services.operator.tests.sleep.sleep_objects import seen_node, seen_policy, window

from joulie_api.errors import DecodeError
from joulie_core.kinds.node_sleep_policy import SleepMode
from joulie_core.names import NodeName
from joulie_operator.sleep.planner import usable_policies

TIMES = {
    "minAwake": {"count": 3, "spare": 5, "spareOf": "Resources"},
    "maxAsleepPercent": 40,
    "idleSeconds": 11,
    "minAwakeSeconds": 12,
    "consolidation": {"mode": "Act", "belowPercent": 13},
    "drainTimeoutSeconds": 14,
    "offTimeoutSeconds": 15,
    "bootTimeoutSeconds": 16,
    "bootAttempts": 4,
    "backOffSeconds": 17,
    "rates": {"poweringOff": 5, "emptying": 2, "waking": 6, "wakingPerRack": 7, "powerCyclesPerDay": 8},
    "rackLabel": "dc.example/rack",
}


def usable(policies, managed=("n1", "n2", "n3")):
    nodes = {name: seen_node(name, labels={"pool": pool}) for name, pool in (("n1", "a"), ("n2", "a"), ("n3", "b"))}
    return usable_policies(policies, nodes, [NodeName(each) for each in managed])


def test_the_limits_and_times_of_a_policy_are_those_of_the_decision():
    spec = seen_policy(schedules=[window()], **TIMES).model.spec
    found, _ = usable([seen_policy(schedules=[window()], **TIMES)])
    assert found["p"].settings == spec
    assert spec.dump().items() >= TIMES.items()


@pytest.mark.parametrize("key", ["", "rack/", "/rack", "a/b/c", "Upper.example/rack", "rack label", "-rack", "r" * 64])
def test_a_key_that_no_label_can_have_is_refused(key):
    with pytest.raises(DecodeError, match="rackLabel"):
        seen_policy(rackLabel=key)


@pytest.mark.parametrize(
    "rates", [{"wakingPerRack": 0}, {"powerCyclesPerDay": 0}, {"powerCyclesPerDay": 25}, {"wakingPerRack": 1001}]
)
def test_a_bound_that_would_stop_everything_or_bind_nothing_is_refused(rates):
    with pytest.raises(DecodeError, match=next(iter(rates))):
        seen_policy(rates=rates)


def test_a_policy_has_the_managed_nodes_that_its_selector_matches():
    found, errors = usable([seen_policy(mode="Recommend", schedules=[window()], **TIMES)], managed=("n1", "n3", "gone"))
    assert errors == {}
    assert (found["p"].name, found["p"].mode, found["p"].nodes) == ("p", SleepMode.RECOMMEND, {"n1"})
    assert found["p"].taken == {}
    assert found["p"].selector == {"pool": "a"}
    assert len(found["p"].windows) == 1
    assert (found["p"].settings.min_awake.count, found["p"].settings.min_awake.spare) == (3, 5)


def test_a_node_needs_all_labels_of_the_selector():
    found, _ = usable([seen_policy(selector={"pool": "a", "rack": "r1"})])
    assert found["p"].nodes == frozenset()


def test_a_node_belongs_to_the_first_policy_by_name_which_the_other_one_counts():
    found, _ = usable([seen_policy("z"), seen_policy("a"), seen_policy("b", selector={"pool": "b"})])
    assert (found["a"].nodes, found["z"].nodes) == ({"n1", "n2"}, frozenset())
    assert found["z"].taken == {"a": 2}
    assert (found["b"].nodes, found["b"].taken) == ({"n3"}, {})


def test_a_policy_that_cannot_be_used_has_an_error_and_keeps_its_nodes_from_others():
    bad = seen_policy("a", schedules=[window(timeZone="Europe/Roma")])
    found, errors = usable([bad, seen_policy("b"), seen_policy("c", selector={"pool": "b"})])
    assert [(name, str(error).partition(":")[0]) for name, error in errors.items()] == [("a", "schedules[0].timeZone")]
    assert (found["b"].nodes, found["b"].taken) == (frozenset(), {"a": 2})
    assert found["c"].nodes == {"n3"}
