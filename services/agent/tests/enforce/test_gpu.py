"""GPU enforcement against an actuator that does what a test tells it."""

from dataclasses import dataclass, field, replace

from joulie_actuator.outcome import ControlOutcome, applied, blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import GpuReading, GpuSample
from joulie_agent.enforce import gpu
from joulie_agent.enforce.gpu import GpuControlState, GpuIntent
from joulie_agent.enforce.gpu_clocks import ClockInputs
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.kinds.node_power_profile import GpuPowerCap
from joulie_core.kinds.telemetry_profile import ControlReport


@dataclass
class Actuator:
    devices: tuple = ()
    answer: ControlOutcome | None = None
    calls: list = field(default_factory=list)

    clocks: dict = field(default_factory=dict)
    clock_answer: ControlOutcome | None = None

    def gpu_devices(self):
        return self.devices

    def gpu_clocks(self):
        return self.clocks

    async def set_gpu_clocks(self, clocks_mhz):
        self.calls.append({uuid: f"{mhz} MHz" for uuid, mhz in clocks_mhz.items()})
        return self.clock_answer or ControlOutcome(ControlResult.APPLIED, Reason.CLOCKS_LIMITED, "nvml")

    async def set_gpu_caps(self, cap_watts):
        self.calls.append(dict(cap_watts))
        return self.answer or applied("http-gpu", enforced_watts=max(cap_watts.values()))

    async def restore_gpu(self, limits):
        self.calls.append(f"restore {limits.max_watts:g}")
        return self.answer or ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "http-gpu")


A100 = WattRange(400, 100)
INTENT = GpuIntent(target=GpuPowerCap(cap_pct_of_max=60), absent=Reason.NO_INTENT, limits=A100, present=True)


async def test_a_percentage_becomes_watts_of_the_range():
    actuator = Actuator()
    result = await gpu.enforce(INTENT, GpuControlState(), actuator)
    assert actuator.calls == [{"": 240}]
    assert result.report == ControlReport(
        backend="http-gpu", result="applied", reason="Capped", requested_watts=240, enforced_watts=240
    )


async def test_each_device_gets_its_own_cap_and_the_clamp_is_reported():
    devices = (GpuDeviceRange("GPU-a", A100), GpuDeviceRange("GPU-b", WattRange(70, 60)))
    actuator = Actuator(devices)
    result = await gpu.enforce(INTENT, GpuControlState(), actuator)
    assert actuator.calls == [{"GPU-a": 240, "GPU-b": 60}]
    assert result.report.reason == "Clamped"
    assert result.report.message == "42 W clamped to the minimum of 60 W"


async def test_a_percentage_without_a_range_is_blocked_and_never_sent():
    actuator = Actuator()
    result = await gpu.enforce(replace(INTENT, limits=WattRange()), GpuControlState(), actuator)
    assert actuator.calls == []
    assert (result.report.result, result.report.reason) == ("blocked", "NoCapRange")


async def test_a_percentage_for_a_node_without_gpus_is_blocked_with_that_reason():
    result = await gpu.enforce(replace(INTENT, limits=WattRange(), present=False), GpuControlState(), Actuator())
    assert (result.report.result, result.report.reason) == ("blocked", "NoDevice")


async def test_a_refusal_is_reported_and_leaves_nothing_in_force():
    actuator = Actuator(answer=blocked("http-gpu", Reason.REFUSED, "no permission"))
    result = await gpu.enforce(INTENT, GpuControlState(), actuator)
    assert (result.report.result, result.report.message) == ("blocked", "no permission")
    assert not result.state.in_force


async def test_a_request_without_an_answer_may_be_in_force():
    actuator = Actuator(answer=failed("http-gpu", Reason.TIMEOUT))
    result = await gpu.enforce(INTENT, GpuControlState(), actuator)
    assert result.state.in_force


async def test_an_absent_intent_leaves_alone_and_restores_what_was_in_force():
    intent, actuator = replace(INTENT, target=None), Actuator()
    result = await gpu.enforce(intent, GpuControlState(), actuator)
    assert (actuator.calls, result.report) == ([], ControlReport(result="none", reason="NoIntent"))
    result = await gpu.enforce(intent, GpuControlState(in_force=True), actuator)
    assert (actuator.calls, result.report.reason, result.state.in_force) == (["restore 400"], "Restored", False)


