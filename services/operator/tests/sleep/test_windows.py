"""Windows of a NodeSleepPolicy as the decision takes them."""

from zoneinfo import ZoneInfo

import pytest
from services.operator.tests.sleep.sleep_objects import seen_policy, window

from joulie_core.sleep import AwakeWindow
from joulie_operator.sleep.windows import UnusableSpec, windows_of


def test_a_window_has_days_minutes_zone_and_nodes():
    assert windows_of(seen_policy(schedules=[window()]).model.spec) == (
        AwakeWindow(
            weekdays=frozenset({0, 6}),
            from_minute=450,
            to_minute=1440,
            time_zone=ZoneInfo("Europe/Rome"),
            min_awake=7,
        ),
    )


@pytest.mark.parametrize("zone", ["Europe/Roma", "Europe", "a/../b"])
def test_a_time_zone_that_is_none_is_named_with_field_value_and_way_out(zone):
    spec = seen_policy(schedules=[window()]).model.spec
    second = spec.schedules[0].model_copy(update={"time_zone": zone})
    with pytest.raises(UnusableSpec) as raised:
        windows_of(spec.model_copy(update={"schedules": (spec.schedules[0], second)}))
    assert str(raised.value) == (
        f"schedules[1].timeZone: {zone!r} is not in the time zone database; write a name such as Europe/Rome"
    )
