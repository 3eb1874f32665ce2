"""Mean power of a node between two samples: by the counters of its packages, and never lower than they show."""

import pytest

from joulie_agent.backends.base import CpuReading, GpuReading, GpuSample, ZoneSample
from joulie_agent.enforce.drawn import DeviceReadings, DrawnMeter
from joulie_core.budget.device_caps import GpuGroup, LimitedDevices
from joulie_core.control.caps_resolve import WattRange

RANGE_UJ, MAX_W = 262_143_328_850, 250.0
CPUS = LimitedDevices(2, WattRange(250, 100))
NODE = LimitedDevices(2, WattRange(250, 100), (GpuGroup("a", WattRange(400, 100)),))


def zones(*joules, range_uj=RANGE_UJ, max_watts=MAX_W):
    return CpuReading(
        # What any reader before has left, which is not since the last sample.
        power_watts=1.0,
        zones=tuple(
            ZoneSample(
                f"package-{index}",
                None if each is None else round(each * 1e6),
                0.5,
                range_uj=range_uj,
                max_watts=max_watts,
            )
            for index, each in enumerate(joules)
        ),
    )


def gpus(watts):
    return GpuReading(power_watts=watts, gpus=(GpuSample("a", watts),))


def read(cpu, gpu=None, *, at_s, for_s=0.0):
    return DeviceReadings(cpu, gpu, from_s=at_s, to_s=at_s + for_s)


def test_packages_are_measured_by_their_counters_since_the_last_sample():
    meter = DrawnMeter()
    assert meter.sample(read(zones(0, 0), at_s=0.0), CPUS) is None, "there is nothing to measure from"
    assert meter.sample(read(zones(500, 750), at_s=5.0), CPUS) == 250_000
    assert meter.sample(read(zones(510, 760), at_s=5.5), CPUS) == 40_000


def test_a_reading_that_takes_time_is_never_measured_as_less_than_was_drawn():
    meter = DrawnMeter()
    meter.sample(read(zones(0, 0), at_s=0.0, for_s=1.0), CPUS)
    # 200 J in at least 4 s and at most 6.
    assert meter.sample(read(zones(100, 100), at_s=5.0, for_s=1.0), CPUS) == 50_000


def test_the_power_of_gpus_is_added_where_the_node_has_any():
    meter = DrawnMeter()
    meter.sample(read(zones(0, 0), gpus(300), at_s=0.0), NODE)
    assert meter.sample(read(zones(500, 500), gpus(300), at_s=5.0), NODE) == 500_000
    assert meter.sample(read(zones(1_000, 1_000), gpus(300), at_s=10.0), CPUS) == 200_000


@pytest.mark.parametrize(
    ("cpu", "gpu"),
    [
        (None, gpus(300)),
        (zones(500, 500), None),
        (zones(500, 500), GpuReading()),
        (zones(500), gpus(300)),
        (zones(0, 500), gpus(300)),
        (zones(500, 100_000), gpus(300)),
        (CpuReading(), gpus(300)),
    ],
)
def test_without_one_device_there_is_no_figure(cpu, gpu):
    meter = DrawnMeter()
    meter.sample(read(zones(0, 0), gpus(300), at_s=0.0), NODE)
    assert meter.sample(read(cpu, gpu, at_s=5.0), NODE) is None


@pytest.mark.parametrize(
    "devices",
    [LimitedDevices(2, WattRange(), problem="2 GPUs, of which 1 can be limited"), LimitedDevices(0, WattRange())],
)
def test_devices_that_are_not_all_known_have_no_figure(devices):
    meter = DrawnMeter()
    meter.sample(read(zones(0, 0), at_s=0.0), devices)
    assert meter.sample(read(zones(500, 500), at_s=5.0), devices) is None


def test_a_missed_reading_costs_two_samples():
    meter = DrawnMeter()
    meter.sample(read(zones(0, 0), at_s=0.0), CPUS)
    assert meter.sample(read(None, at_s=5.0), CPUS) is None
    assert meter.sample(read(zones(1_000, 1_000), at_s=10.0), CPUS) is None, "it is not since the sample before"
    assert meter.sample(read(zones(1_500, 1_500), at_s=15.0), CPUS) == 200_000


def test_a_counter_that_wraps_around_goes_on():
    meter, top = DrawnMeter(), RANGE_UJ / 1e6
    meter.sample(read(zones(top - 100, 0), at_s=0.0), CPUS)
    assert meter.sample(read(zones(400, 500), at_s=5.0), CPUS) == pytest.approx(200_000, abs=2)


def test_without_counters_the_reported_power_counts_as_it_is():
    meter = DrawnMeter()
    sensor = CpuReading(power_watts=321.0004, zones=(ZoneSample("package-0", None, 321.0004),))
    assert meter.sample(read(sensor, at_s=0.0), CPUS) == 321_001
    assert meter.sample(read(CpuReading(power_watts=300.0), gpus(700.5), at_s=5.0), NODE) == 1_000_500
