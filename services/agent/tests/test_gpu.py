"""GPU enforcement against an actuator that does what a test tells it."""

from dataclasses import dataclass, field, replace

from joulie_agent import gpu
from joulie_agent.backends.base import Outcome, applied, blocked, failed
from joulie_agent.gpu import GpuMemory, GpuOrder
from joulie_agent.reasons import Reason
from joulie_core.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.kinds.node_power_profile import GpuPowerCap
from joulie_core.kinds.telemetry_profile import ControlReport, ControlResult


@dataclass
class Actuator:
    devices: tuple = ()
    answer: Outcome | None = None
    calls: list = field(default_factory=list)

    def gpu_devices(self):
        return self.devices

    async def set_gpu_caps(self, cap_watts):
        self.calls.append(dict(cap_watts))
        return self.answer or applied("http-gpu", enforced_watts=max(cap_watts.values()))

    async def restore_gpu(self, limits):
        self.calls.append(f"restore {limits.max_watts:g}")
        return self.answer or Outcome(ControlResult.APPLIED, Reason.RESTORED, "http-gpu")


A100 = WattRange(400, 100)
ORDER = GpuOrder(target=GpuPowerCap(cap_pct_of_max=60), absent=Reason.NO_INTENT, limits=A100, present=True)


async def test_a_percentage_becomes_watts_of_the_range():
    actuator = Actuator()
    result = await gpu.enforce(ORDER, GpuMemory(), actuator)
    assert actuator.calls == [{"": 240}]
    assert result.report == ControlReport(
        backend="http-gpu", result="applied", reason="Capped", requested_watts=240, enforced_watts=240
    )


async def test_each_device_gets_its_own_cap_and_the_clamp_is_told():
    devices = (GpuDeviceRange("GPU-a", A100), GpuDeviceRange("GPU-b", WattRange(70, 60)))
    actuator = Actuator(devices)
    result = await gpu.enforce(ORDER, GpuMemory(), actuator)
    assert actuator.calls == [{"GPU-a": 240, "GPU-b": 60}]
    assert result.report.reason == "Clamped"
    assert result.report.message == "42 W clamped to the minimum of 60 W"


async def test_a_percentage_without_a_range_is_blocked_and_never_sent():
    actuator = Actuator()
    result = await gpu.enforce(replace(ORDER, limits=WattRange()), GpuMemory(), actuator)
    assert actuator.calls == []
    assert (result.report.result, result.report.reason) == ("blocked", "NoCapRange")


async def test_a_percentage_for_a_node_without_gpus_is_blocked_with_that_reason():
    result = await gpu.enforce(replace(ORDER, limits=WattRange(), present=False), GpuMemory(), Actuator())
    assert (result.report.result, result.report.reason) == ("blocked", "NoDevice")


async def test_a_refusal_is_reported_and_leaves_nothing_in_force():
    actuator = Actuator(answer=blocked("http-gpu", Reason.REFUSED, "no permission"))
    result = await gpu.enforce(ORDER, GpuMemory(), actuator)
    assert (result.report.result, result.report.message) == ("blocked", "no permission")
    assert not result.memory.in_force


async def test_a_request_without_an_answer_may_be_in_force():
    actuator = Actuator(answer=failed("http-gpu", Reason.TIMEOUT))
    result = await gpu.enforce(ORDER, GpuMemory(), actuator)
    assert result.memory.in_force


async def test_an_absent_intent_leaves_alone_and_gives_back_what_was_in_force():
    order, actuator = replace(ORDER, target=None), Actuator()
    result = await gpu.enforce(order, GpuMemory(), actuator)
    assert (actuator.calls, result.report) == ([], ControlReport(result="none", reason="NoIntent"))
    result = await gpu.enforce(order, GpuMemory(in_force=True), actuator)
    assert (actuator.calls, result.report.reason, result.memory.in_force) == (["restore 400"], "Restored", False)
