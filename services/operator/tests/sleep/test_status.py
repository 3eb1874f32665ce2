"""The status of a NodeSleepPolicy: counts, reasons, watts and conditions."""

import json
from dataclasses import replace

import pytest

from joulie_api.wire import decode_kind
from joulie_core.kinds import NodeSleepPolicy
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import MOST_NAMES, PowerCyclesStatus, RackBootsStatus, SleepMode
from joulie_core.labels import RACK
from joulie_core.names import NodeName
from joulie_core.sleep import NodePowerFacts, SleepNode, SleepPod, SleepRecord, SleepSettings, SleepState
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.facts import SleepFacts
from joulie_operator.sleep.planner import SleepPlan, UsablePolicy
from joulie_operator.sleep.status import SleepSight, policy_status, refused_status
from joulie_operator.sleep.windows import UnusableSpec

NOW_S = 1_800_000_000.0
NOW, EARLIER = rfc3339(NOW_S, "seconds"), rfc3339(NOW_S - 600, "seconds")


def node(name, **changes):
    power = NodePowerFacts(state=PowerState.ON, sampled_at_s=NOW_S, reachable=True, wake_proven=True, off_allowed=True)
    known = {"group": "g", "free": {}, "idle_watts": 100.4, "ready": True, "protected_pods": 0, "power": power}
    return SleepNode(name=NodeName(name), **(known | changes))


def object_of(*conditions, generation=7):
    raw = {
        "metadata": {"name": "p", "generation": generation},
        "spec": {"nodeSelector": {"pool": "a"}},
        "status": {"conditions": list(conditions)},
    }
    return decode_kind(NodeSleepPolicy)(json.dumps(raw).encode())


def policy(names, mode=SleepMode.ACT, taken=None):
    selector = {"rack": "r1", "pool": "a"}
    return UsablePolicy("p", mode, SleepSettings(), (), frozenset(map(NodeName, names)), taken or {}, selector)


def status(nodes=(), *, states=None, recommended=None, to_empty=None, seen=None, of_others=(), **options):
    known = {each.name: each for each in (*nodes, *of_others)}
    records = {NodeName(name): SleepRecord(state=state, since_s=0) for name, state in (states or {}).items()}
    sight = SleepSight(SleepFacts(known, ()), records, NOW_S)
    found = policy([each.name for each in nodes], **options)
    recommendations = {} if recommended is None else {"p": recommended}
    plan = SleepPlan({}, recommendations, {} if to_empty is None else {"p": to_empty})
    return policy_status(found, seen or object_of(), sight, plan)


def conditions(found):
    return {each.type: (each.status.value, each.reason, each.message) for each in found.conditions}


def test_nodes_are_counted_by_state_and_one_without_a_record_is_awake():
    states = {f"n{number}": state for number, state in enumerate(SleepState)}
    states["n7"] = SleepState.ASLEEP
    states["foreign"] = SleepState.ASLEEP
    found = status([node(f"n{number}") for number in range(10)], states=states, of_others=[node("foreign")])
    assert found.nodes.model_dump() == {
        "selected": 10,
        "awake": 3,
        "cordoned": 1,
        "draining": 1,
        "powering_off": 1,
        "asleep": 2,
        "waking": 1,
        "quarantined": 1,
    }
    assert found.observed_generation == 7
    assert found.saved_watts == 201


def test_reasons_why_nodes_that_are_awake_may_not_sleep_are_counted_by_name():
    without_bmc = [node(name, power=None) for name in "bcd"]
    nodes = [node("a"), node("e", ready=False), node("f", maintenance=True), node("g", control_plane=True)]
    found = status([*nodes, *without_bmc], states={"d": SleepState.ASLEEP})
    assert [(each.reason, each.nodes) for each in found.refusals] == [
        ("control_plane", 1),
        ("maintenance", 1),
        ("no_bmc", 2),
        ("not_ready", 1),
    ]


def cycled(*ago_s, state=SleepState.AWAKE):
    return SleepRecord(state=state, since_s=NOW_S - 60, cycles_s=tuple(NOW_S - each for each in ago_s))


