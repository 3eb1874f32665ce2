"""What the real driver of this machine's GPUs reports: reads only, and never sets anything.

`just gpu` runs this alone and shows the record.
"""

import json
import time
from dataclasses import asdict

import pytest

from joulie_actuator.hardware.gpu.device_calls import PATIENT_OPEN_WAIT_S
from joulie_actuator.hardware.gpu.host import host_gpu_drivers
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_testing.agent.fake_gpu import power_mw

#: Long beside the interval at which drivers update the counter, some 100 ms.
SECONDS = 2.0


@pytest.fixture(scope="module", params=["nvml", "amdsmi"])
def driver(request):
    (driver,) = (
        each for each in host_gpu_drivers("/sys", open_wait_s=PATIENT_OPEN_WAIT_S) if each.name == request.param
    )
    found = driver.devices()
    if isinstance(found, HardwareFailure):
        pytest.skip(f"{request.param}: {found.message}")
    yield driver
    driver.close()


def as_record(answer):
    return asdict(answer) if isinstance(answer, HardwareFailure) else answer


def test_a_real_gpu_has_limits_and_clocks_in_plausible_units(driver, record_property):
    devices = driver.devices()
    record = []
    for device in devices:
        limit, clock = driver.power_limit(device.uuid), driver.clock_limit(device.uuid, None)
        record.append(
            asdict(device)
            | {
                "power_mw": as_record(power_mw(driver, device.uuid)),
                "energy_mj": as_record(driver.energy_mj(device.uuid)),
                "limit_read": as_record(limit if isinstance(limit, HardwareFailure) else limit.read()),
                "clock_range": as_record(clock) if isinstance(clock, HardwareFailure) else asdict(clock.limits),
                "clock_read": as_record(clock if isinstance(clock, HardwareFailure) else clock.read()),
                "clock_is_free": as_record(driver.check_clock_is_free(device.uuid))
                or "yes, as far as the driver reports",
            }
        )
    text = json.dumps(record, indent=2, default=str)
    record_property(driver.name, text)
    print(text)
    for device in devices:
        power = power_mw(driver, device.uuid)
        assert isinstance(power, HardwareFailure) or 1_000 < power < 5_000_000, "milliwatts"
        assert device.limits is None or 10_000 < device.limits.low < device.limits.high < 5_000_000
        assert device.current_mw is None or device.current_mw <= device.max_mw
        reading = driver.read(device.uuid)
        assert isinstance(reading, HardwareFailure) or reading.clock_mhz is None or 0 < reading.clock_mhz < 5_000
        assert isinstance(reading, HardwareFailure) or reading.busy_pct is None or 0 <= reading.busy_pct <= 100
        assert device.highest_mhz is None or 100 < device.lowest_mhz < device.highest_mhz < 5_000


def test_the_energy_counter_of_a_real_gpu_moves_as_its_power(driver, record_property):
    """Over two seconds; the counter of one that has none is None."""
    for device in driver.devices():
        before, started = driver.energy_mj(device.uuid), time.monotonic()
        watts = []
        while time.monotonic() - started < SECONDS:
            watts.append(power_mw(driver, device.uuid) / 1000)
            time.sleep(0.1)
        after, seconds = driver.energy_mj(device.uuid), time.monotonic() - started
        if before is None:
            continue
        counted = (after - before) / 1000 / seconds
        sampled = sum(watts) / len(watts)
        text = f"{device.model}: {counted:.1f} W by the counter, {sampled:.1f} W by samples of power"
        record_property(device.uuid, text)
        print(text)
        assert counted == pytest.approx(sampled, rel=0.3)


def test_reading_a_real_gpu_leaves_its_limits_as_they_were(driver):
    before = {device.uuid: (device.current_mw, device.default_mw) for device in driver.devices()}
    for uuid in before:
        power_mw(driver, uuid)
        driver.enforced_mw(uuid)
    assert {device.uuid: (device.current_mw, device.default_mw) for device in driver.devices()} == before
