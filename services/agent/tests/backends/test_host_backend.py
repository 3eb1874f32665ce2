"""The backend over a fake machine with two GPUs, through executors in this process."""

from dataclasses import dataclass, replace

import msgspec
import pytest

from joulie_actuator.client import InProcessActuator
from joulie_actuator.cpu_class_protocol import CpuClassControls
from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.hardware.gpu.device_calls import GpuDeadlines
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import DescribeCpu, Epp, ReadGpu, SetCpuClasses, SetCpuTuning
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply
from joulie_actuator.subsystems import HostSubsystems
from joulie_agent.backends.base import CpuHeld, NodeReading, Unavailable
from joulie_agent.backends.host import CpuTuning, HostBackend, lease_s
from joulie_agent.enforce import gpu
from joulie_agent.enforce.gpu_clocks import ClockInputs
from joulie_core.control.caps_resolve import WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.control_result import ControlResult
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_power_profile import GpuPowerCap
from joulie_core.kinds.telemetry_profile import Held
from joulie_testing.agent.actuator_process import settings_of_machine, silent
from joulie_testing.agent.fake_gpu import FakeGpu, FakeGpuLibrary, fake_gpu_driver
from joulie_testing.agent.fake_sysfs import FakeMachine

NO_LIMITS = WattRange()
CPU_HELD = CpuHeld(cap=Held.YES)


@dataclass
class Bench:
    backend: HostBackend
    machine: FakeMachine
    library: FakeGpuLibrary
    asked: list
    client: InProcessActuator


@pytest.fixture
async def bench(tmp_path):
    settings, machine = settings_of_machine(tmp_path)
    driver, library = fake_gpu_driver(FakeGpu("a"), FakeGpu("b"))
    client = InProcessActuator(HostSubsystems(settings, silent, drivers=[driver]), stop_grace_s=5)
    asked = []

    class Spy:
        async def execute(self, request):
            asked.append(request)
            return await client.execute(request)

    yield Bench(HostBackend(Spy(), Inventory.load(), lease_s=60), machine, library, asked, client)
    await client.close()


async def test_a_reading_has_power_limits_and_facts(bench):
    reading = await bench.backend.read()
    assert isinstance(reading, NodeReading)
    assert [sample.cap_watts for sample in reading.gpu.gpus] == [700, 700]
    assert reading.gpu.power_watts == 180
    assert len(reading.cpu.frequencies) == 32
    assert (reading.facts.cpu.sockets, reading.facts.cpu.total_cores, reading.facts.gpu.count) == (2, 16, 2)
    assert reading.facts.can.model_dump() == {
        "cpu_control": True,
        "gpu_control": True,
        "cpu_telemetry": True,
        "gpu_telemetry": True,
    }


async def test_facts_are_requested_once_while_the_hardware_stays(bench):
    for _ in range(3):
        await bench.backend.read()
    assert sum(isinstance(request, DescribeCpu) for request in bench.asked) == 1


async def test_a_cap_is_set_read_back_and_restored(bench):
    done = await bench.backend.set_cpu_cap(90)
    assert (done.result, done.reason, done.backend, done.enforced_watts) == (
        ControlResult.APPLIED,
        Reason.CAPPED,
        "rapl",
        90,
    )
    restored = await bench.backend.restore_cpu(NO_LIMITS, CPU_HELD)
    assert (restored.result, restored.reason) == (ControlResult.APPLIED, Reason.RESTORED)
    assert [bench.machine.read(path) for path in bench.machine.limits()] == [150_000_000] * 2


async def test_one_path_at_a_time_holds_the_cpus(bench):
    await bench.backend.set_cpu_cap(90)
    assert (await bench.backend.set_dvfs_throttle(50, release_cap=Held.YES)).unreleased is None
    assert [bench.machine.read(path) for path in bench.machine.limits()] == [150_000_000] * 2
    assert (await bench.backend.set_cpu_cap(90, release_throttle=Held.YES)).unreleased is None
    assert {bench.machine.read(path) for path in bench.machine.policy_limits()} == {3_900_000}


async def test_a_reading_of_power_only_leaves_the_frequencies_alone(bench):
    reading = await bench.backend.read_cpu()
    assert (len(reading.zones), reading.frequencies) == (2, ())


async def test_a_throttle_is_read_back_as_requested(bench):
    assert (await bench.backend.set_dvfs_throttle(50)).applied
    assert (await bench.backend.read()).cpu.throttle_pct == 50


