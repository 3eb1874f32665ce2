"""The table's prepared answers against the readable formula."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import POWER_PROFILE, SLEEP_STATE
from joulie_core.node import Node
from joulie_core.power.curves import node_curves
from joulie_core.powerest.marginal import Coefficients, NodePower, marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.energy_v2 import PackingScore
from joulie_core.scoring.filter import filter_node
from joulie_core.scoring.formula import score
from joulie_core.scoring.registry import DEFAULT_SCORE, SCORE_POLICIES
from joulie_core.scoring.state import ClusterTerms, TwinSnapshot, cluster_terms
from joulie_core.stated_time import covered_ninths
from joulie_extender.pods import BoundPod
from joulie_extender.replies import refusal
from joulie_extender.table import NodeTable
from joulie_extender.table_config import TableConfig

NOW_S = 1_000.0
POWER = NodePower(cpu_threads=64, cpu_max_watts=500, gpu_count=4, gpu_max_watts=1_600)
CURVES = node_curves(
    view_from_node(Node("a", labels={"joulie.io/hw.cpu-model": "Intel Xeon Platinum 8280"}), Inventory.load())
)
CURVED = replace(POWER, gpu_count=0, gpu_max_watts=0, curves=CURVES)
NAMES = ["a", "b", "c", "d", "e"]
TWINS = st.builds(
    TwinSnapshot,
    schedulable_class=st.sampled_from(SchedulableClass),
    measured_watts=st.none() | st.floats(0, 5_000),
    capped_watts=st.none() | st.floats(1, 5_000),
    predicted_headroom_pct=st.none() | st.floats(-100, 100),
    cpu_cap_share=st.none() | st.sampled_from([0.3, 0.6, 1.0]),
    gpu_cap_share=st.none() | st.sampled_from([0.3, 0.6, 1.0]),
    cooling_stress_pct=st.none() | st.floats(0, 100),
    trend_w_per_min=st.floats(-300, 300),
    pue=st.none() | st.floats(1, 2),
    last_updated_s=st.none() | st.sampled_from([600.0, 750.0, 990.0, 1_000.0]),
)
DEMANDS = st.builds(
    PodDemand,
    cpu_cores=st.floats(0, 64),
    gpus=st.sampled_from([0.0, 1.0, 4.0]),
    workload_class=st.sampled_from(WorkloadClass),
)
NODES = st.builds(
    Node, st.just("x"), labels=st.sampled_from([{}, {POWER_PROFILE: "eco"}, {POWER_PROFILE: "performance"}])
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("twin"), st.sampled_from(NAMES), st.none() | TWINS),
        st.tuples(st.just("node"), st.sampled_from(NAMES), st.none() | NODES),
        st.tuples(st.just("pod"), st.sampled_from(NAMES), st.none() | DEMANDS),
        st.tuples(st.just("refresh"), st.booleans(), st.just(None)),
    ),
    max_size=25,
)


class Clock:
    now_s = NOW_S

    def __call__(self):
        return self.now_s


def make_table(
    clock,
    *,
    score_max=100,
    weigh_pue=True,
    read_power=lambda *_: POWER,
    score_policy=DEFAULT_SCORE,
    coefficients=Coefficients(),  # noqa: B008 - immutable
    count_in_flight=True,
):
    config = TableConfig(
        coefficients,
        staleness_threshold_s=300.0,
        telemetry_interval_s=20.0,
        assumed_window_s=2.0,
        count_in_flight=count_in_flight,
        weigh_pue=weigh_pue,
        score_max=score_max,
        score=score_policy,
    )
    return NodeTable(config, read_power=read_power, wall_clock=clock, clock=clock)


def play(table, changes, between=lambda: None):
    """Feed changes as reflectors would, and return what the watches' stores then hold."""
    stores = {"twin": {}, "node": {}, "pod": {}}
    for kind, key, value in changes:
        between()
        if kind == "refresh":
            table.refresh(silent=key)
            continue
        new = BoundPod(f"uid-{key}", key, value) if kind == "pod" and value else value
        old = stores[kind].pop(key, None)
        if new is not None:
            stores[kind][key] = new
        if kind == "pod":
            table.on_pod(old, new, counted=False)
        elif old is not None or new is not None:
            (table.on_twin if kind == "twin" else table.on_node)(key, old, new)
    table.refresh(silent=False)
    return stores


