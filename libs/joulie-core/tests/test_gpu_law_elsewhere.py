"""The law of GPUs against devices that are not in its fit.

Shares of the natural power and of the speed of one run under a power limit each, from the measurements of
github.com/giordano/gpu-power-frequency-benchmarks (February to July 2026): A100 80 GB PCIe and RTX PRO 6000 Blackwell.
"""

from dataclasses import replace

import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import LEAST_CAP_OF_NATURAL

LAW = Inventory.load().gpus["nvidia-a100-pcie-80gb"].curve.response
#: The band of the exponent that docs/models.md states.
BAND = (0.15, 0.31)
#: Power and speed by device and program.
MEASURED = {
    ("A100", "pi"): [(0.835, 0.958), (0.754, 0.926), (0.672, 0.889), (0.589, 0.835), (0.503, 0.771)],
    ("A100", "Breeze"): [(0.841, 0.957), (0.758, 0.924), (0.675, 0.874), (0.593, 0.803), (0.507, 0.677)],
    ("A100", "WaterLily"): [(0.844, 0.949), (0.757, 0.907), (0.679, 0.861), (0.597, 0.775), (0.513, 0.621)],
    ("RTX PRO 6000", "Breeze"): [(0.810, 0.913), (0.710, 0.851), (0.607, 0.776)],
    ("RTX PRO 6000", "WaterLily"): [(0.929, 0.983), (0.820, 0.952), (0.711, 0.887)],
}
#: Bound by the memory: no cap above this costs it anything.
TRIAD = [(0.997, 1.00), (0.954, 1.00), (0.848, 1.00), (0.745, 1.01), (0.642, 0.979)]


def speed(share, law=LAW):
    return law.retention(share, 1.0, 0.0)


@pytest.mark.parametrize("points", MEASURED.values())
def test_the_band_of_the_exponent_contains_what_was_measured(points):
    fast, slow = (replace(LAW, exponent=exponent) for exponent in BAND)
    for share, measured in points:
        assert speed(share, slow) - 0.01 <= measured <= speed(share, fast) + 0.01


def test_the_law_is_at_most_0_04_too_fast_and_0_13_too_slow():
    errors = [speed(share) - measured for points in MEASURED.values() for share, measured in points]
    assert max(errors) == pytest.approx(0.039, abs=0.001)
    assert min(errors) == pytest.approx(-0.125, abs=0.001)


def test_work_that_the_memory_bounds_is_slower_in_the_law_than_measured():
    assert all(speed(share) <= measured for share, measured in TRIAD)


@pytest.mark.parametrize("points", MEASURED.values())
def test_a_cap_at_the_lowest_share_for_other_models_saves_energy_on_each(points):
    shares, speeds = zip((1.0, 1.0), *points, strict=True)
    # Between two points of the measurement.
    place = next(place for place, share in enumerate(shares) if share <= LEAST_CAP_OF_NATURAL)
    high, low = (shares[place - 1], speeds[place - 1]), (shares[place], speeds[place])
    part = (LEAST_CAP_OF_NATURAL - low[0]) / (high[0] - low[0])
    at_share = low[1] + part * (high[1] - low[1])
    assert at_share > 0.87
    assert 0.78 < LEAST_CAP_OF_NATURAL / at_share < 0.87


def test_the_measured_knee_of_a_device_outside_of_the_fit_is_above_the_laws():
    energies = {share: share / measured for share, measured in MEASURED["A100", "WaterLily"]}
    knee = min(energies, key=energies.__getitem__)
    assert LAW.knee_watts(1.0, 0.0) < 0.53 < knee < LEAST_CAP_OF_NATURAL
