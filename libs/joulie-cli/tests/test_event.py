"""`kubectl joulie event`: the table, the plot, and a report in which a gap is a gap."""

import json

from joulie_cli.verbs.event import plot
from joulie_cli.views.power_events import MinuteView
from joulie_testing.api import make_power_event
from joulie_testing.cli import ago

ACCEPTED = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "down to 400 W"}


def minute(number, drawn=900.0, target=1_000.0, quality="measured"):
    found = {"start": f"2026-06-01T17:{number:02}:00Z", "baselineWatts": 1_400.0, "samples": 6, "quality": quality}
    return found | {key: value for key, value in {"drawnWatts": drawn, "targetWatts": target}.items() if value}


def put(fake_api, name="cut", *, minutes=(), spec=None, **status):
    found = {"state": "Active", "lastUpdated": ago(5), "conditions": [ACCEPTED], "minutes": list(minutes), **status}
    fake_api.put(make_power_event(name, status=found, **(spec or {})))


async def test_the_table_tells_unknown_from_zero(fake_api, cli):
    put(fake_api, "a", targetWatts=1_000, drawnWatts=0, bindingEvent="a", deliverableWatts=400)
    put(fake_api, "b", spec={"limitWatts": None, "reduceByPercent": 30, "baseline": "LastHour"})
    fake_api.put(make_power_event("new"))
    fake_api.put(make_power_event("bad", domain=7))
    rows = [each.split() for each in (await cli("event")).out.splitlines()[1:]]
    assert rows[0] == ["a", "row-1", "Active", "1000", "W", "-", "1000", "0", "400", "a", "Accepted"]
    assert rows[1] == ["b", "row-1", "Active", "-30", "%", "of", "LastHour", "-", "-", "-", "-", "-", "Accepted"]
    assert rows[2][:5] == ["bad", "-", "not", "seen", "unreadable"]
    assert rows[3][:4] == ["new", "row-1", "not", "seen"]


async def test_there_is_an_answer_where_there_is_none(fake_api, cli):
    assert "There is no PowerEvent" in (await cli("event")).out
    result = await cli("event", "cut")
    assert (result.code, "there is no PowerEvent 'cut'" in result.err) == (3, True)


async def test_one_event_has_its_conditions_figures_and_parts(fake_api, cli):
    minutes = [minute(0), minute(1), minute(2, drawn=None, quality="unknown"), minute(5, target=None)]
    put(fake_api, minutes=minutes, secondsTo90Percent=21.4, meanErrorWhileHeld=-1.25, reboundPercent=2)
    out = (await cli("event", "cut")).out
    for text in ("True, Accepted: down to 400 W", "21 s", "-1.2 % of the target", "+2.0 % of the baseline"):
        assert text in out
    rows = [each.split() for each in out.splitlines() if each.startswith("2026-06-01")]
    assert [row[1:] for row in rows] == [
        ["2", "1400", "1000", "900", "measured"],
        ["1", "1400", "1000", "-", "unknown"],
        ["2", "-", "-", "-", "unknown"],
        ["1", "1400", "-", "900", "measured"],
    ]


async def test_data_has_all_that_is_stored(fake_api, cli):
    put(fake_api, minutes=[minute(0)])
    data = json.loads((await cli("event", "cut", "-o", "json")).out)
    assert data["spec"]["domain"] == "row-1"
    assert data["status"]["minutes"][0]["drawnWatts"] == 900.0


async def test_a_report_has_one_line_a_minute_with_empty_fields_for_what_is_not_known(fake_api, cli, tmp_path):
    minutes = [minute(0), minute(1, drawn=None, quality="unknown"), minute(3, target=None)]
    put(fake_api, minutes=minutes, droppedMinutes=4, spec={"baseline": "LastHour", "sourceRef": "event-7"})
    path = tmp_path / "cut.csv"
    assert (await cli("event", "cut", "--report", str(path))).code == 0
    lines = path.read_text().splitlines()
    head = dict(each[2:].split(": ", 1) for each in lines if each.startswith("#"))
    assert (head["baseline method"], head["minutes dropped"], head["source"]) == ("LastHour", "4", "event-7")
    assert [each for each in lines if not each.startswith("#")] == [
        "minute,baseline_watts,target_watts,drawn_watts,samples,quality",
        "2026-06-01T17:00:00Z,1400.0,1000.0,900.0,6,measured",
        "2026-06-01T17:01:00Z,1400.0,1000.0,,6,unknown",
        "2026-06-01T17:02:00Z,,,,0,unknown",
        "2026-06-01T17:03:00Z,1400.0,,900.0,6,measured",
    ]


async def test_a_report_needs_a_name_and_a_file_that_can_be_written(fake_api, cli, tmp_path):
    put(fake_api)
    assert (await cli("event", "--report", "x.csv")).code == 3
    result = await cli("event", "cut", "--report", str(tmp_path / "missing" / "x.csv"))
    assert (result.code, "the report cannot be written" in result.err) == (3, True)


def test_a_plot_has_a_column_for_each_minute_and_a_mark_where_nothing_is_known():
    minutes = [
        MinuteView("", 100.0, 50.0, 100.0),
        MinuteView("", 100.0, 50.0, None),
        MinuteView("", None, None, 20.0),
    ]
    lines = [each[11:] for each in plot(minutes)]
    assert lines[0] == "-- "
    assert lines[5] == "== "
    assert lines[8:] == ["█ █", "█?█"]
    assert len(plot([minutes[0]] * 1_000)[0]) <= 11 + 60
    assert plot([MinuteView("")]) == []