@given(CHANGES, DEMANDS, st.sampled_from([1, 10, 100]))
def test_any_history_of_changes_ends_in_the_scores_of_the_formula(changes, demand, score_max):
    table = make_table(Clock(), score_max=score_max)
    # Asked again and again, so that kept scores have to follow the changes.
    stores = play(table, changes, between=lambda: table.answer(NAMES, demand))
    states = {name: table.entry(name).state for name in NAMES}
    fresh = [state for state in states.values() if state and not state.stale(NOW_S, 300.0)]
    cluster = cluster_terms(fresh)
    if 499 < abs(cluster.trend_w_per_min) < 501:
        return  # the last digit of a sum may decide about the scale
    reply = msgspec.json.decode(table.answer(NAMES, demand).body)
    assert [each["Host"] for each in reply] == NAMES
    for each in reply:
        state = states[each["Host"]]
        assert (state is None) == (each["Host"] not in stores["twin"])
        marginal = marginal_watts(demand, POWER, Coefficients(), state.pue if state else None)
        expected = score(
            state,
            stale=state is None or state.stale(NOW_S, 300.0),
            marginal=marginal,
            workload_class=demand.workload_class,
            cluster=cluster,
        ).score
        # Pressure is taken in tenths, where the last digit of a sum may decide: 0.03 points.
        assert abs(each["Score"] - expected * score_max / 100) <= 0.5 + 0.031 * score_max / 100


@pytest.mark.parametrize(
    "policy", [SCORE_POLICIES["energy_v1"], SCORE_POLICIES["energy_v2"]], ids=lambda each: each.name
)
@given(CHANGES, DEMANDS, st.sampled_from([1, 10, 100]))
def test_any_history_of_changes_ends_in_the_scores_of_the_selected_policy(policy, changes, demand, score_max):
    power = replace(POWER, curves=CURVES)
    table = make_table(Clock(), score_max=score_max, read_power=lambda *_: power, score_policy=policy)
    play(table, changes, between=lambda: table.answer(NAMES, demand))
    for each in msgspec.json.decode(table.answer(NAMES, demand).body):
        expected = table.explain(table.entry(each["Host"]), demand).score * score_max / 100
        assert abs(each["Score"] - expected) <= 0.5 + 1e-6


@given(CHANGES)
def test_any_history_of_changes_ends_in_the_results_of_the_filter(changes):
    table = make_table(Clock())
    stores = play(table, changes)
    for name in NAMES:
        twin = stores["twin"].get(name)
        judged = filter_node(
            WorkloadClass.PERFORMANCE,
            schedulable_class=twin.schedulable_class if twin else None,
            stale=twin is None or twin.stale(NOW_S, 300.0),
            labels=stores["node"][name].labels if name in stores["node"] else {},
        )
        assert table.refusals(WorkloadClass.PERFORMANCE).get(name) == (None if judged.ok else refusal(name, judged))


@given(CHANGES)
def test_a_node_of_which_nothing_exists_is_forgotten(changes):
    table = make_table(Clock())
    stores = play(table, changes)
    assert {entry.name for entry in table} == stores["twin"].keys() | stores["node"].keys()


def test_a_heartbeat_of_a_node_recomputes_nothing():
    looks = []
    table = make_table(Clock(), read_power=lambda *seen: looks.append(seen) or POWER)
    node = Node("a", resource_version="1")
    table.on_node("a", None, node)
    seen = len(looks)
    table.on_node("a", node, Node("a", resource_version="2"))
    assert len(looks) == seen


