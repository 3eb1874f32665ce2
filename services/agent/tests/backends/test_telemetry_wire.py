"""What HTTP backends may say, and what is made of it."""

import pytest

from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import GpuSample, Unavailable
from joulie_agent.backends.telemetry_wire import parse_reply, parse_telemetry


def test_the_short_form_is_the_power_of_all_packages():
    reading = parse_telemetry(b'{"packagePowerWatts": 240}')
    assert reading.cpu.power_watts == 240
    assert reading.gpu.power_watts is None


def test_the_long_form_has_cpu_gpu_and_hardware():
    reading = parse_telemetry(
        b"""{
            "cpu": {"packagePowerWatts": 240.5, "throttlePct": 30, "sockets": 2, "model": "EPYC"},
            "gpu": {
                "powerWatts": 700, "capWattsPerGpu": 300, "present": true, "count": 2,
                "devices": [
                    {"uuid": "GPU-a", "index": 0, "powerWatts": 350},
                    {"uuid": "GPU-b", "index": 1, "powerWatts": 350, "capWatts": 250}
                ]
            },
            "memory": {"totalBytes": 1024},
            "more": [1]
        }"""
    )
    assert (reading.cpu.power_watts, reading.cpu.throttle_pct) == (240.5, 30)
    assert reading.gpu.power_watts == 700
    assert reading.gpu.gpus == (GpuSample("GPU-a", 350, 300), GpuSample("GPU-b", 350, 250))
    assert (reading.facts.cpu.sockets, reading.facts.gpu.count, reading.facts.memory.total_bytes) == (2, 2, 1024)


def test_devices_add_up_only_if_all_of_them_are_known():
    assert parse_telemetry(b'{"gpu": {"devices": [{"powerWatts": 10}, {"powerWatts": 20}]}}').gpu.power_watts == 30
    assert parse_telemetry(b'{"gpu": {"devices": [{"powerWatts": 10}, {}]}}').gpu.power_watts is None


def test_an_answer_without_figures_is_a_reading_of_nothing_and_never_zero():
    reading = parse_telemetry(b"{}")
    assert (reading.cpu.power_watts, reading.gpu.power_watts, reading.gpu.gpus) == (None, None, ())


@pytest.mark.parametrize(
    ("raw", "gpu_watts"),
    [
        (b'{"packagePowerWatts": 0}', None),
        (b'{"cpu": {"packagePowerWatts": 0}, "gpu": {"powerWatts": 700}}', 700),
        (b'{"cpu": {"packagePowerWatts": 0}, "gpu": {"powerWatts": 0}}', None),
        (b'{"cpu": {"packagePowerWatts": 0}, "gpu": {"devices": [{"powerWatts": 10}, {"powerWatts": 0}]}}', None),
    ],
)
def test_0_watts_is_no_measurement(raw, gpu_watts):
    reading = parse_telemetry(raw)
    assert (reading.cpu.power_watts, reading.gpu.power_watts) == (None, gpu_watts)
    assert not [sample for sample in reading.gpu.gpus if sample.power_watts == 0]


def test_gpus_that_are_counted_without_being_marked_as_present_are_not_absent():
    gpu = parse_telemetry(b'{"gpu": {"count": 8}}').facts.gpu
    assert (gpu.count, gpu.present) == (8, None)


def test_a_fact_that_does_not_fit_does_no_harm():
    reading = parse_telemetry(b'{"packagePowerWatts": 240, "cpu": {"sockets": "two"}, "gpu": null}')
    assert (reading.cpu.power_watts, reading.facts.cpu, reading.facts.gpu) == (240, None, None)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b"\xff",
        b'{"packagePowerWatts": "240"}',
        b'{"packagePowerWatts": -1}',
        b'{"packagePowerWatts": NaN}',
        b'{"packagePowerWatts": 300000}',
        b'{"gpu": {"devices": [{"powerWatts": -5}]}}',
    ],
)
def test_what_is_no_telemetry_is_refused_with_a_reason(raw):
    answer = parse_telemetry(raw)
    assert isinstance(answer, Unavailable)
    assert answer.reason is Reason.MALFORMED_REPLY


def test_an_impossible_throttle_is_not_believed():
    assert parse_telemetry(b'{"cpu": {"throttlePct": 130}}').cpu.throttle_pct is None


def test_a_reply_has_what_is_in_force():
    reply = parse_reply(b'{"result": "applied", "message": "ok", "state": {"capWatts": 240, "throttlePct": 0, "x": 1}}')
    assert (reply.result, reply.message, reply.cap_watts) == ("applied", "ok", 240)


@pytest.mark.parametrize(
    "state", [b"null", b"7", b'{"capWatts": "many"}', b'{"capWatts": -1}', b'{"capWatts": 1e308}', b"[]"]
)
def test_a_state_that_cannot_be_read_leaves_the_result_standing(state):
    reply = parse_reply(b'{"result": "applied", "state": ' + state + b"}")
    assert (reply.result, reply.cap_watts) == ("applied", None)


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"result": "done"}', b'{"result": "none"}', b'{"result": null}'])
def test_what_is_no_reply_is_refused_with_a_reason(raw):
    assert parse_reply(raw).reason is Reason.MALFORMED_REPLY
