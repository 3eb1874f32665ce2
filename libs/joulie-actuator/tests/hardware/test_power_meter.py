"""Power of the packages, read from the counters of a fake machine."""

from dataclasses import replace

import pytest

from joulie_actuator.hardware import rapl, rapl_domains
from joulie_actuator.hardware.power_meter import PowerMeter, ZoneReading, total_watts
from joulie_actuator.reasons import Reason
from joulie_core.control.energy_meter import SampleResult
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS, Zone


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
    for at in (1.0, 1.5):
        failure = zones[0].read_energy_uj()
        assert failure.reason is Reason.NO_INTERFACE
        assert meter.sample(zones, at)[0] == ZoneReading("package-0", None, None, None, failure)
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


def test_a_domain_is_measured_by_its_own_counter_until_that_is_so_late_that_it_may_have_lapped(fake):
    meter, (dram, _) = PowerMeter(), rapl_domains.discover(fake.tree())
    (first,) = meter.sample_domains([dram], 0.0)
    assert (first.zone, first.power_watts, first.sampled) == ("package-0/dram", None, SampleResult.FIRST)
    fake.consume(fake.zones(Zone.DRAM)[0], 30)
    (second,) = meter.sample_domains([dram], 2.0)
    assert (second.energy_uj - first.energy_uj, second.power_watts, second.failure) == (30_000_000, 15.0, None)
    (late,) = meter.sample_domains([dram], 2.0 + fake.spec.energy_range_uj / 2e9)
    assert (late.power_watts, late.sampled) == (None, SampleResult.TOO_LATE)


def sensed(fake, power_uw):
    """Return the reading of a package without an energy counter, with a sensor that reads this."""
    (fake.sys / rapl.discover(fake.tree())[0].path / "energy_uj").unlink()
    zone = replace(rapl.discover(fake.tree())[0], power_sensor="class/hwmon/hwmon0/power1_average")
    if power_uw is not None:
        (fake.sys / zone.power_sensor).parent.mkdir(parents=True)
        (fake.sys / zone.power_sensor).write_text(f"{power_uw}\n")
    (reading,) = PowerMeter().sample([zone], 0.0)
    return reading


def test_a_package_without_a_counter_has_the_power_of_its_sensor_at_once(fake):
    assert sensed(fake, 93_500_000) == ZoneReading("package-0", None, 93.5, None, None)


@pytest.mark.parametrize(("power_uw", "reason"), [(0, Reason.NO_READING), (None, Reason.NO_INTERFACE)])
def test_a_sensor_without_a_value_is_a_failure_that_names_the_sensor(fake, power_uw, reason):
    reading = sensed(fake, power_uw)
    assert (reading.zone, reading.power_watts, reading.failure.reason) == ("package-0", None, reason)
    assert "power1_average" in reading.failure.message


def test_a_package_without_a_counter_and_without_a_sensor_has_the_failure_of_the_counter(fake):
    zone = rapl.discover(fake.tree())[0]
    (fake.sys / zone.path / "energy_uj").unlink()
    (reading,) = PowerMeter().sample([zone], 0.0)
    assert "energy_uj" in reading.failure.message