def test_the_clusters_terms_forget_twins_as_they_age():
    clock = Clock()
    table = make_table(clock)
    busy = TwinSnapshot(
        SchedulableClass.PERFORMANCE, measured_watts=90, capped_watts=100, trend_w_per_min=700, last_updated_s=NOW_S
    )
    table.on_twin("a", None, busy)
    assert (table.terms.perf_pressure, table.terms.trend_scale) == (90, 2.0)
    clock.now_s += 301
    table.refresh(silent=False)
    assert (table.terms.perf_pressure, table.terms.trend_scale) == (0, 6.0)


def test_assumed_pods_are_not_weighted_with_the_pue():
    table = make_table(Clock())
    table.on_twin("a", None, TwinSnapshot(measured_watts=1, capped_watts=100, pue=2.0, last_updated_s=NOW_S))
    table.on_pod(None, BoundPod("uid", "a", PodDemand(cpu_cores=64)), counted=False)
    table.on_node("a", None, Node("a"))
    assert table.entry("a").state.assumed_watts == pytest.approx(0.8 * 500)


def test_watts_of_pods_in_flight_follow_the_hardware():
    powers = iter([POWER, POWER, replace(POWER, cpu_max_watts=250)])
    table = make_table(Clock(), read_power=lambda *_: next(powers))
    table.on_twin("a", None, TwinSnapshot(measured_watts=1, capped_watts=100, last_updated_s=NOW_S))
    table.on_pod(None, BoundPod("uid", "a", PodDemand(cpu_cores=64)), counted=False)
    node = Node("a")
    table.on_node("a", None, node)
    assert table.entry("a").state.assumed_watts == pytest.approx(0.8 * 500)
    table.on_node("a", node, Node("a", labels={"other": "hardware"}))
    assert table.entry("a").state.assumed_watts == pytest.approx(0.8 * 250)


def test_watts_of_few_demands_are_kept_and_any_number_are_counted():
    table = make_table(Clock())
    table.on_twin("a", None, TwinSnapshot(measured_watts=1, capped_watts=100, last_updated_s=NOW_S))
    for cores in range(200):
        table.on_pod(None, BoundPod(f"uid-{cores}", "a", PodDemand(cpu_cores=float(cores))), counted=False)
    assert table.entry("a").state.assumed_watts == pytest.approx(0.8 * 500 / 64 * sum(range(200)))


def test_the_watts_of_at_most_64_demands_are_kept():
    table = make_table(Clock())
    table.on_twin("a", None, MEASURED)
    for cores in range(70):
        bound = BoundPod(f"uid-{cores}", "a", PodDemand(cpu_cores=float(cores)))
        table.on_pod(None, bound, counted=False)
        assert len(table.entry("a").watts) <= 64
        table.on_pod(bound, None, counted=False)
    assert table.entry("a").watts[PodDemand(cpu_cores=69.0)] == pytest.approx(0.8 * 500 / 64 * 69)


#: Half of the cap is free.
MEASURED = TwinSnapshot(SchedulableClass.PERFORMANCE, measured_watts=300, capped_watts=600, last_updated_s=NOW_S)
#: 50 W on `POWER`.
EIGHT_CORES = PodDemand(8.0, workload_class=WorkloadClass.PERFORMANCE)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def table(clock):
    """A table of one node `a`, half of whose cap is free."""
    table = make_table(clock)
    table.on_twin("a", None, MEASURED)
    return table


def in_flight_watts(table, name="a"):
    return round(table.entry(name).state.assumed_watts, 6)


def held(table, name="a"):
    state = table.entry(name).state
    return state.held_cores, state.held_gpus


def scores_of(table):
    demand = PodDemand(4.0)
    return {name: round(table.explain(table.entry(name), demand).score, 6) for name in ("a", "b")}


def test_the_power_of_a_node_is_read_of_all_that_is_known_of_its_hardware():
    seen = []
    table = make_table(Clock(), read_power=lambda *of: seen.append(of) or (POWER if of[1] else NodePower()))
    node, hardware = Node("a"), NodeHardwareStatus()
    table.on_node("a", None, node)
    assert seen == [(None, None), (node, None)]
    assert table.entry("a").power == NodePower()
    table.on_hardware("a", None, hardware)
    assert seen[2:] == [(node, hardware)]
    assert table.entry("a").power == POWER
    table.on_hardware("a", hardware, None)
    assert seen[3:] == [(node, None)]


