"""The table's prepared answers against the readable formula."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import POWER_PROFILE
from joulie_core.node import Node
from joulie_core.power.curves import node_curves
from joulie_core.powerest.marginal import Coefficients, NodePower, marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.filter import verdict
from joulie_core.scoring.formula import score
from joulie_core.scoring.registry import DEFAULT_SCORE, SCORE_POLICIES
from joulie_core.scoring.state import TwinSnapshot, cluster_terms
from joulie_extender.pods import BoundPod
from joulie_extender.replies import refusal
from joulie_extender.table import NodeTable, TableConfig

NOW_S = 1_000.0
POWER = NodePower(cpu_threads=64, cpu_max_watts=500, gpu_count=4, gpu_max_watts=1_600)
CURVES = node_curves(
    view_from_node(Node("a", labels={"joulie.io/hw.cpu-model": "Intel Xeon Platinum 8280"}), Inventory.load())
)
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


def make_table(clock, *, score_max=100, weigh_pue=True, read_power=lambda *_: POWER, score_policy=DEFAULT_SCORE):
    config = TableConfig(
        Coefficients(),
        staleness_threshold_s=300.0,
        telemetry_interval_s=20.0,
        assumed_window_s=2.0,
        count_in_flight=True,
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


@given(CHANGES, DEMANDS, st.sampled_from([1, 10, 100]))
def test_any_history_of_changes_ends_in_the_scores_of_the_selected_policy(changes, demand, score_max):
    power = replace(POWER, curves=CURVES)
    policy = SCORE_POLICIES["energy_v1"]
    table = make_table(Clock(), score_max=score_max, read_power=lambda *_: power, score_policy=policy)
    play(table, changes, between=lambda: table.answer(NAMES, demand))
    for each in msgspec.json.decode(table.answer(NAMES, demand).body):
        expected = table.explain(table.entry(each["Host"]), demand).score * score_max / 100
        assert abs(each["Score"] - expected) <= 0.5 + 1e-6


@given(CHANGES)
def test_any_history_of_changes_ends_in_the_verdicts_of_the_filter(changes):
    table = make_table(Clock())
    stores = play(table, changes)
    for name in NAMES:
        twin = stores["twin"].get(name)
        judged = verdict(
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
    assert len(table.entry("a").watts) <= 64
