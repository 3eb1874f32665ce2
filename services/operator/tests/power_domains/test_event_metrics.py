"""The series of power events: bounded, without a sample for what is not known."""

from joulie_core.kinds import PowerEventStatus
from joulie_operator.power_domains.event_metrics import MOST_SERIES, EventFigures, event_families

_PREFIX = "joulie_operator_power_event"


def figures(state="Active", **status):
    conditions = [{"type": "Accepted", "status": "True"}, {"type": "Active", "status": "False"}]
    fields = {"state": state, "conditions": conditions, **status}
    return EventFigures("row", PowerEventStatus.model_validate(fields))


def samples(events, unreadable=0):
    return {
        (sample.name.removeprefix(_PREFIX), *sample.labels.values()): sample.value
        for family in event_families(events, unreadable)
        for sample in family.samples
    }


def test_what_is_known_has_a_sample_and_what_is_not_has_none():
    found = samples({"cut": figures(targetWatts=0, drawnWatts=500)}, unreadable=3)
    by_event = {key[0]: value for key, value in found.items() if "cut" in key}
    assert by_event == {"_target_watts": 0, "_drawn_watts": 500, "_accepted": 1, "_active": 0}
    assert found[("s", "Active")] == 1
    assert found[("s", "Ended")] == 0
    assert found[("s_unreadable",)] == 3


def test_an_event_that_has_ended_is_neither_accepted_nor_active_any_more():
    assert not [key for key in samples({"cut": figures("Ended")}) if key[0] in {"_accepted", "_active"}]


def test_events_that_have_not_ended_have_series_first_and_all_are_counted():
    events = {f"a{number:03}": figures("Ended", drawnWatts=1) for number in range(MOST_SERIES)}
    found = samples(events | {"z": figures(drawnWatts=1)})
    shown = {key[1:] for key in found if key[0] == "_drawn_watts"}
    assert len(shown) == MOST_SERIES
    assert any("z" in each for each in shown)
    assert found[("s", "Ended")] == MOST_SERIES