def test_a_scored_pod_counts_on_its_likely_node_for_the_window(table, clock):
    table.expect_pod("uid", "a", EIGHT_CORES)
    assert in_flight_watts(table) == 50
    clock.now_s += 1.9
    table.refresh(silent=False)
    assert in_flight_watts(table) == 50
    clock.now_s += 0.2
    table.refresh(silent=False)
    assert in_flight_watts(table) == 0


def test_a_scored_pod_counts_where_it_is_bound(table):
    table.on_twin("b", None, MEASURED)
    table.expect_pod("uid", "a", EIGHT_CORES)
    table.on_pod(None, BoundPod("uid", "b", EIGHT_CORES), counted=False)
    assert (in_flight_watts(table), in_flight_watts(table, "b")) == (0, 50)


def test_without_the_setting_no_pod_in_flight_counts():
    table = make_table(Clock(), count_in_flight=False)
    table.on_twin("a", None, MEASURED)
    table.expect_pod("uid", "a", EIGHT_CORES)
    table.on_pod(None, BoundPod("other", "a", EIGHT_CORES), counted=False)
    assert in_flight_watts(table) == 0


def test_a_pod_that_changes_counts_once_and_one_that_is_gone_no_longer(table):
    pod = BoundPod("uid", "a", EIGHT_CORES)
    table.on_pod(None, pod, counted=False)
    table.on_pod(pod, pod, counted=False)
    assert in_flight_watts(table) == 50
    table.on_pod(pod, None, counted=False)
    assert in_flight_watts(table) == 0


def test_a_pod_in_place_of_another_of_its_name_counts_in_its_place(table):
    old, new = BoundPod("old", "a", EIGHT_CORES), BoundPod("new", "a", replace(EIGHT_CORES, cpu_cores=16.0))
    table.on_pod(None, old, counted=False)
    table.on_pod(old, new, counted=False)
    assert in_flight_watts(table) == 100


def test_a_pod_counts_until_a_measurement_has_it_and_not_again(table, clock):
    pod = BoundPod("uid", "a", EIGHT_CORES)
    table.on_pod(None, pod, counted=False)
    clock.now_s += 20
    unmeasured = replace(MEASURED, measured_watts=None, last_updated_s=NOW_S + 10)
    again = replace(MEASURED, last_updated_s=NOW_S + 10)
    table.on_twin("a", MEASURED, unmeasured)
    table.on_twin("a", unmeasured, again)
    assert in_flight_watts(table) == 50
    measured = replace(MEASURED, last_updated_s=NOW_S + 20)
    table.on_twin("a", again, measured)
    table.on_twin("a", measured, measured)
    assert in_flight_watts(table) == 0
    table.on_pod(pod, pod, counted=False)
    assert in_flight_watts(table) == 0


def test_what_pods_hold_counts_from_their_binding_to_their_end_whether_or_not_it_is_measured(table, clock):
    first, second = BoundPod("uid", "a", EIGHT_CORES), BoundPod("other", "a", PodDemand(2.0, 1.0))
    table.on_pod(None, first, counted=True)
    table.on_pod(None, second, counted=False)
    assert held(table) == (10.0, 1.0)
    clock.now_s += 20
    table.on_twin("a", MEASURED, replace(MEASURED, last_updated_s=NOW_S + 20))
    assert held(table) == (10.0, 1.0)
    smaller = replace(second, demand=PodDemand(1.0))
    table.on_pod(second, smaller, counted=False)
    assert held(table) == (9.0, 0.0)
    table.on_pod(first, None, counted=False)
    assert held(table) == (1.0, 0.0)
    table.on_pod(smaller, None, counted=False)
    assert held(table) == (0.0, 0.0)