def bounds_of(nodes, records, of_others=()):
    known = {each.name: each for each in (*nodes, *of_others)}
    found = policy([each.name for each in nodes])
    return policy_status(found, object_of(), SleepSight(SleepFacts(known, ()), records, NOW_S), SleepPlan({}, {}, {}))


def test_power_cycles_of_a_day_are_counted_against_the_limit_and_the_refusal_is_named():
    nodes = [node("a"), node("b"), node("c"), node("d")]
    records = {
        "a": cycled(10, 20, 30, 40),
        "b": cycled(10, 90_000),
        "c": cycled(10, 20, 30, 40, 50, state=SleepState.ASLEEP),
        "foreign": cycled(*range(20)),
    }
    found = bounds_of(nodes, records, of_others=[node("foreign")])
    assert found.power_cycles == PowerCyclesStatus(limit=4, used=5, total=10, exhausted=2)
    # A node that sleeps is refused nothing.
    assert [(each.reason, each.nodes) for each in found.refusals] == [("power_cycles", 1)]


def test_boots_are_counted_in_the_racks_of_the_policy_with_those_of_other_nodes():
    nodes = [node("a", labels={RACK: "r1"}), node("b", labels={RACK: "r2"}), node("c"), node("d")]
    others = [node(f"o{at}", labels={RACK: "r1"}) for at in range(9)] + [node("p", labels={RACK: "r9"})]
    waking = cycled(state=SleepState.WAKING)
    records = {each.name: waking for each in others}
    found = bounds_of(nodes, records, of_others=others).rack_boots
    assert found == RackBootsStatus(limit=10, used=9, full=0, without_rack=2)
    assert bounds_of(nodes, {**records, "a": waking}, of_others=others).rack_boots.full == 1


def test_a_policy_without_nodes_has_used_no_power_cycle_and_boots_none():
    found = bounds_of([], {"foreign": cycled(10, state=SleepState.WAKING)}, of_others=[node("foreign")])
    assert found.power_cycles == PowerCyclesStatus(limit=4, used=0, total=0, exhausted=0)
    assert found.rack_boots == RackBootsStatus(limit=10, used=0, full=0, without_rack=0)


def test_watts_are_saved_in_mode_act_only():
    found = status([node("a")], states={"a": SleepState.ASLEEP}, mode=SleepMode.RECOMMEND)
    assert found.saved_watts is None
    assert found.recommendation is None


def test_consolidation_says_which_nodes_how_many_pods_and_how_many_watts():
    pod = SleepPod({"cpu": 1.0})
    emptied = [node(f"n{number:03}", movable_pods=(pod, pod)) for number in range(MOST_NAMES + 1)]
    found = status(emptied, to_empty=tuple(emptied)).consolidation
    assert (found.nodes, found.pods, found.watts) == (MOST_NAMES + 1, 2 * MOST_NAMES + 2, 10140)
    assert found.names == tuple(each.name for each in emptied[:MOST_NAMES])
    assert status(emptied).consolidation is None
    assert status(emptied, to_empty=()).consolidation.nodes == 0


def test_a_recommendation_names_nodes_in_order_and_their_watts():
    names = [f"n{number:03}" for number in range(MOST_NAMES + 5)]
    nodes = [node(name) for name in reversed(names)]
    found = status(nodes, recommended=frozenset(map(NodeName, names)), mode=SleepMode.RECOMMEND).recommendation
    assert (found.asleep, found.watts) == (len(names), round(100.4 * len(names)))
    assert found.nodes == tuple(names[:MOST_NAMES])


def test_nodes_in_quarantine_are_named_in_order():
    names = [f"n{number:03}" for number in range(MOST_NAMES + 5)]
    found = status([node(each) for each in reversed(names)], states=dict.fromkeys(names, SleepState.QUARANTINED))
    assert found.quarantined == tuple(names[:MOST_NAMES])
    assert conditions(found)["Healthy"] == ("False", "Quarantined", f"{len(names)} nodes did not boot")


