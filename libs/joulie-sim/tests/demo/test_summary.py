import csv
import json
from dataclasses import replace

import pytest
from rich.console import Console

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.output import write_all
from joulie_sim.demo.record import RecordedNode, RunRecord
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.demo.summary import as_json, peak_rate, summarize
from joulie_sim.demo.table import closing_line, live_view, plain_line, summary_view
from joulie_sim.demo.without_joulie import DemoArm, DemoComparison
from joulie_sim.pod_figures import WaitFigures

PERFORMANCE, ECO = SchedulableClass.PERFORMANCE, SchedulableClass.ECO


@pytest.fixture
def record():
    """Return a record of two nodes: three completed pods, one performance pod on an eco node, one pending."""
    record = RunRecord()
    record.node_seen("fast", PERFORMANCE, 0.0)
    record.node_seen("slow", ECO, 0.0)
    moments = {
        "a": ("fast", WorkloadClass.PERFORMANCE, 1.0, 2.0, 12.0),
        "b": ("slow", WorkloadClass.PERFORMANCE, 3.0, 4.0, 24.0),
        "c": ("slow", WorkloadClass.STANDARD, 1.0, 1.0, 31.0),
    }
    for name, (node, workload, bound_s, running_s, finished_s) in moments.items():
        record.pod_created(name, workload, work_s=10.0, now_s=0.0)
        record.pod_seen(name, node=node, phase="Pending", now_s=bound_s)
        record.pod_seen(name, node=node, phase="Running", now_s=running_s)
        record.pod_seen(name, node=node, phase="Succeeded", now_s=finished_s)
    record.pod_created("d", WorkloadClass.STANDARD, work_s=10.0, now_s=0.0)
    for at_s, watts in ((10.0, 100.0), (20.0, 300.0)):
        record.sample({"fast": RecordedNode(watts, 500.0, 1), "slow": RecordedNode(100.0, 250.0, 1)}, at_s)
    return record


ENERGY = {PERFORMANCE: 7_200_000.0, ECO: 3_600_000.0, SchedulableClass.DRAINING: 0.0, SchedulableClass.UNKNOWN: 0.0}


@pytest.fixture
def summary(record):
    return summarize(record, duration_s=40.0, energy_joules=ENERGY)


def test_waits_slowdowns_and_placements_are_means_and_counts_by_class(summary):
    fast = summary.classes[WorkloadClass.PERFORMANCE]
    assert (fast.created, fast.waits.bound, fast.finished) == (2, 2, 2)
    assert (fast.waits.mean_s, fast.waits.p95_s) == (2.0, pytest.approx(2.9))
    assert fast.mean_slowdown == 1.5
    assert fast.placed_share(PERFORMANCE) == 0.5
    slow = summary.classes[WorkloadClass.STANDARD]
    assert (slow.created, slow.waits.bound, slow.finished) == (2, 1, 1)
    assert slow.placed_share(ECO) == 1.0


def test_energy_is_in_kilowatt_hours_and_power_over_all_nodes(summary):
    assert summary.energy_kwh[PERFORMANCE] == 2.0
    assert (summary.mean_watts, summary.peak_watts) == (300.0, 400.0)


def test_the_simulators_own_slowdown_is_preferred(record):
    given_ = {WorkloadClass.PERFORMANCE: 1.25, WorkloadClass.STANDARD: None}
    summary = summarize(record, duration_s=40.0, energy_joules=ENERGY, slowdowns=given_)
    assert summary.classes[WorkloadClass.PERFORMANCE].mean_slowdown == 1.25
    assert summary.classes[WorkloadClass.STANDARD].mean_slowdown == 3.0


def test_an_empty_run_has_a_summary_too():
    summary = summarize(RunRecord(), duration_s=0.0, energy_joules={})
    assert summary.mean_watts is None
    assert summary.classes[WorkloadClass.STANDARD].placed_share(ECO) is None
    assert "0 of 0 pods" in closing_line(summary)


@pytest.mark.parametrize(
    ("moments", "rate"),
    [([], 0.0), ([1.0], 0.2), ([0.0, 1.0, 2.0, 3.0, 4.9], 1.0), ([0.0, 5.0], 0.2), ([0.0, 10.0, 10.1, 14.0], 0.6)],
)
def test_the_peak_rate_is_that_of_the_best_five_seconds(moments, rate):
    assert peak_rate(moments) == pytest.approx(rate)


def text_of(*renderables, width=120):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123 - closed with the test
    with console.file:
        for renderable in renderables:
            console.print(renderable)
        return console.export_text()


def test_the_tables_show_classes_watts_and_placements(record, summary):
    record.node_seen("fast", SchedulableClass.DRAINING, 21.0)
    sample = record.sample({"fast": RecordedNode(420.0, 500.0, 1), "slow": RecordedNode(100.0, 250.0, 1)}, 22.0)
    text = text_of(live_view(record, sample, headline="a run", sleeps=False), summary_view(summary))
    for part in (
        "draining",
        "420",
        "520",
        "a run",
        "last transitions (1 so far)",
        "1 (50 %)",
        "2.000 kWh",
        "0.6 pods/s",
    ):
        assert part in text
    line = plain_line(sample, headline="a run", sleeps=False)
    assert "draining 1 nodes 0.4/0.5 kW" in line
    assert "standard 1 pending 0 running 1 done" in line