async def test_the_controller_leaves_the_classes_of_another_client_in_force(bench):
    # CPUs 0 and 16 are threads of one core.
    eco = CpuClassControls(cpus="0,16", max_khz=2_000_000, throttle_order=ThrottleOrder.ECO)
    await bench.client.execute(SetCpuClasses(classes={"eco": eco}, lease_s=60))
    await bench.backend.set_dvfs_throttle(5)
    assert (await bench.backend.read()).cpu.throttled_by_class == {"eco": 2}
    assert (await bench.backend.restore_cpu(NO_LIMITS, CpuHeld(throttle=Held.YES))).applied
    limits = [bench.machine.read(path) for path in bench.machine.policy_limits()]
    assert sorted(limits) == [2_000_000] * 2 + [3_900_000] * 30


async def test_gpus_are_capped_by_uuid_within_their_range(bench):
    await bench.backend.read()
    assert [(device.uuid, device.limits) for device in bench.backend.gpu_devices()] == [
        ("a", WattRange(700, 200)),
        ("b", WattRange(700, 200)),
    ]
    done = await bench.backend.set_gpu_caps({"a": 400, "b": 350})
    assert (done.result, done.backend, done.enforced_watts) == (ControlResult.APPLIED, "nvml", 400)
    assert (await bench.backend.restore_gpu(NO_LIMITS)).reason is Reason.RESTORED
    assert [gpu.limit_mw for gpu in bench.library.gpus] == [700_000] * 2


async def test_an_external_value_is_kept_and_reported_by_a_restore(bench):
    await bench.backend.set_cpu_cap(90)
    bench.machine.write(bench.machine.limits()[0], 120_000_000)
    restored = await bench.backend.restore_cpu(NO_LIMITS, CPU_HELD)
    assert "external value 120000000 left in place" in restored.message


async def test_overwriting_an_external_value_is_counted(bench):
    await bench.backend.set_cpu_cap(90)
    bench.machine.write(bench.machine.limits()[0], 120_000_000)
    await bench.backend.set_cpu_cap(90)
    assert (await bench.backend.read()).cpu.overwritten == 1


async def test_part_of_the_gpus_power_is_not_passed_off_as_the_whole(bench):
    await bench.backend.read()
    bench.library.gpus[0].lost = True
    reading = await bench.backend.read()
    assert reading.gpu.power_watts is None
    assert [sample.power_watts for sample in reading.gpu.gpus] == [None, 90]


async def test_caps_for_no_known_gpu_are_blocked(bench):
    outcome = await bench.backend.set_gpu_caps({"": 300})
    assert (outcome.result, outcome.reason) == (ControlResult.BLOCKED, Reason.NO_DEVICE)


class _Answering:
    def __init__(self, **answers):
        self._answers = answers

    async def execute(self, request):
        return self._answers.get(type(request).__name__, self._answers.get("rest"))


@pytest.mark.parametrize(
    ("answer", "result", "reason"),
    [
        (HardwareFailure(Reason.NO_HOST_INTERFACE, "no actuator"), ControlResult.BLOCKED, Reason.NO_HOST_INTERFACE),
        (HardwareFailure(Reason.TIMEOUT, "slow"), ControlResult.ERROR, Reason.TIMEOUT),
        (ErrorReply(message="ending"), ControlResult.ERROR, Reason.BACKEND_FAILED),
    ],
)
async def test_a_failed_request_is_an_outcome_with_the_reason(answer, result, reason):
    backend = HostBackend(_Answering(rest=answer), Inventory.load(), lease_s=60)
    for outcome in (
        await backend.set_cpu_cap(90),
        await backend.set_dvfs_throttle(10),
        await backend.set_gpu_caps({"a": 300}),
        await backend.restore_cpu(NO_LIMITS, CPU_HELD),
        await backend.restore_gpu(NO_LIMITS),
    ):
        assert (outcome.result, outcome.reason) == (result, reason)
    reading = await backend.read()
    assert isinstance(reading, Unavailable)
    assert reading.reason is reason
    assert backend.gpu_devices() == ()


async def test_a_figure_of_the_hardware_that_no_machine_has_is_told_with_the_facts(bench):
    class Mistaken:
        async def execute(self, request):
            found = await real(request)
            if isinstance(request, DescribeCpu):
                return msgspec.structs.replace(found, facts=replace(found.facts, packages=2000))
            return found

    real = bench.backend._client.execute
    reading = await HostBackend(Mistaken(), Inventory.load(), lease_s=60).read()
    assert reading.facts.cpu.sockets == 0
    assert reading.facts.dropped == ("sockets 2000 is beyond 1024, and taken for unknown",)
    assert (await bench.backend.read()).facts.dropped == ()


async def test_gpus_that_do_not_answer_leave_the_cpus_readable(bench):
    class GpusHang:
        async def execute(self, request):
            return HardwareFailure(Reason.TIMEOUT, "hung") if isinstance(request, ReadGpu) else await real(request)

    real = bench.backend._client.execute
    reading = await HostBackend(GpusHang(), Inventory.load(), lease_s=60).read()
    assert isinstance(reading, NodeReading)
    assert reading.facts.cpu is not None
    assert reading.gpu.power_watts is None