def test_a_pod_that_is_expected_holds_devices_once(table, clock):
    table.on_twin("b", None, MEASURED)
    table.expect_pod("uid", "a", PodDemand(2.0, 1.0))
    assert held(table) == (2.0, 1.0)
    table.on_pod(None, BoundPod("uid", "b", PodDemand(2.0, 1.0)), counted=False)
    assert (held(table), held(table, "b")) == ((0.0, 0.0), (2.0, 1.0))
    table.expect_pod("late", "a", PodDemand(2.0, 1.0))
    clock.now_s += 2.1
    table.refresh(silent=False)
    assert held(table) == (0.0, 0.0)


def test_what_pods_hold_is_known_where_pods_in_flight_do_not_count():
    table = make_table(Clock(), count_in_flight=False)
    table.on_pod(None, BoundPod("uid", "a", EIGHT_CORES), counted=True)
    table.on_twin("a", None, MEASURED)
    assert held(table) == (8.0, 0.0)


def test_the_packing_score_sends_a_pod_to_the_pods_before_it(clock):
    table = make_table(clock, score_policy=SCORE_POLICIES["energy_v2"], read_power=lambda *_: CURVED)
    for name in ("a", "b"):
        table.on_twin(name, None, replace(MEASURED, cpu_cap_share=1.0, gpu_cap_share=1.0))
    assert scores_of(table)["b"] == scores_of(table)["a"]
    pod = BoundPod("uid", "b", EIGHT_CORES)
    table.on_pod(None, pod, counted=True)
    assert scores_of(table)["b"] > scores_of(table)["a"]
    table.on_pod(pod, None, counted=True)
    assert scores_of(table)["b"] == scores_of(table)["a"]


#: Stated and bound seconds of a pod, of which each may be unknown.
TIMES = st.tuples(st.none() | st.sampled_from([30.0, 90.0, 600.0, 5_000.0]), st.none() | st.floats(0.0, 1_100.0))


@given(CHANGES, st.lists(st.tuples(st.sampled_from(NAMES), TIMES), max_size=8), DEMANDS, st.sampled_from([45.0, 900.0]))
def test_pods_that_state_their_run_time_are_scored_as_by_the_plain_form(changes, stating, demand, run_s):
    table = make_table(
        Clock(), score_policy=SCORE_POLICIES["energy_v2"], read_power=lambda *_: replace(POWER, curves=CURVES)
    )
    play(table, changes, between=lambda: table.answer(NAMES, demand, run_s))
    ends_s: dict[str, list[float]] = {name: [] for name in NAMES}
    for number, (name, (expected_s, started_s)) in enumerate(stating):
        pod = BoundPod(f"stating-{number}", name, demand, expected_s, started_s)
        table.on_pod(None, pod, counted=False)
        if expected_s is not None:
            ends_s[name].append(min(NOW_S, NOW_S if started_s is None else started_s) + expected_s)
    for each in msgspec.json.decode(table.answer(NAMES, demand, run_s).body):
        left_s = max(ends_s[each["Host"]], default=NOW_S) - NOW_S
        covered = covered_ninths(run_s, left_s)
        assert table.covered(run_s).get(each["Host"], 0) == covered
        expected = table.explain(table.entry(each["Host"]), demand, covered).score
        assert abs(each["Score"] - expected) <= 0.5 + 1e-6


def stated_scores(table, run_s):
    return {
        each["Host"]: each["Score"] for each in msgspec.json.decode(table.answer(["a", "b"], EIGHT_CORES, run_s).body)
    }


@pytest.fixture
def two_equal(clock):
    """Two equal nodes, each with a pod of equal size."""
    table = make_table(clock, score_policy=SCORE_POLICIES["energy_v2"], read_power=lambda *_: CURVED)
    for name in ("a", "b"):
        table.on_twin(name, None, replace(MEASURED, cpu_cap_share=1.0, gpu_cap_share=1.0))
    table.on_pod(None, BoundPod("of a", "a", EIGHT_CORES, 60.0, NOW_S), counted=True)
    table.on_pod(None, BoundPod("of b", "b", EIGHT_CORES, 900.0, NOW_S), counted=True)
    return table


