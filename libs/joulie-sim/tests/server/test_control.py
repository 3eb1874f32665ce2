import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_sim.physics.parts import Controls, Hardware
from joulie_sim.server.control import (
    Action,
    ControlRequest,
    MalformedControlError,
    Result,
    control_state,
    parse_control,
    perform,
)
from joulie_sim.testing import CPU_NODE, GPU_NODE


def body(**fields):
    return json.dumps({"node": "n1", "ts": "2026-01-01T00:00:00Z", **fields}).encode()


@pytest.mark.parametrize(
    ("sent", "request_"),
    [
        (body(action="rapl.set_power_cap_watts", capWatts=120), ControlRequest(Action.CPU_CAP, 120.0)),
        (body(action="dvfs.set_throttle_pct", throttlePct=0), ControlRequest(Action.THROTTLE, 0.0)),
        (body(action="gpu.set_power_cap_watts", capWattsPerGpu=250.5), ControlRequest(Action.GPU_CAP, 250.5)),
        (b'{"action": "dvfs.set_throttle_pct", "throttlePct": 10}', ControlRequest(Action.THROTTLE, 10.0)),
        (body(action="gpu.set_clock_limit_pct", gpu=3, clockPct=80), ControlRequest(Action.GPU_CLOCK, 80.0, 3)),
    ],
)
def test_each_action_is_parsed_with_its_value(sent, request_):
    assert parse_control("n1", sent) == request_


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", "not a control request"),
        (b"[]", "not a control request"),
        (b"\xff", "not a control request"),
        (body(capWatts=100), "action"),
        (body(action="rapl.explode", capWatts=100), "rapl.explode"),
        (body(action="rapl.set_power_cap_watts"), "needs capWatts"),
        (body(action="rapl.set_power_cap_watts", throttlePct=10), "needs capWatts"),
        (body(action="rapl.set_power_cap_watts", capWatts="100"), "capWatts"),
        (body(action="rapl.set_power_cap_watts", capWatts=True), "capWatts"),
        (body(action="rapl.set_power_cap_watts", capWatts=0), "positive"),
        (body(action="rapl.set_power_cap_watts", capWatts=-5), "positive"),
        (body(action="rapl.set_power_cap_watts", capWatts=float("nan")), "not a control request"),
        (body(action="dvfs.set_throttle_pct", throttlePct=-1), "positive"),
        (body(action="dvfs.set_throttle_pct", throttlePct=1, node="n2"), "'n2'"),
        (body(action="gpu.set_clock_limit_pct", clockPct=80), "needs gpu"),
        (body(action="gpu.set_clock_limit_pct", gpu=0), "needs clockPct"),
        (body(action="gpu.set_clock_limit_pct", gpu=-1, clockPct=80), "gpu"),
        (body(action="gpu.set_clock_limit_pct", gpu=0, clockPct=101), "clockPct"),
        (body(action="gpu.set_clock_limit_pct", gpu=0, clockPct=0), "positive"),
    ],
)
def test_a_malformed_request_is_refused_with_the_reason(sent, expected):
    with pytest.raises(MalformedControlError, match=expected):
        parse_control("n1", sent)


@pytest.mark.parametrize(
    ("action", "asked", "enforced"),
    [
        (Action.CPU_CAP, 120.0, 120.0),
        (Action.CPU_CAP, 10.0, 100.0),
        (Action.CPU_CAP, 5000.0, 250.0),
        (Action.GPU_CAP, 50.0, 100.0),
        (Action.GPU_CAP, 700.0, 400.0),
        (Action.THROTTLE, 130.0, 100.0),
    ],
)
def test_a_value_outside_the_range_is_clamped_with_a_message(action, asked, enforced):
    outcome = perform(ControlRequest(action, asked), GPU_NODE, Controls())
    state = control_state(GPU_NODE, outcome.controls)
    field = {Action.CPU_CAP: "capWatts", Action.GPU_CAP: "capWattsPerGpu", Action.THROTTLE: "throttlePct"}[action]
    assert outcome.result is Result.APPLIED
    assert state[field] == enforced
    assert bool(outcome.message) is (asked != enforced)
    assert asked == enforced or (f"{asked:g}" in outcome.message and f"{enforced:g}" in outcome.message)


@given(st.sampled_from(Action), st.floats(0.0, 10_000.0))
def test_an_action_does_not_change_the_other_controls(action, value):
    before = Controls(cpu_cap_watts=150.0, throttle_pct=20.0, gpu_cap_watts=200.0)
    after = perform(ControlRequest(action, value), GPU_NODE, before).controls
    changed = {
        name
        for name in ("cpu_cap_watts", "throttle_pct", "gpu_cap_watts")
        if getattr(before, name) != getattr(after, name)
    }
    assert len(changed) <= 1


def test_the_clock_of_one_gpu_is_limited_and_that_of_the_others_stays():
    controls = perform(ControlRequest(Action.GPU_CLOCK, 60.0, 1), GPU_NODE, Controls()).controls
    assert control_state(GPU_NODE, controls)["clockPct"][:3] == [100.0, 60.0, 100.0]
    controls = perform(ControlRequest(Action.GPU_CLOCK, 80.0), GPU_NODE, controls).controls
    assert control_state(GPU_NODE, controls)["clockPct"][:3] == [80.0, 60.0, 100.0]
    controls = perform(ControlRequest(Action.GPU_CLOCK, 100.0, 1), GPU_NODE, controls).controls
    assert control_state(GPU_NODE, controls)["clockPct"][:3] == [80.0, 100.0, 100.0]


@pytest.mark.parametrize(("hardware", "gpu"), [(CPU_NODE, 0), (GPU_NODE, GPU_NODE.gpu.count)])
def test_the_clock_of_a_gpu_that_does_not_exist_is_blocked(hardware, gpu):
    outcome = perform(ControlRequest(Action.GPU_CLOCK, 80.0, gpu), hardware, Controls())
    assert (outcome.result, outcome.message) == (Result.BLOCKED, f"the node has no GPU {gpu}")
    assert outcome.controls == Controls()


def test_a_request_for_a_missing_part_is_blocked():
    outcome = perform(ControlRequest(Action.GPU_CAP, 200.0), CPU_NODE, Controls())
    assert (outcome.result, outcome.message) == (Result.BLOCKED, "the node has no GPU")
    bare = Hardware(cpu=None, gpu=None)
    assert perform(ControlRequest(Action.CPU_CAP, 200.0), bare, Controls()).result is Result.BLOCKED
    assert perform(ControlRequest(Action.THROTTLE, 20.0), bare, Controls()).result is Result.BLOCKED


def test_controls_that_were_not_set_have_default_values():
    assert control_state(GPU_NODE, Controls()) == {
        "capWatts": 250.0,
        "throttlePct": 0.0,
        "capWattsPerGpu": 400.0,
        "clockPct": [100.0] * GPU_NODE.gpu.count,
    }
