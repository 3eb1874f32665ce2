import csv

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.day.accounts import ArmDay
from joulie_sim.demo.day.figures import by_the_hour, compared_until_s, comparison, scaling_note
from joulie_sim.demo.day.output import write_all
from joulie_sim.demo.day.scale import DAY_S, day_scale
from joulie_sim.demo.record import NodeSums, PodCounts, RunRecord, Sample
from joulie_sim.demo.sleeping.power import Power

SCALE = day_scale(600.0)


def arm(title, watts, *, asleep=0, waits=(0.0, 10.0), ended_s=80_000.0, wakes_s=()):
    samples = [
        Sample(
            at_s,
            {SchedulableClass.PERFORMANCE: NodeSums(40, watts + 15.0 * asleep)},
            {
                Power.AWAKE: NodeSums(40 - asleep, watts),
                Power.WAKING: NodeSums(),
                Power.ASLEEP: NodeSums(asleep, 15.0 * asleep),
            },
            {WorkloadClass.STANDARD: PodCounts(pending=1, running=2, finished=3)},
            device_watts=watts,
            device_joules=watts * at_s,
        )
        for at_s in range(0, 86_401, 1800)
    ]
    record = RunRecord()
    for index, wait_s in enumerate(waits):
        record.pod_created(f"p{index}", WorkloadClass.STANDARD, work_s=3600.0, now_s=60.0)
        record.pod_seen(f"p{index}", node="n", phase="Succeeded", now_s=60.0 + wait_s)
    return ArmDay(title=title, samples=samples, pods=record.pods, ended_s=ended_s, slowdown=1.0, wakes_s=wakes_s)


AWAKE = arm("without", 10_000.0)
ASLEEP = arm("with", 6000.0, asleep=20, waits=(0.0, 1300.0), wakes_s=(300.0, 420.0))


@pytest.fixture
def rows():
    return {row[0]: row[1:] for row in comparison(AWAKE, ASLEEP, SCALE).rows}


def test_the_comparison_has_the_energy_of_both_arms_and_what_is_saved(rows):
    assert rows["energy at the wall, kWh"] == ("240.0", "151.2")
    assert rows["saved"] == ("-", "37.0 %")
    assert rows["energy of servers that are asleep, kWh"] == ("0.0", "7.2")
    assert rows["nodes asleep, mean and most"] == ("0.0, 0", "20.0, 20")
    assert rows["error of sampled energy"] == ("+0.00 %", "+0.00 %")


def test_the_comparison_has_the_waits_and_those_beyond_the_bar(rows):
    assert rows["wait for a node, longest, min"] == ("0.2", "21.7")
    assert rows["wait because of sleep, longest, min"] == ("-", "21.5")
    assert rows["pods that waited longer than boot and a minute (16 min) because of sleep"] == ("-", "1")
    assert rows["the same, with 3 s of the clock more (23 min)"] == ("-", "0")
    assert rows["pods completed"] == ("2", "2")
    assert rows["work completed, h"] == ("2.0", "2.0")


def test_energies_are_compared_until_the_last_pod_of_either_arm():
    assert compared_until_s((AWAKE, ASLEEP)) == DAY_S
    late = arm("late", 1.0, ended_s=90_000.0)
    assert compared_until_s((AWAKE, late)) == 90_000.0
    assert compared_until_s((AWAKE, arm("unfinished", 1.0, ended_s=None))) == DAY_S


def test_every_hour_has_a_row_and_the_parts_are_the_whole():
    table = by_the_hour(AWAKE, ASLEEP)
    assert [row[0] for row in table.rows] == [f"{hour:02d}" for hour in range(24)]
    for row in table.rows:
        found = dict(zip(table.header, row, strict=True))
        parts = sum(float(found[f"kW {power.value}"]) for power in Power)
        assert parts == pytest.approx(float(found["kW with"]), abs=0.1)
        assert (found["kW without"], found["asleep"], found["pending with"]) == ("10.0", "20.0", "1.0")


def test_all_files_are_written_with_both_arms(tmp_path):
    tables = (comparison(AWAKE, ASLEEP, SCALE), by_the_hour(AWAKE, ASLEEP))
    paths = write_all(tmp_path, (AWAKE, ASLEEP), tables, title="A day", note=scaling_note(SCALE))
    assert [path.name for path in paths] == ["samples.csv", "pods.csv", "day.md", "day.png"]
    with paths[0].open() as file:
        samples = list(csv.DictReader(file))
    assert {row["arm"] for row in samples} == {"without", "with"}
    assert len(samples) == len(AWAKE.samples) + len(ASLEEP.samples)
    text = paths[2].read_text()
    assert tables[0].markdown() in text
    assert "| saved | - | 37.0 % |" in text
    with paths[1].open() as file:
        pods = list(csv.DictReader(file))
    assert pods[-1] == {"arm": "with", "pod": "p1", "wait_s": "1300.0", "work_s": "3600.0", "finished": "True"}
    assert "A second of the clock is 2.4 minutes of the day" in text
    assert paths[3].read_bytes().startswith(b"\x89PNG")