def test_a_pod_goes_to_the_node_that_is_on_for_as_long_and_one_that_states_nothing_sees_no_difference(two_equal):
    scores = stated_scores(two_equal, 600.0)
    assert scores["b"] > scores["a"]
    silent = stated_scores(two_equal, None)
    assert silent["a"] == silent["b"] <= scores["a"]


def test_what_is_covered_ends_with_time_and_with_the_pod(two_equal, clock):
    assert two_equal.covered(600.0) == {"b": 9}
    clock.now_s += 600.0
    assert two_equal.covered(600.0) == {"b": 4}
    two_equal.on_pod(BoundPod("of b", "b", EIGHT_CORES, 900.0, NOW_S), None, counted=False)
    assert two_equal.covered(600.0) == {}


def test_a_pod_that_is_seen_on_another_node_or_states_nothing_any_more_covers_nothing_there(two_equal):
    before = BoundPod("of b", "b", EIGHT_CORES, 900.0, NOW_S)
    moved = replace(before, node="a")
    two_equal.on_pod(before, moved, counted=False)
    assert two_equal.covered(600.0) == {"a": 9}
    two_equal.on_pod(moved, replace(moved, expected_s=None), counted=False)
    assert two_equal.covered(60.0) == {"a": 9}
    assert two_equal.covered(600.0) == {}


def test_a_pod_counts_from_the_moment_of_its_binding_unless_it_was_bound_before_the_watch(clock):
    table = make_table(clock, score_policy=SCORE_POLICIES["energy_v2"])
    seen, earlier = BoundPod("seen", "a", EIGHT_CORES, 900.0), BoundPod("earlier", "b", EIGHT_CORES, 900.0)
    table.on_pod(None, seen, counted=False)
    table.on_pod(None, earlier, counted=True)
    clock.now_s += 100.0
    for pod in (seen, earlier):
        table.on_pod(pod, pod, counted=False)
    assert table.covered(900.0) == {"a": 8}
    table.on_pod(earlier, replace(earlier, started_s=NOW_S), counted=False)
    assert table.covered(900.0) == {"a": 8, "b": 8}


@pytest.mark.parametrize("name", sorted(SCORE_POLICIES))
def test_only_scores_that_take_run_times_are_made_of_them(clock, name):
    table = make_table(clock, score_policy=SCORE_POLICIES[name])
    table.on_pod(None, BoundPod("uid", "a", EIGHT_CORES, 900.0, NOW_S), counted=True)
    assert table.covered(600.0) == ({"a": 9} if name == "energy_v2" else {})
    assert table.covered(None) == {}


class CountedRows(PackingScore):
    """The packing score, with the number of rows that it has made."""

    made = 0

    def row(self, *args, **kwargs):
        CountedRows.made += 1
        return super().row(*args, **kwargs)


def test_a_pod_that_comes_to_the_node_where_it_was_expected_has_no_row_made_anew(clock):
    table = make_table(clock, score_policy=CountedRows(), read_power=lambda *_: CURVED)
    for name in ("a", "b"):
        table.on_twin(name, None, replace(MEASURED, cpu_cap_share=1.0, gpu_cap_share=1.0))

    def rows_made():
        before = CountedRows.made
        table.answer(["a", "b"], EIGHT_CORES)
        return CountedRows.made - before

    assert rows_made() == 2
    table.expect_pod("uid", "b", EIGHT_CORES)
    assert rows_made() == 1
    table.on_pod(None, BoundPod("uid", "b", EIGHT_CORES), counted=False)
    assert rows_made() == 0
    table.on_pod(None, BoundPod("other", "b", EIGHT_CORES), counted=False)
    assert rows_made() == 1


def test_while_the_watches_are_silent_every_twin_is_stale(table):
    table.refresh(silent=True)
    assert table.entry("a").stale
    assert table.terms == ClusterTerms()
    table.on_twin("a", MEASURED, replace(MEASURED, measured_watts=200))
    assert table.entry("a").stale
    table.refresh(silent=False)
    assert not table.entry("a").stale
    assert table.terms.perf_pressure == pytest.approx(33.3)


