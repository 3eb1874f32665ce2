import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.power_curve import CapResponse

INVENTORY = Inventory.load()
CURVES = {key: spec.curve for key, spec in {**INVENTORY.cpus, **INVENTORY.gpus}.items()}
curves = st.sampled_from(sorted(CURVES)).map(CURVES.__getitem__)
shares = st.floats(0, 1)
responses = curves.map(lambda curve: curve.response)
naturals = st.floats(10, 1500)
idles = st.floats(0.01, 0.5)


@given(curves, shares, shares)
def test_power_rises_with_load_up_to_the_maximum(curve, one, other):
    low, high = sorted((one, other))
    assert 0 < curve.share(0) <= curve.share(low) <= curve.share(high) <= curve.share(1) == 1


@given(curves, st.floats(-10, 10), st.floats(0, 2000))
def test_watts_are_bounded_whatever_the_load(curve, load, max_watts):
    assert 0 <= curve.watts(load, max_watts) <= max_watts


@given(responses, st.floats(0, 2000), st.floats(0, 2000), naturals, idles)
def test_speed_rises_with_the_cap_and_never_passes_one(response, one, other, natural, idle_share):
    low, high = sorted((one, other))
    slow, fast = (response.retention(cap, natural, idle_share * natural) for cap in (low, high))
    assert 0 <= slow <= fast + 1e-12
    assert fast <= 1


@given(responses, st.floats(0, 2000), naturals, idles)
def test_a_cap_at_or_above_the_natural_power_costs_nothing_and_one_below_does(response, cap, natural, idle_share):
    kept = response.retention(cap, natural, idle_share * natural)
    assert (kept == 1) == (cap >= natural) or cap == pytest.approx(natural)


@given(responses, st.floats(0, 1), naturals, idles)
def test_work_goes_on_at_any_cap_above_idle(response, share, natural, idle_share):
    idle = idle_share * natural
    cap = idle + share * (natural - idle)
    assert (response.retention(cap, natural, idle) > 0) == (cap > idle)


@given(responses, st.floats(0.05, 1), naturals, idles, st.floats(0, 3))
def test_energy_per_unit_of_work_is_least_at_the_knee(response, share, natural, idle_share, other_share):
    idle, other, cap = idle_share * natural, other_share * natural, share * natural

    def energy_per_work(watts):
        return (watts + other) / response.retention(watts, natural, idle)

    knee = response.knee_watts(natural, idle, other)
    assert idle < knee <= natural
    if cap > idle:
        assert energy_per_work(knee) <= energy_per_work(cap) * (1 + 1e-9)


@given(responses, naturals, idles, st.floats(0, 3), st.floats(0, 3))
def test_other_watts_raise_the_knee(response, natural, idle_share, one, other):
    less, more = sorted((one, other))
    low, high = (response.knee_watts(natural, idle_share * natural, share * natural) for share in (less, more))
    assert low <= high


def test_the_knee_is_not_below_what_was_measured():
    law = CapResponse(0.1, 0.5, 0.4, "test")
    assert law.knee_watts(500, 20) == 0.4 * 500


def test_the_knee_of_a_gpu_alone_is_at_about_half_its_natural_power():
    law = INVENTORY.gpus["nvidia-h100-sxm"].curve.response
    assert law.knee_watts(600, 70) == pytest.approx(0.52 * 600, abs=6)


def test_points_of_a_server_curve_are_met_exactly():
    curve = INVENTORY.cpus["amd-epyc-7763"].curve
    assert curve.watts(0, 280) == pytest.approx(0.212 * 280)
    assert curve.watts(0.5, 280) == pytest.approx(0.620 * 280)
    assert curve.watts(0.55, 280) == pytest.approx((0.620 + 0.713) / 2 * 280)


@pytest.mark.parametrize(
    ("gpu", "cap_watts", "natural_watts", "kept"),
    [
        # Medians over the jobs that draw over 80 % (P100: 60 %) of the limit at full power; Zeus power-limit sweeps.
        ("nvidia-v100-pcie", 125, 224, 0.669),
        ("nvidia-v100-pcie", 150, 224, 0.847),
        ("nvidia-v100-pcie", 200, 224, 0.948),
        ("nvidia-quadro-rtx-6000", 100, 233, 0.426),
        ("nvidia-quadro-rtx-6000", 150, 233, 0.830),
        ("nvidia-quadro-rtx-6000", 200, 233, 0.941),
        ("nvidia-p100-pcie", 125, 167, 0.897),
    ],
)
def test_the_cap_law_agrees_with_published_measurements(gpu, cap_watts, natural_watts, kept):
    spec = INVENTORY.gpus[gpu]
    modelled = spec.curve.response.retention(cap_watts, natural_watts, spec.idle_watts)
    assert modelled == pytest.approx(kept, abs=0.1)


def test_a_cap_saves_energy_per_unit_of_work_on_a_busy_cpu():
    spec = INVENTORY.cpus["intel-xeon-8380"]
    kept = spec.curve.response.retention(0.6 * spec.max_watts, spec.max_watts, spec.idle_watts)
    assert 0.75 <= 0.6 / kept <= 0.9


@given(st.floats(0.3, 1.0), st.sampled_from([None, 0.2, 0.31]))
def test_the_cap_for_a_speed_has_that_speed(speed, exponent):
    response = CapResponse(0.38, 0.27, 0.4, "")
    share = response.share_at(speed, exponent=exponent)
    law = response if exponent is None else CapResponse(0.38, exponent, 0.4, "")
    assert share >= 0.4
    if share > 0.4:
        assert law.retention(share * 100.0, 100.0, 10.0) == pytest.approx(speed)
