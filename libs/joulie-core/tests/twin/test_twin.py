"""The twin: docs/decisions/0013-conventions.md."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.caps import CapIntent
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node, view_from_status
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.kinds.node_twin import (
    MeasurementQuality,
    MeasurementSource,
    SchedulableClass,
    ServerMeasurement,
    ServerMeasurementSource,
)
from joulie_core.labels import HW_CPU_MODEL, HW_CPU_SOCKETS, HW_GPU_COUNT, HW_GPU_MODEL
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.scoring.state import node_state
from joulie_core.transition import NodeState
from joulie_core.twin import (
    FacilityConditions,
    LinearPue,
    MeasuredPue,
    Measurement,
    PowerBudget,
    PowerWindow,
    TwinInputs,
    budget_of,
    build_twin,
    schedulable_class,
)
from joulie_core.twin.stress import ambient_factor, cooling_stress, headroom_pct, psu_stress
from joulie_core.twin.trend import least_squares_slope
from joulie_core.twin.utilization import ModelledDevices, cpu_watts, gpu_watts

INVENTORY = Inventory.load()
LABELS = {HW_CPU_MODEL: "AMD EPYC 7763", HW_CPU_SOCKETS: "2", HW_GPU_MODEL: "NVIDIA A100-SXM4-80GB", HW_GPU_COUNT: "4"}
VIEW = view_from_node(Node(NodeName("n"), labels=LABELS), INVENTORY)


@pytest.mark.parametrize("number", [1e308, 1e300, 2**63 - 1, 10_001])
def test_an_object_from_before_the_maxima_existed_makes_no_node_freer(number):
    stored = {
        "cpu": {
            "rawModel": "AMD EPYC 7763 64-Core Processor",
            "sockets": 2**63 - 1,
            "totalCores": 2**63 - 1,
            "threads": 2**63 - 1,
            "capRange": {"minWattsPerSocket": number, "maxWattsPerSocket": number},
        },
        "gpu": {
            "rawModel": "NVIDIA A100-SXM4-80GB",
            "count": 2**63 - 1,
            "capRangePerGpu": {"minWatts": number, "maxWatts": number, "defaultWatts": number},
            "currentCapWatts": number,
            "devices": [{"uuid": "GPU-a", "index": 0, "min": number, "max": number, "default": number}],
        },
        "memory": {"totalBytes": 2**63 - 1},
    }
    view = view_from_status(NodeHardwareStatus.model_validate(stored), INVENTORY)
    found = build_twin(
        TwinInputs(SchedulableClass.PERFORMANCE, budget_of(view, CapIntent(cpu_pct=60, gpu_pct=60)), measured(300))
    )
    assert found.power_measurement.node_tdp_w == 280 + 400
    assert view.memory_bytes == 0


def measured(watts):
    return Measurement(MeasurementSource.AGENT, MeasurementQuality.MEASURED, watts)


UNKNOWN = Measurement(MeasurementSource.STATIC, MeasurementQuality.UNKNOWN, None)


def twin(**inputs):
    given_inputs = {
        "schedulable_class": SchedulableClass.PERFORMANCE,
        "budget": PowerBudget(cpu_tdp_watts=1000, cpu_share=0.6),
        "measurement": measured(300),
    }
    return build_twin(TwinInputs(**given_inputs | inputs))


@pytest.mark.parametrize(
    ("capped", "power", "expected"),
    [(600, 300, 50), (600, 0, 100), (600, 600, 0), (600, 900, -50), (600, None, None), (0, 300, None)],
)
def test_headroom_is_the_free_share_of_the_capped_power(capped, power, expected):
    assert headroom_pct(capped, power) == expected


@pytest.mark.parametrize(
    ("celsius", "expected"),
    [(20, 1), (30, 1.25), (45, 2), (80, 2), (10, 1 / 1.2), (None, 1)],
)
def test_ambient_scales_cooling_stress_around_twenty_degrees(celsius, expected):
    assert ambient_factor(celsius) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("power", "tdp", "celsius", "expected"),
    [(500, 1000, 20, 50), (500, 1000, 30, 62.5), (900, 1000, 45, 100), (None, 1000, 20, None), (500, 0, 20, None)],
)
def test_cooling_stress_is_power_over_tdp_scaled_by_ambient(power, tdp, celsius, expected):
    assert cooling_stress(power, tdp, celsius) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(("draw", "expected"), [(25_000, 50), (80_000, 100), (0, 0), (None, None)])
def test_psu_stress_is_the_racks_draw_over_fifty_kilowatts(draw, expected):
    assert psu_stress(draw) == expected


def test_a_rack_may_have_its_own_capacity():
    assert psu_stress(15_000, 30_000) == 50


def test_pue_without_facility_metrics_grows_with_cooling_stress():
    assert [LinearPue().estimate(FacilityConditions(stress)) for stress in (0, 100)] == pytest.approx([1.05, 1.40])
    assert LinearPue().estimate(FacilityConditions(outdoor_c=20, load_share=0.5)) is None


@pytest.mark.parametrize(
    ("it_watts", "cooling_watts", "expected"),
    [(1000, 600, 1.6), (1000, 0, 1), (None, 600, None), (1000, None, None), (0, 600, None)],
)
def test_measured_pue_is_facility_over_it(it_watts, cooling_watts, expected):
    assert MeasuredPue(it_watts, cooling_watts).estimate(FacilityConditions(10)) == expected


@pytest.mark.parametrize(
    ("it_watts", "cooling_watts"), [(1000, 1e9), (1, 4001), (1000, -50), (1000, -2000), (1e-9, 1), (float("nan"), 1)]
)
def test_figures_that_make_no_pue_of_a_facility_are_unknown(it_watts, cooling_watts):
    measured = MeasuredPue(it_watts, cooling_watts)
    assert measured.estimate(FacilityConditions(10)) is None
    assert not measured.plausible


def test_figures_that_are_not_known_are_not_called_implausible():
    assert MeasuredPue(None, 600).plausible
    assert MeasuredPue(1000, 600).plausible


def test_the_trend_is_the_least_squares_slope_per_minute():
    window = PowerWindow()
    for at, watts in ((0, 100), (20, 130), (40, 110), (60, 160)):
        window = window.add("agent", at, watts)
    expected = least_squares_slope([(0, 100), (20, 130), (40, 110), (60, 160)]) * 60
    assert window.slope_w_per_min(60) == pytest.approx(expected) == pytest.approx(48)


@given(st.floats(-30, 30), st.floats(0, 5000), st.lists(st.integers(0, 299), min_size=2, unique=True))
def test_the_trend_of_a_straight_line_is_its_slope(slope, start, times):
    window = PowerWindow()
    for at in sorted(times):
        window = window.add("agent", at, 10_000 + start + slope * at)
    trend = window.slope_w_per_min(max(times))
    if max(times) - min(times) < 30:
        assert trend is None
    else:
        assert trend == pytest.approx(slope * 60, abs=1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 0, 3001])
def test_bad_samples_are_left_out_of_the_trend(bad):
    window = PowerWindow().add("agent", 0, 100, max_watts=1000).add("agent", 30, bad, max_watts=1000)
    window = window.add("agent", 60, 100, max_watts=1000)
    assert window.slope_w_per_min(60) == 0
    assert len(window.samples) == 2


def test_samples_of_more_than_five_minutes_ago_do_not_count():
    window = PowerWindow().add("agent", 0, 5000)
    for at in range(100, 401, 20):
        window = window.add("agent", at, 100)
    assert window.slope_w_per_min(400) == 0
    assert window.slope_w_per_min(1000) is None


def test_a_reading_seen_twice_counts_once():
    window = PowerWindow().add("agent", 0, 100)
    assert window.add("agent", 0, 100) is window


def test_another_source_starts_the_trend_anew():
    window = PowerWindow().add("utilization", 0, 100).add("utilization", 60, 100).add("agent", 80, 400)
    assert window.slope_w_per_min(80) is None


def test_the_budget_is_the_caps_share_of_each_subsystems_tdp():
    budget = budget_of(VIEW, CapIntent(cpu_pct=100, gpu_pct=60))
    assert budget.cpu_capped_watts == VIEW.cpu_max_watts
    assert budget.gpu_capped_watts == pytest.approx(0.6 * VIEW.gpu_max_watts)
    assert budget.tdp_watts == VIEW.tdp_watts


def test_watts_count_as_their_share_of_the_maximum_and_never_as_more():
    budget = budget_of(VIEW, CapIntent(cpu_watts=VIEW.cpu.max_watts_per_socket / 2, gpu_watts=10_000, gpu_pct=60))
    assert (budget.cpu_share, budget.gpu_share) == (0.5, 1)


def test_no_intent_leaves_the_whole_tdp():
    assert budget_of(VIEW, CapIntent()).capped_watts == VIEW.tdp_watts
    assert budget_of(None, CapIntent(cpu_pct=60)).tdp_watts == 0


def test_a_twin_carries_what_the_scheduler_reads():
    budget = PowerBudget(cpu_tdp_watts=400, gpu_tdp_watts=1600, gpu_share=0.5)
    status = twin(budget=budget, measurement=measured(450), density=1.234, trend_w_per_min=-5.23, rack_draw_watts=5000)
    assert status.dump() == {
        "schedulableClass": "performance",
        "predictedPowerHeadroomScore": 62.5,
        "predictedCoolingStressScore": 22.5,
        "predictedPsuStressScore": 10,
        "hardwareDensityScore": 1.23,
        "estimatedPUE": 1.13,
        "effectiveCapState": {"cpuPct": 100, "gpuPct": 50},
        "powerMeasurement": {
            "source": "agent",
            "quality": "measured",
            "measuredNodePowerW": 450,
            "cpuCappedPowerW": 400,
            "gpuCappedPowerW": 800,
            "nodeCappedPowerW": 1200,
            "cpuTdpW": 400,
            "gpuTdpW": 1600,
            "nodeTdpW": 2000,
            "powerTrendWPerMin": -5.2,
        },
    }


def test_what_is_not_known_is_absent_from_the_twin():
    status = twin(measurement=UNKNOWN).dump()
    assert "measuredNodePowerW" not in status["powerMeasurement"]
    assert not {"predictedPowerHeadroomScore", "predictedCoolingStressScore", "estimatedPUE"} & status.keys()
    assert "predictedPsuStressScore" not in status
    assert "powerMeasurement" not in twin(budget=PowerBudget()).dump()


def test_headroom_below_zero_is_published():
    assert twin(measurement=measured(900)).predicted_power_headroom_score == -50


@pytest.mark.parametrize(("tdp_watts", "headroom"), [(1, 0), (0.99, None), (1e-308, None), (0, None)])
def test_there_is_no_headroom_relative_to_less_than_a_watt(tdp_watts, headroom):
    status = twin(budget=PowerBudget(cpu_tdp_watts=tdp_watts), measurement=measured(1))
    assert status.predicted_power_headroom_score == headroom


def test_each_state_offers_its_class():
    assert {state: schedulable_class(state) for state in (*NodeState, None)} == {
        NodeState.ACTIVE_PERFORMANCE: SchedulableClass.PERFORMANCE,
        NodeState.DRAINING_PERFORMANCE: SchedulableClass.DRAINING,
        NodeState.ACTIVE_ECO: SchedulableClass.ECO,
        None: SchedulableClass.UNKNOWN,
    }


@given(st.floats(0, 10_000), st.floats(0, 5000), st.floats(0, 5000), st.floats(0.01, 1), st.floats(-40, 60))
def test_scores_stay_in_their_ranges(power, cpu_tdp, gpu_tdp, share, celsius):
    budget = PowerBudget(cpu_tdp_watts=cpu_tdp, gpu_tdp_watts=gpu_tdp, cpu_share=share, gpu_share=share)
    status = twin(budget=budget, measurement=measured(power), ambient_c=celsius, rack_draw_watts=power * 10)
    assert status.predicted_power_headroom_score is None or status.predicted_power_headroom_score <= 100
    assert status.predicted_cooling_stress_score is None or 0 <= status.predicted_cooling_stress_score <= 100
    assert 0 <= status.predicted_psu_stress_score <= 100


def test_a_modelled_node_draws_idle_power_without_pods_and_more_with_them():
    cpu, gpu = VIEW.cpu, VIEW.gpu
    cpus = [
        ModelledDevices(cpu.spec.curve, cores, 128, VIEW.cpu_max_watts, VIEW.cpu_max_watts) for cores in (0, 64, 500)
    ]
    gpus = [ModelledDevices(gpu.spec.curve, count, 4, VIEW.gpu_max_watts, VIEW.gpu_max_watts) for count in (0, 2, 4)]
    assert cpu_watts(cpus[0]) == pytest.approx(2 * cpu.spec.idle_watts)
    assert cpu_watts(cpus[0]) < cpu_watts(cpus[1]) < cpu_watts(cpus[2]) < VIEW.cpu_max_watts
    idle, half, full = map(gpu_watts, gpus)
    assert half == pytest.approx((idle + full) / 2)


def test_a_modelled_node_draws_no_more_than_its_caps_and_no_less_than_idle():
    cpu = VIEW.cpu
    busy = ModelledDevices(cpu.spec.curve, 128, 128, 560, 200)
    assert cpu_watts(busy) == 200
    assert cpu_watts(ModelledDevices(cpu.spec.curve, 128, 128, 560, 1)) == cpu.spec.curve.watts(0, 560)


def test_the_power_of_the_whole_server_is_shown_and_changes_nothing_else():
    server = ServerMeasurement(
        source=ServerMeasurementSource.REDFISH, measured_server_power_w=900, sampled_at="2027-01-15T08:00:00Z"
    )
    with_server, without = twin(server=server), twin()
    assert with_server.server_measurement == server
    assert with_server.model_copy(update={"server_measurement": None}) == without
    assert node_state(with_server) == node_state(without)
