"""Decoding of telemetry endpoints' answers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api.telemetry import GpuTelemetry, Telemetry, TelemetryError, decode_telemetry


def test_the_short_form_is_the_power_of_all_packages():
    assert decode_telemetry(b'{"packagePowerWatts": 240}') == Telemetry(cpu_watts=240)


def test_the_long_form_has_cpus_and_gpus():
    telemetry = decode_telemetry(
        b"""{
            "cpu": {"packagePowerWatts": 240.5, "throttlePct": 30, "sockets": 2},
            "gpu": {
                "powerWatts": 700, "capWattsPerGpu": 300, "present": true,
                "devices": [
                    {"uuid": "GPU-a", "index": 0, "powerWatts": 350},
                    {"index": 4, "powerWatts": 350, "capWatts": 250},
                    {"powerWatts": 0}
                ]
            },
            "memory": {"totalBytes": 1024},
            "more": [1]
        }"""
    )
    assert telemetry == Telemetry(
        cpu_watts=240.5,
        gpu_watts=700,
        throttle_pct=30,
        cap_watts_per_gpu=300,
        gpus=(GpuTelemetry("GPU-a", 350, 300), GpuTelemetry("4", 350, 250), GpuTelemetry("2", None, 300)),
    )


def test_the_nested_value_of_the_packages_takes_precedence():
    assert decode_telemetry(b'{"packagePowerWatts": 1, "cpu": {"packagePowerWatts": 2}}').cpu_watts == 2
    assert decode_telemetry(b'{"packagePowerWatts": 1, "cpu": {}}').cpu_watts == 1


def test_devices_are_added_up_without_a_sum():
    assert decode_telemetry(b'{"gpu": {"devices": [{"powerWatts": 10}, {"powerWatts": 20}]}}').gpu_watts == 30


@pytest.mark.parametrize("unmeasured", [b"{}", b'{"powerWatts": 0}', b'{"powerWatts": null}'])
def test_devices_of_which_one_is_not_measured_have_no_sum(unmeasured):
    raw = b'{"gpu": {"devices": [{"powerWatts": 10}, ' + unmeasured + b"]}}"
    assert decode_telemetry(raw).gpu_watts is None


def test_an_answer_without_values_is_unknown_and_not_zero():
    assert decode_telemetry(b"{}") == Telemetry()
    assert decode_telemetry(b'{"cpu": null, "gpu": null}') == Telemetry()
    assert decode_telemetry(b'{"gpu": {"devices": null}}') == Telemetry()


def test_0_watts_is_no_measurement():
    assert decode_telemetry(b'{"packagePowerWatts": 0, "gpu": {"powerWatts": 0}}') == Telemetry()


def test_a_sum_of_0_watts_is_not_replaced_by_that_of_the_devices():
    assert decode_telemetry(b'{"gpu": {"powerWatts": 0, "devices": [{"powerWatts": 10}]}}').gpu_watts is None


def test_what_is_too_high_is_left_to_the_caller():
    assert decode_telemetry(b'{"packagePowerWatts": 300000}').cpu_watts == 300_000


@pytest.mark.parametrize("throttle", [b"130", b"-1"])
def test_an_impossible_throttle_is_unknown(throttle):
    assert decode_telemetry(b'{"cpu": {"throttlePct": ' + throttle + b"}}").throttle_pct is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b'"\xff"',
        b'{"packagePowerWatts": "240"}',
        b'{"packagePowerWatts": NaN}',
        b'{"packagePowerWatts": -1}',
        b'{"gpu": {"powerWatts": -1}}',
        b'{"gpu": {"devices": [{"powerWatts": -5}]}}',
    ],
)
def test_an_invalid_telemetry_answer_is_refused(raw):
    with pytest.raises(TelemetryError):
        decode_telemetry(raw)


@given(st.lists(st.floats(0.01, 1e6), min_size=1))
def test_the_sum_of_the_devices_is_that_of_all(watts):
    raw = msgspec.json.encode({"gpu": {"devices": [{"powerWatts": each} for each in watts]}})
    assert decode_telemetry(raw).gpu_watts == pytest.approx(sum(watts))