def test_a_lease_outlasts_a_few_ticks_and_a_slow_moment():
    assert lease_s(1) == 60
    assert lease_s(20) == 80
    assert lease_s(3600) == 3600


async def test_gpus_whose_driver_is_being_opened_are_unknown_and_not_absent(tmp_path):
    settings, _ = settings_of_machine(tmp_path)
    library = FakeGpuLibrary([FakeGpu("a")])
    driver = LibraryDriver(library, deadlines=GpuDeadlines(open_wait_s=0.05))
    client = InProcessActuator(HostSubsystems(settings, silent, drivers=[driver]), stop_grace_s=5)
    backend = HostBackend(client, Inventory.load(), lease_s=60)
    library.answering.clear()
    try:
        reading = await backend.read()
        assert isinstance(reading, NodeReading)
        assert reading.facts.gpu is None
        outcome = await backend.set_gpu_caps({"": 300})
        assert (outcome.result, outcome.reason) == (ControlResult.ERROR, Reason.TIMEOUT)
    finally:
        library.answering.set()
    while (reading := await backend.read()).facts.gpu is None:
        pass
    assert reading.facts.gpu.count == 1
    await client.close()


async def test_clocks_are_limited_by_uuid_reported_and_restored_with_everything_else(bench):
    await bench.backend.read()
    assert bench.backend.gpu_clocks() == {"a": ClockRange(210, 1980), "b": ClockRange(210, 1980)}
    outcome = await bench.backend.set_gpu_clocks({"a": 1200})
    assert (outcome.result, outcome.reason, outcome.backend) == (
        ControlResult.APPLIED,
        Reason.CLOCKS_LIMITED,
        "nvml",
    )
    samples = (await bench.backend.read()).gpu.gpus
    assert [(sample.clock_limit_mhz, sample.clock_bound) for sample in samples] == [
        (1200, ClockBound.CLOCK_LIMIT),
        (None, ClockBound.NONE),
    ]
    assert [(sample.clock_mhz, sample.busy_share) for sample in samples] == [(1200, 0.9), (1980, 0.9)]
    assert (await bench.backend.restore_gpu(NO_LIMITS)).reason is Reason.RESTORED
    assert [gpu.clock_mhz for gpu in bench.library.gpus] == [1980, 1980]


async def test_without_the_fallback_no_clock_is_offered_and_managed_clocks_are_restored(bench):
    await bench.backend.read()
    await bench.backend.set_gpu_clocks({"a": 1200})
    without = HostBackend(bench.backend._client, Inventory.load(), lease_s=60, clock_fallback=False)
    await without.read()
    assert without.gpu_clocks() == {}
    await without.set_gpu_caps({"a": 400, "b": 400})
    assert [gpu.clock_mhz for gpu in bench.library.gpus] == [1980, 1980]


async def test_a_memory_bound_gpu_is_brought_below_its_cap_by_its_clock(bench):
    """The whole way from the published cap to the hardware, over GPUs whose power limit does not hold their draw."""
    a, b = bench.library.gpus
    state, result = gpu.GpuControlState(), None
    intent = gpu.GpuIntent(GpuPowerCap(cap_watts_per_gpu=400), Reason.NO_INTENT, WattRange(700, 200), present=True)
    for tick in range(20):
        a.power_mw = 300_000 + 250 * round(1000 * a.clock_mhz / a.highest_mhz)
        reading = await bench.backend.read()
        result = await gpu.enforce(intent, state, bench.backend, ClockInputs(reading.gpu, tick * 20.0))
        state = result.state
    assert (result.report.result, result.report.reason) == (ControlResult.APPLIED, Reason.CLOCKS_LIMITED)
    assert 385_000 <= a.power_mw <= 410_000
    assert (a.limit_mw, b.limit_mw, b.clock_mhz) == (400_000, 400_000, 1980)


async def test_optional_controls_are_requested_only_where_they_are_configured():
    asked = []

    class Spy:
        async def execute(self, request):
            asked.append(request)
            return ControlOutcome(result=ControlResult.APPLIED, reason=Reason.TUNED, backend="tuning")

    assert await HostBackend(Spy(), Inventory.load(), lease_s=60).tune_cpu(saving=True) is None
    assert asked == []
    tuned = HostBackend(Spy(), Inventory.load(), lease_s=60, tuning=CpuTuning(epp=Epp.POWER))
    assert (await tuned.tune_cpu(saving=True)).applied
    assert (await tuned.tune_cpu(saving=False)).applied
    epps = [request.epp for request in asked]
    assert (epps, {type(request) for request in asked}) == ([Epp.POWER, None], {SetCpuTuning})