def test_a_refresh_before_a_twin_becomes_stale_computes_nothing(table, clock):
    clock.now_s += 300
    before = table.entry("a").state
    table.refresh(silent=False)
    assert table.entry("a").state is before
    clock.now_s += 1
    table.refresh(silent=False)
    assert table.entry("a").stale


def test_a_node_without_its_twin_is_stale(table):
    table.on_node("a", None, Node("a"))
    table.on_twin("a", MEASURED, None)
    assert (table.entry("a").state, table.entry("a").stale) == (None, True)
    assert table.terms == ClusterTerms()


def test_a_node_of_which_nothing_is_known_is_stale_and_has_its_name(table):
    ghost = table.entry("ghost")
    assert (ghost.name, ghost.state, ghost.stale, ghost.power, len(table)) == ("ghost", None, True, NodePower(), 1)


@pytest.mark.parametrize("change", ["wakes", "goes"])
def test_a_node_that_sleeps_refuses_every_pod_until_it_wakes_or_goes(change):
    table = make_table(Clock())
    asleep = Node("a", labels={SLEEP_STATE: "asleep"})
    table.on_node("a", None, asleep)
    for workload_class in WorkloadClass:
        refused = refusal("a", table.entry("a").judge(workload_class))
        assert table.refusals(workload_class) == {"a": refused}
        assert b"asleep" in refused
    table.on_node("a", asleep, Node("a") if change == "wakes" else None)
    assert [table.refusals(each) for each in WorkloadClass] == [{}] * len(WorkloadClass)


def test_a_node_refuses_performance_pods_while_it_is_eco(table):
    eco = replace(MEASURED, schedulable_class=SchedulableClass.ECO)
    table.on_twin("a", MEASURED, eco)
    assert table.refusals(WorkloadClass.PERFORMANCE).keys() == {"a"}
    assert table.refusals(WorkloadClass.STANDARD) == {}
    table.on_twin("a", eco, MEASURED)
    assert table.refusals(WorkloadClass.PERFORMANCE) == {}


def test_the_label_of_a_node_counts_while_its_twin_is_stale(table):
    table.on_node("a", None, Node("a", labels={POWER_PROFILE: "eco"}))
    assert table.entry("a").judge(WorkloadClass.PERFORMANCE).ok
    table.refresh(silent=True)
    assert not table.entry("a").judge(WorkloadClass.PERFORMANCE).ok
    assert table.entry("a").judge(WorkloadClass.PERFORMANCE, {POWER_PROFILE: "performance"}).ok


@pytest.mark.parametrize(
    ("weigh_pue", "cpu_util", "watts"), [(True, 0.8, 100), (False, 0.8, 50), (True, 0.4, 50), (False, 0.4, 25)]
)
def test_every_form_of_a_score_has_the_pods_watts_with_the_pue_where_that_counts(weigh_pue, cpu_util, watts):
    table = make_table(Clock(), weigh_pue=weigh_pue, coefficients=Coefficients(cpu_util=cpu_util))
    table.on_twin("a", None, replace(MEASURED, pue=2.0, trend_w_per_min=-600.0))
    entry = table.entry("a")
    assert table.situation(entry).pue == (2.0 if weigh_pue else None)
    # Falling power counts with 25 points at most.
    expected = (300 - watts) / 600 * 70 + 25
    assert table.explain(entry, EIGHT_CORES).score == pytest.approx(expected)
    row = table.row(entry, WorkloadClass.PERFORMANCE)
    assert row.score(DEFAULT_SCORE.size(EIGHT_CORES), table.terms.perf_pressure) == pytest.approx(expected)
    assert msgspec.json.decode(table.answer(["a"], EIGHT_CORES).body) == [{"Host": "a", "Score": round(expected)}]


def test_the_explained_score_of_a_standard_pod_has_the_pressure(table):
    standard = replace(EIGHT_CORES, workload_class=WorkloadClass.STANDARD)
    assert table.explain(table.entry("a"), standard).score == pytest.approx(250 / 600 * 70 - 0.3 * 50)
