import csv
import json
from dataclasses import replace

import pytest
from rich.console import Console

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.output import write_all
from joulie_sim.demo.record import RecordedNode, RunRecord
from joulie_sim.demo.summary import as_json, peak_rate, summarize
from joulie_sim.demo.table import closing_line, live_view, plain_line, summary_view
from joulie_sim.demo.without_joulie import DemoArm, DemoComparison

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


def text_of(*renderables):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123 - closed with the test
    with console.file:
        for renderable in renderables:
            console.print(renderable)
        return console.export_text()


def test_the_tables_show_classes_watts_and_placements(record, summary):
    record.node_seen("fast", SchedulableClass.DRAINING, 21.0)
    sample = record.sample({"fast": RecordedNode(420.0, 500.0, 1), "slow": RecordedNode(100.0, 250.0, 1)}, 22.0)
    text = text_of(live_view(record, sample, headline="a run"), summary_view(summary))
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
    line = plain_line(sample, headline="a run")
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


def test_the_end_states_what_the_pods_would_have_drawn_without_joulie_and_the_error(summary):
    def arm(kwh, transitions):
        slowdowns = {WorkloadClass.PERFORMANCE: 1.0, WorkloadClass.STANDARD: None}
        return DemoArm(kwh=kwh, slowdowns=slowdowns, transitions=transitions)

    comparison = DemoComparison(measured=arm(3.0, 43), simulated=arm(2.7, 40), without=arm(3.6, 0))
    whole = replace(summary, without_joulie=comparison)
    console = Console(width=160, record=True)
    console.print(summary_view(whole))
    conclusion = "Joulie saves 25.0 %, beyond the simulator's error of 10.0 %"
    assert conclusion in " ".join(console.export_text().split())
    assert f"without Joulie, simulated: {conclusion}" in closing_line(whole)
    assert "without Joulie" not in closing_line(summary)
    assert as_json(whole)["withoutJoulie"]["measured"]["transitions"] == 43
    assert as_json(summary)["withoutJoulie"] is None


def test_the_last_line_counts_the_transitions(record, summary):
    record.node_seen("slow", PERFORMANCE, 50.0)
    counted = summarize(record, duration_s=60.0, energy_joules=ENERGY)
    assert "1 transitions of nodes in 60 s" in closing_line(counted)