def test_a_policy_that_acts_without_failure_has_all_good_conditions():
    assert conditions(status([node("a")])) == {
        "Accepted": ("True", "Valid", ""),
        "Acting": ("True", "Act", ""),
        "Healthy": ("True", "NoFailure", ""),
        "Maintenance": ("False", "None", ""),
        "Overlapping": ("False", "None", ""),
    }


@pytest.mark.parametrize(("number", "more"), [(2, ""), (MOST_NAMES, ""), (MOST_NAMES + 1, " and 1 more")])
def test_nodes_that_people_work_on_are_named_in_order(number, more):
    names = [f"n{each:03}" for each in range(number)]
    nodes = [node("free"), *(node(each, maintenance=True) for each in reversed(names))]
    found = status(nodes, of_others=[node("foreign", maintenance=True)])
    named = f"people work on {', '.join(names[:MOST_NAMES])}{more}: they neither sleep nor wake"
    assert conditions(found)["Maintenance"] == ("True", "PeopleWork", named)
    assert [(each.reason, each.nodes) for each in found.refusals] == [("maintenance", number)]


def test_a_policy_that_does_not_act_says_its_mode_and_how_to_change_it():
    found = conditions(status([node("a")], mode=SleepMode.OBSERVE))["Acting"]
    assert found == ("False", "Observe", "set spec.mode to Act to power nodes off")


def test_a_policy_without_nodes_says_its_selector_and_how_to_look_for_it():
    found = conditions(status())["Accepted"]
    assert found == (
        "True",
        "NoNodes",
        (
            "spec.nodeSelector pool=a,rack=r1 matches no managed node; change it, or label nodes: those with these "
            "labels are shown by kubectl get nodes -l pool=a,rack=r1"
        ),
    )


def test_a_message_is_no_longer_than_a_status_has_room_for_and_printable_whatever_people_write():
    """A selector of 192,000 characters, and the names of hundreds of policies."""
    long = replace(policy([]), selector={f"k{'x' * 192_000}": "\x1b[31mv"})
    found = policy_status(long, object_of(), SleepSight(SleepFacts({}, ()), {}, NOW_S), SleepPlan({}, {}, {}))
    message = conditions(found)["Accepted"][2]
    assert (len(message), message.startswith("spec.nodeSelector kxxx"), message.isprintable()) == (4096, True, True)
    overlapping = conditions(status(taken={f"{number:0200}": 1 for number in range(500)}))["Overlapping"][2]
    assert len(overlapping) == 4096


def test_a_policy_whose_nodes_belong_to_others_names_them():
    found = conditions(status(taken={"z": 1, "b": 4}))
    assert found["Accepted"] == ("True", "Valid", "")
    assert found["Overlapping"] == (
        "True",
        "OtherPolicy",
        (
            "of the nodes that spec.nodeSelector matches belong 4 to b and 1 to z, which come first by name; change "
            "one of the selectors so that they do not overlap"
        ),
    )


def test_a_condition_keeps_its_time_while_its_status_is_the_same():
    before = [
        {"type": "Acting", "status": "True", "reason": "Old", "lastTransitionTime": EARLIER},
        {"type": "Healthy", "status": "False", "reason": "Quarantined", "lastTransitionTime": EARLIER},
    ]
    found = status([node("a")], seen=object_of(*before, generation=8)).conditions
    times = {each.type: each.last_transition_time for each in found}
    assert times == {"Accepted": NOW, "Acting": EARLIER, "Healthy": NOW, "Maintenance": NOW, "Overlapping": NOW}
    assert {each.observed_generation for each in found} == {8}
    assert [each.type for each in found] == sorted(times)


def test_a_policy_that_cannot_be_used_says_why_and_what_becomes_of_its_nodes():
    found = refused_status(object_of(), UnusableSpec("schedules[0]: odd"), NOW_S)
    assert conditions(found) == {
        "Accepted": ("False", "Invalid", "schedules[0]: odd"),
        "Acting": ("False", "Invalid", "its nodes stay awake, or are woken"),
    }
    assert (found.observed_generation, found.nodes) == (7, None)