def test_the_files_contain_the_recorded_run(record, summary, tmp_path):
    samples, pods, figures, picture = write_all(tmp_path, record, summary, title="a run")
    rows = list(csv.DictReader(samples.read_text().splitlines()))
    assert [row["t_s"] for row in rows] == ["10.0", "20.0"]
    assert (rows[1]["performance_watts"], rows[1]["eco_cap_watts"]) == ("300.0", "250.0")
    by_name = {row["pod"]: row for row in csv.DictReader(pods.read_text().splitlines())}
    assert (by_name["a"]["placed_on"], by_name["a"]["wait_s"], by_name["d"]["node"]) == ("performance", "1.0", "")
    assert json.loads(figures.read_text()) == json.loads(json.dumps(as_json(summary)))
    assert picture.read_bytes().startswith(b"\x89PNG")


def compared(**values):
    def arm(kwh, transitions):
        return DemoArm(
            kwh=kwh,
            slowdowns={WorkloadClass.PERFORMANCE: 1.0, WorkloadClass.STANDARD: None},
            waits={each: WaitFigures.of([30.0, None]) for each in WorkloadClass},
            transitions=transitions,
            power_offs=7,
        )

    arms = {"measured": arm(3.0, 43), "simulated": arm(2.7, 40), "without": arm(3.6, 0), "packing": arm(3.0, 0)}
    return DemoComparison(**{**arms, "savings_pct": (24.0, 26.0), **values})


def test_the_end_states_what_the_pods_would_have_drawn_without_joulie_and_the_error(summary):
    whole = replace(summary, without_joulie=compared())
    text = " ".join(text_of(summary_view(whole), width=180).split())
    conclusion = "Joulie saves 25.0 %, 14.0 to 36.0 % with the simulator's error of 10.0 % and chance"
    assert f"{conclusion}; against the better of kube-scheduler's two strategies +10.0 %" in text
    for part in ("mean wait, standard pods", "30.00 s", "packing alone", "transitions of nodes"):
        assert part in text
    assert f"without Joulie, simulated: {conclusion}" in closing_line(whole)
    assert "without Joulie" not in closing_line(summary)
    found = as_json(whole)["withoutJoulie"]
    assert found["measured"]["transitions"] == 43
    assert (found["savedPct"], found["savedOfTheBetterPct"]) == (25.0, pytest.approx(10.0))
    assert (found["savedPctLowest"], found["savedPctHighest"]) == (pytest.approx(14.0), pytest.approx(36.0))
    assert found["packingWithoutJoulie"]["meanWaitSeconds"] == {"performance": 30.0, "standard": 30.0}
    assert as_json(summary)["withoutJoulie"] is None


@pytest.fixture
def slept():
    """Return the record of two nodes, of which one falls asleep, and its summary, a minute in a second."""
    record = RunRecord()
    record.pod_created("a", WorkloadClass.STANDARD, work_s=600.0, now_s=0.0)
    record.pod_seen("a", node="n", phase="Succeeded", now_s=60.0)
    for at_s, power, watts in ((0.0, Power.AWAKE, 300.0), (1800.0, Power.ASLEEP, 15.0), (5400.0, Power.WAKING, 450.0)):
        record.sample({"n": RecordedNode(400.0, 500.0, 1), "o": RecordedNode(watts, 500.0, 0, power)}, at_s)
    return record, summarize(record, duration_s=7200.0, energy_joules=ENERGY, speed=60.0, power_offs=1)


def test_where_nodes_sleep_the_display_has_nodes_by_what_their_servers_do(slept):
    record, _ = slept
    text = text_of(live_view(record, record.samples[1], headline="a run", sleeps=True))
    assert "nodes awake and asleep" in text
    assert ["asleep", "1", "15", "0"] in [line.replace("│", " ").split() for line in text.splitlines()]
    assert "waking" in text.split("last nodes that fell asleep or woke")[1]
    line = plain_line(record.samples[1], headline="a run", sleeps=True)
    assert "awake 1 nodes 0.4 kW, waking 0 nodes 0.0 kW, asleep 1 nodes 0.0 kW" in line


def test_where_nodes_sleep_the_end_has_energy_by_what_servers_do_and_times_that_were_simulated(slept, tmp_path):
    record, summary = slept
    assert summary.energy_by_power_kwh == pytest.approx({Power.AWAKE: 0.95, Power.WAKING: 0.225, Power.ASLEEP: 0.015})
    assert (summary.most_asleep, summary.peak_pods_per_s) == (1, 0.2)
    text = text_of(summary_view(replace(summary, without_joulie=compared())))
    for part in (
        "2 h 00 min in 120 s",
        "0.950 kWh",
        "most nodes asleep",
        "power-offs",
        "60 s in a second of the clock",
    ):
        assert part in text
    assert "1 power-offs, 1 nodes asleep at most" in closing_line(summary)
    assert as_json(summary)["sleep"]["powerOffs"] == 1
    compared_to = compared(without_watts=[(60.0, 900.0), (120.0, 800.0)])
    whole = replace(summary, without_joulie=compared_to)
    samples, _, _, picture = write_all(tmp_path, record, whole, title="a run")
    rows = list(csv.DictReader(samples.read_text().splitlines()))
    assert (rows[1]["asleep_nodes"], rows[1]["asleep_watts"], rows[1]["awake_nodes"]) == ("1", "15.0", "1")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_last_line_counts_the_transitions(record, summary):
    record.node_seen("slow", PERFORMANCE, 50.0)
    counted = summarize(record, duration_s=60.0, energy_joules=ENERGY)
    assert "1 transitions of nodes in 60 s" in closing_line(counted)