H100 = WattRange(700, 200)
CLOCKS = ClockRange(210, 1980)
HOT = GpuIntent(target=GpuPowerCap(cap_watts_per_gpu=400), absent=Reason.NO_INTENT, limits=H100, present=True)


def clock_inputs(tick, watts, clock_limit_mhz=None, uuid="GPU-a"):
    return ClockInputs(GpuReading(gpus=(GpuSample(uuid, watts, clock_limit_mhz=clock_limit_mhz),)), now=20.0 * tick)


async def run(actuator, draws, intent=HOT, state=None, start=0):
    """A tick per draw; returns the last result."""
    result = gpu.GpuResult(state or GpuControlState(), ControlReport())
    for tick, watts in enumerate(draws, start):
        result = await gpu.enforce(intent, result.state, actuator, clock_inputs(tick, watts))
    return result


def clocked(actuator):
    return [call for call in actuator.calls if any("MHz" in str(each) for each in call.values())]


async def test_a_power_limit_that_holds_is_not_helped_by_the_clock():
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    result = await run(actuator, [410, 395, 380, 405, 409, 402])
    assert (clocked(actuator), result.report.reason) == ([], "Capped")


async def test_a_gpu_that_draws_more_than_its_power_limit_has_its_clock_lowered_until_the_cap_holds():
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    result = await run(actuator, [500, 500])
    assert clocked(actuator) == [{"GPU-a": "1584 MHz"}]
    assert (result.report.result, result.report.reason) == ("applied", "Adjusting")
    assert "500 W drawn, 400 W allowed" in result.report.message
    result = await run(actuator, [370, 370], state=result.state, start=2)
    assert (result.report.result, result.report.reason) == ("applied", "ClocksLimited")


async def test_a_gpu_without_a_power_limit_is_held_by_its_clock_at_the_nodes_cap():
    refusal = blocked("host", Reason.NO_INTERFACE, "the driver offers no power limit")
    actuator = Actuator((), answer=refusal, clocks={"GPU-a": CLOCKS})
    result = await run(actuator, [500, 500])
    assert clocked(actuator) == [{"GPU-a": "1584 MHz"}]
    assert "power limit: the driver offers no power limit" in result.report.message
    assert result.state.in_force


async def test_a_cap_below_the_lowest_power_limit_is_held_by_the_clock():
    intent = replace(HOT, target=GpuPowerCap(cap_watts_per_gpu=150))
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    await run(actuator, [200, 200], intent)
    assert clocked(actuator) == [{"GPU-a": "1485 MHz"}]


async def test_a_cap_that_the_lowest_clock_does_not_hold_is_reported_as_blocked():
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    result = await run(actuator, [600] * 20)
    assert (result.report.result, result.report.reason) == ("blocked", "Saturated")
    assert result.state.in_force


async def test_clocks_that_are_not_needed_any_longer_are_released_once():
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    result = await run(actuator, [500, 500])
    actuator.calls.clear()
    result = await run(actuator, [100] * 40, state=result.state, start=2)
    assert [call for call in actuator.calls if call == {}] == [{}]
    assert result.report.reason == "Capped"


async def test_a_reading_that_is_lost_leaves_the_clock_limited():
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    result = await run(actuator, [500, 500])
    actuator.calls.clear()
    await run(actuator, [None] * 20, state=result.state, start=2)
    assert clocked(actuator) == [{"GPU-a": "1584 MHz"}] * 20


async def test_a_new_agent_takes_over_the_limit_that_it_reads():
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS})
    await gpu.enforce(HOT, GpuControlState(), actuator, clock_inputs(0, 390, clock_limit_mhz=1200))
    assert clocked(actuator) == [{"GPU-a": "1200 MHz"}]


async def test_a_refused_clock_limit_does_not_count_and_is_requested_again():
    refusal = blocked("nvml", Reason.NOT_PERMITTED, "insufficient permissions")
    actuator = Actuator((GpuDeviceRange("GPU-a", H100),), clocks={"GPU-a": CLOCKS}, clock_answer=refusal)
    result = await run(actuator, [500, 500])
    assert (result.report.result, result.report.reason) == ("blocked", "NotPermitted")
    assert result.state.clocks["GPU-a"].limit_mhz is None
    result = await run(actuator, [500, 500], state=result.state, start=2)
    assert len(clocked(actuator)) == 3
    assert result.report.result == "blocked"
