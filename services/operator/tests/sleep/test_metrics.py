"""The series about sleeping nodes."""

from prometheus_client import CollectorRegistry

from joulie_core.kinds import NodeSleepPolicyStatus
from joulie_core.kinds.node_sleep_policy import ConsolidationStatus, SleepCounts, SleepRecommendation
from joulie_core.sleep import SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.left_off import OffReason
from joulie_operator.sleep.metrics import WAKE_BUCKETS, SleepMetrics, families

WAKE = "joulie_operator_sleep_wake_duration_seconds"
TRANSITIONS = "joulie_operator_sleep_transitions_total"


def record(state, since_s=100.0, reason=SleepReason.IDLE):
    return SleepRecord(state=state, since_s=since_s, reason=reason)


def after(*changes):
    registry = CollectorRegistry()
    metrics = SleepMetrics(registry)
    for before, now in changes:
        metrics.on_transition(before, now)
    return registry


def test_a_transition_is_counted_by_its_states_and_reason():
    change = (record(SleepState.AWAKE), record(SleepState.CORDONED))
    found = after(change, change)
    labels = {"from_state": "Awake", "to_state": "Cordoned", "reason": "idle"}
    assert found.get_sample_value(TRANSITIONS, labels) == 2


def test_failures_that_alerts_are_about_are_counted_from_zero_on():
    samples = {
        tuple(sample.labels.values()): sample.value
        for family in after().collect()
        for sample in family.samples
        if sample.name == TRANSITIONS
    }
    assert samples == {
        ("Cordoned", "Awake", "drain_timeout"): 0,
        ("Draining", "Awake", "drain_timeout"): 0,
        ("Waking", "PoweringOff", "boot_timeout"): 0,
        ("Waking", "Quarantined", "boot_timeout"): 0,
    }


def test_the_time_of_a_complete_wake_is_measured():
    ready = record(SleepState.AWAKE, 420.0, SleepReason.READY)
    found = after((record(SleepState.WAKING, 100.0), ready))
    assert found.get_sample_value(f"{WAKE}_sum") == 320
    assert found.get_sample_value(f"{WAKE}_bucket", {"le": "480.0"}) == 1
    assert found.get_sample_value(f"{WAKE}_bucket", {"le": "300.0"}) == 0


def test_other_transitions_are_no_wake():
    cleared = record(SleepState.AWAKE, 420.0, SleepReason.CLEARED)
    ready = record(SleepState.AWAKE, 420.0, SleepReason.READY)
    found = after((record(SleepState.WAKING), cleared), (record(SleepState.QUARANTINED), ready))
    assert found.get_sample_value(f"{WAKE}_count") == 0


def test_boots_from_seconds_to_half_an_hour_are_told_apart():
    assert (WAKE_BUCKETS[0], WAKE_BUCKETS[-1]) == (5, 1800)
    assert list(WAKE_BUCKETS) == sorted(WAKE_BUCKETS)


def test_evictions_are_counted_by_their_result():
    registry = CollectorRegistry()
    metrics = SleepMetrics(registry)
    for result in ("evicted", "blocked", "evicted"):
        metrics.on_eviction(result)
    name = "joulie_operator_sleep_evictions_total"
    assert [registry.get_sample_value(name, {"result": each}) for each in ("evicted", "blocked")] == [2, 1]


def test_servers_that_joulie_switched_off_are_exported_by_why_they_are_not_on():
    off = {"a": OffReason.SLEEP, "b": OffReason.SLEEP, "c": OffReason.NODE_MISSING}
    (found,) = (each for each in families({}, off) if each.name == "joulie_operator_sleep_servers_off")
    samples = {sample.labels["reason"]: sample.value for sample in found.samples}
    assert samples == dict.fromkeys(OffReason, 0) | {"sleep": 2, "node_missing": 1}


def series(**statuses):
    return {
        family.name.removeprefix("joulie_operator_sleep_"): {
            tuple(sample.labels.items()): sample.value for sample in family.samples
        }
        for family in families(statuses, {})
    }


def test_the_nodes_of_a_policy_are_exported_by_state():
    counts = SleepCounts(
        selected=28, awake=1, cordoned=2, draining=3, powering_off=4, asleep=5, waking=6, quarantined=7
    )
    found = series(workers=NodeSleepPolicyStatus(nodes=counts))["nodes"]
    assert found == {
        (("policy", "workers"), ("state", state)): number
        for number, state in enumerate(
            ("Awake", "Cordoned", "Draining", "PoweringOff", "Asleep", "Waking", "Quarantined"), start=1
        )
    }


def test_watts_are_exported_where_they_are_known():
    recommended = SleepRecommendation(asleep=2, watts=350, nodes=("a", "b"))
    found = series(
        acts=NodeSleepPolicyStatus(saved_watts=500),
        recommends=NodeSleepPolicyStatus(recommendation=recommended),
        consolidates=NodeSleepPolicyStatus(consolidation=ConsolidationStatus(nodes=1, pods=3, watts=120, names=("c",))),
        observes=NodeSleepPolicyStatus(),
    )
    assert found["consolidation_watts"] == {(("policy", "consolidates"),): 120}
    assert found["saved_watts"] == {(("policy", "acts"),): 500}
    assert found["recommended_watts"] == {(("policy", "recommends"),): 350}
    assert found["nodes"] == {}
