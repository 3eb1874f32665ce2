"""The pairs of the estimate on the control plane: what is read of the operator, and what the table says of it."""

import pytest
from experiments.live_savings import WORKLOADS
from experiments.live_savings_table import table
from experiments.savings_counts import counted_in, difference

from joulie_devcluster.control_plane.nodes import default_node_classes, scale

_METRICS = """\
# HELP joulie_saved_joules_total Joules that were saved.
# TYPE joulie_saved_joules_total counter
joulie_saved_joules_total{bound="lower",lever="sleep"} 100.0
joulie_saved_joules_total{bound="middle",lever="sleep"} 250.0
# HELP joulie_spent_joules_total Joules that were drawn beyond what was without the lever.
# TYPE joulie_spent_joules_total counter
joulie_spent_joules_total{bound="lower",lever="sleep"} 130.0
joulie_spent_joules_total{bound="middle",lever="sleep"} 0.0
# HELP joulie_saved_watts Watts that are saved now.
# TYPE joulie_saved_watts gauge
joulie_saved_watts{bound="lower",lever="sleep"} 7.0
# HELP joulie_savings_unknown_seconds_total Time of which it is unknown what the lever saved.
# TYPE joulie_savings_unknown_seconds_total counter
joulie_savings_unknown_seconds_total{lever="sleep"} 3.0
"""


def row_of(saved, lower, middle, upper, **changes):
    waits = {f"{arm}_wait_p99_s": "60" for arm in ("without", "with")}
    slowdowns = {f"{arm}_{each}_slowdown": "1.0" for arm in ("without", "with") for each in ("performance", "standard")}
    estimates = {
        f"{lever}_{bound}_kwh": str(value if lever == "sleep" else 0.0)
        for lever in ("sleep", "caps", "score")
        for bound, value in {"lower": lower, "middle": middle, "upper": upper}.items()
    }
    figures = {"workload": "steady", "seed": "0", "baseline_kwh": "40", "saved_kwh": str(saved), "power_offs": "3"}
    return figures | {"sleep_saved_kwh": str(saved)} | waits | slowdowns | estimates | changes


def test_joules_are_those_saved_less_those_spent_since_the_beginning():
    after = counted_in(_METRICS)
    assert after.joules == {("sleep", "lower"): -30.0, ("sleep", "middle"): 250.0}
    found = difference(counted_in(_METRICS.replace("250.0", "50.0").replace(" 3.0", " 1.0")), after)
    assert found.joules["sleep", "middle"] == 200.0
    assert found.unknown_s == {"sleep": 2.0}


def test_the_table_says_which_differences_are_contained_and_how_far_the_middle_is_off():
    rows = [row_of(10, 8, 11, 13), row_of(10, 10.5, 13, 15), row_of(10, 5, 8.1, 10)]
    text = table(rows)
    assert "| steady | 0 | 40.0 | 10.0 (25.0 %) | 11.0 [8.0, 13.0] | 11.0 | 10.0 | 0.0 | +10.0 | yes |" in text
    assert text.endswith("The interval contains 2 of 3; its middle is within 20 % in 2, and off by up to 30.0 %.")


def test_there_are_ten_runs_of_three_workloads_and_their_pods_arrive_in_order_within_the_span():
    assert len(WORKLOADS) == 3
    assert sum(each.seeds for each in WORKLOADS.values()) == 10
    for workload in WORKLOADS.values():
        arrivals_s = [item.arrives_s for item in workload.items(scale(default_node_classes(), 40), 0)]
        assert arrivals_s == sorted(arrivals_s)
        assert arrivals_s[-1] < 3 * 3_600.0
        assert workload.items(scale(default_node_classes(), 40), 0) != workload.items(
            scale(default_node_classes(), 40), 1
        )


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_steady_workload_has_as_many_arrivals_in_one_half_as_in_the_other(share):
    items = WORKLOADS["400 pods, steady"].items(scale(default_node_classes(), 40), 0)
    end_s = items[-1].arrives_s
    assert sum(item.arrives_s <= share * end_s for item in items) == pytest.approx(share * len(items), rel=0.15)
