"""Power of the packages, read from the counters of a fake machine."""

import pytest

from joulie_actuator.hardware import rapl
from joulie_actuator.hardware.power_meter import PowerMeter, total_watts
from joulie_actuator.reasons import Reason
from joulie_core.control.energy_meter import SampleResult
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS


@pytest.fixture
def fake(tmp_path):
    return build(tmp_path / "machine", PLATFORMS["xeon-2s"])


def test_the_total_is_the_sum_of_all_packages(fake):
    meter, zones = PowerMeter(), rapl.discover(fake.tree())
    assert total_watts(meter.sample(zones, 0.0)) is None
    for zone, joules in zip(fake.zones(), (120, 80), strict=True):
        fake.consume(zone, joules)
    readings = meter.sample(zones, 2.0)
    assert [(reading.zone, reading.power_watts) for reading in readings] == [("package-0", 60.0), ("package-1", 40.0)]
    assert total_watts(readings) == 100.0


def test_a_part_of_the_power_is_not_passed_off_as_the_whole(fake):
    meter, zones = PowerMeter(), rapl.discover(fake.tree())
    meter.sample(zones, 0.0)
    fake.consume(fake.zones()[0], 10_000)
    fake.consume(fake.zones()[1], 80)
    readings = meter.sample(zones, 1.0)
    assert [reading.sampled for reading in readings] == [SampleResult.TOO_HIGH, SampleResult.GOOD]
    assert total_watts(readings) is None


def test_no_zones_is_no_figure_and_not_zero():
    assert total_watts(PowerMeter().sample((), 0.0)) is None


def test_a_counter_that_wraps_around_keeps_the_figure(fake):
    meter, zones = PowerMeter(), rapl.discover(fake.tree())
    zone = fake.zones()[0]
    fake.write(f"{zone}/energy_uj", fake.spec.energy_range_uj - 50_000_000)
    before = meter.sample(zones, 0.0)[0]
    fake.consume(zone, 75)
    after = meter.sample(zones, 1.0)[0]
    assert after.energy_uj < before.energy_uj
    assert after.power_watts == pytest.approx(75.0, abs=1e-5)


def test_after_a_reload_of_the_driver_the_second_sample_measures_again(fake):
    meter, zones = PowerMeter(), rapl.discover(fake.tree())
    meter.sample(zones, 0.0)
    fake.unload_rapl()
    assert meter.sample(zones, 1.0)[0].failure.reason is Reason.NO_INTERFACE
    fake.load_rapl()
    assert meter.sample(zones, 2.0)[0].sampled is SampleResult.FIRST
    fake.consume(fake.zones()[0], 50)
    assert meter.sample(zones, 3.0)[0].power_watts == 50.0


def test_a_package_draws_more_than_any_inferred_design_power_and_is_measured(tmp_path):
    fake = build(tmp_path / "amd", PLATFORMS["epyc-2s"])
    meter, zones = PowerMeter(), rapl.discover(fake.tree())
    meter.sample(zones, 0.0)
    fake.consume(fake.zones()[0], 900)
    fake.consume(fake.zones()[1], 3000)
    assert [reading.sampled for reading in meter.sample(zones, 1.0)] == [SampleResult.GOOD, SampleResult.TOO_HIGH]


def test_a_counter_that_stands_still_is_no_power(fake):
    meter, zones = PowerMeter(), rapl.discover(fake.tree())
    meter.sample(zones, 0.0)
    assert total_watts(meter.sample(zones, 1.0)) is None
