"""A power budget on a machine with two packages and two GPUs: what is written to them, and what is told of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from joulie_actuator.client import InProcessActuator
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import SetCpuCap, SetGpuCaps
from joulie_actuator.reasons import Reason
from joulie_actuator.subsystems import HostSubsystems
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.backends.host import HostBackend
from joulie_agent.discovery.discoverer import DiscoveredHardware
from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.enforce.budget import devices_of
from joulie_agent.enforce.node import NodeControl
from joulie_core.budget.limit_hold import LimitHold
from joulie_core.budget.node_limit import FollowedLimit, follow
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control_result import ControlResult
from joulie_core.hardware.inventory import Inventory
from joulie_core.held_as import HeldAs
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget
from joulie_testing.agent.actuator_process import settings_of_machine, silent
from joulie_testing.agent.fake_gpu import FakeGpu, FakeGpuLibrary, fake_gpu_driver
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.scripted_host import CPU, GPU, INPUTS, capped_target, host_route, node_control

ALONE = replace(INPUTS, target=None)
#: The lowest limits are 2 of 60 W and 2 of 200 W, the highest 2 of 150 W and 2 of 700 W.
LOWEST_W = 520


@dataclass
class Bench:
    control: NodeControl
    machine: FakeMachine
    library: FakeGpuLibrary
    requests: list
    gpus: tuple[FakeGpu, ...]
    #: Makes the control of an agent that has started again.
    another_control: Callable[[], NodeControl]

    def limits(self):
        """The limits of packages and GPUs in watts, as the hardware has them."""
        packages = [self.machine.read(path) / 1e6 for path in self.machine.limits()]
        return packages, [gpu.limit_mw / 1000 for gpu in self.gpus]


@pytest.fixture
async def bench(tmp_path):
    settings, machine = settings_of_machine(tmp_path)
    gpus = (FakeGpu("a"), FakeGpu("b"))
    driver, library = fake_gpu_driver(*gpus)
    client = InProcessActuator(HostSubsystems(settings, silent, drivers=[driver]), stop_grace_s=0.2)
    requests = []

    class Spy:
        async def execute(self, request):
            requests.append(request)
            return await client.execute(request)

    host = HostBackend(Spy(), Inventory.load(), lease_s=80)
    factory = BackendFactory(None, lambda _node: host)
    yield Bench(node_control(factory), machine, library, requests, gpus, lambda: node_control(factory))
    await client.close()


def limit(watts, *, keep=True, lease_s=300, now_s=0.0) -> FollowedLimit:
    spec = NodePowerBudgetSpec.model_validate(
        {
            "node_name": "n1",
            "term": 1,
            "sequence": 1,
            "limit_watts": watts,
            "on_lost_control": "KeepGuaranteed" if keep else "Release",
            "lease_seconds": lease_s,
        }
    )
    return follow(None, "o", spec, NodePowerBudgetStatus(), now_s)


async def test_a_limit_reaches_every_package_and_gpu_and_is_told_as_read(bench):
    tick = await bench.control.tick(replace(ALONE, limit=limit(600)))
    assert bench.limits() == ([100, 100], [200, 200])
    assert (tick.limit.state, tick.limit.in_force_mw) == ("AsAsked", 600_000)
    assert (tick.cpu.message, tick.cpu.cap_source, tick.sources) == (
        "capped by the power budget of 600 W for the node",
        "budget",
        {"cpu": "budget", "gpu": "budget"},
    )
    tick = await bench.control.tick(replace(ALONE, limit=limit(1000)))
    assert bench.limits() == ([150, 150], [350, 350])
    assert tick.limit.in_force_mw == 1_000_000


async def test_without_its_limit_the_hardware_has_what_it_had(bench):
    before = bench.limits()
    await bench.control.tick(replace(ALONE, limit=limit(600)))
    tick = await bench.control.tick(ALONE)
    assert (bench.limits(), tick.limit) == (before, None)
    assert not bench.control.in_force


async def test_of_profile_and_budget_the_lower_one_is_written_for_each_subsystem(bench):
    target = capped_target().model_copy(
        update={
            "cpu": CpuTarget(package_power_cap_watts=120),
            "gpu": GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=200)),
        }
    )
    tick = await bench.control.tick(replace(INPUTS, target=target, limit=limit(1000)))
    assert bench.limits() == ([120, 120], [200, 200])
    assert (tick.sources, tick.limit.in_force_mw) == ({"cpu": "profile", "gpu": "profile"}, 640_000)
    tick = await bench.control.tick(replace(INPUTS, target=target, limit=limit(600)))
    assert bench.limits() == ([100, 100], [200, 200])
    assert (tick.sources["cpu"], tick.limit.in_force_mw) == ("budget", 600_000)
    await bench.control.tick(replace(INPUTS, target=target))
    assert bench.limits() == ([120, 120], [200, 200])


async def test_a_limit_below_the_hardware_sets_the_lowest_limits(bench):
    tick = await bench.control.tick(replace(ALONE, limit=limit(400)))
    assert bench.limits() == ([60, 60], [200, 200])
    assert (tick.limit.state, tick.limit.refused, tick.limit.in_force_mw) == ("BelowMinimum", True, LOWEST_W * 1000)


async def test_a_package_whose_firmware_holds_more_counts_with_what_it_holds(bench, monkeypatch):
    write_int = SysfsTree.write_int
    path = bench.machine.limits()[1]
    bench.machine.write(path, 200_000_000)
    real = bench.machine.tree().real(path)

    def clamping(tree, path, value):
        return write_int(tree, path, max(140_000_000, value) if tree.real(path) == real else value)

    monkeypatch.setattr(SysfsTree, "write_int", clamping)
    tick = await bench.control.tick(replace(ALONE, limit=limit(600)))
    assert bench.limits() == ([100, 140], [200, 200])
    assert (tick.limit.state, tick.limit.in_force_mw, tick.limit.refused) == ("HeldHigher", 640_000, False)


async def test_a_gpu_whose_driver_keeps_more_counts_with_what_it_keeps(bench):
    bench.gpus[0].sticks_at_mw = 300_000
    tick = await bench.control.tick(replace(ALONE, limit=limit(600)))
    assert (tick.limit.state, tick.limit.in_force_mw) == ("HeldHigher", 700_000)


async def test_the_limit_of_a_removed_gpu_goes_to_the_others(bench):
    await bench.control.tick(replace(ALONE, limit=limit(1000)))
    bench.library.gpus.remove(bench.gpus[1])
    bench.library.reload()
    for _ in range(2):
        tick = await bench.control.tick(replace(ALONE, limit=limit(1000)))
    assert bench.limits()[0] == [150, 150]
    assert (bench.gpus[0].limit_mw, tick.limit.state, tick.limit.in_force_mw) == (700_000, "AsAsked", 1_000_000)


async def test_a_gpu_that_no_longer_answers_leaves_the_limit_refused(bench):
    await bench.control.tick(replace(ALONE, limit=limit(1000)))
    bench.gpus[1].lost = True
    for _ in range(2):
        tick = await bench.control.tick(replace(ALONE, limit=limit(1000)))
    assert (tick.limit.refused, tick.limit.in_force_mw) == (True, None)
    assert tick.limit.state in {"DevicesUnknown", "NotHeld"}


async def test_a_gpu_without_a_power_limit_leaves_the_limit_refused_and_named(bench):
    bench.gpus[1].min_mw = bench.gpus[1].max_mw = None
    tick = await bench.control.tick(replace(ALONE, limit=limit(1000)))
    assert (tick.limit.state, tick.limit.in_force_mw) == ("DevicesUnknown", None)
    assert "without a power limit: GPU b" in tick.limit.message
    assert bench.limits() == ([150, 150], [700, 700])


async def test_gpus_of_different_ranges_get_caps_of_their_own(bench):
    bench.gpus[0].max_mw = bench.gpus[0].limit_mw = bench.gpus[0].default_mw = 250_000
    tick = await bench.control.tick(replace(ALONE, limit=limit(1000)))
    assert bench.limits() == ([150, 150], [250, 450])
    assert tick.limit.in_force_mw == 1_000_000


async def test_a_package_that_cannot_be_capped_leaves_the_limit_refused(bench):
    bench.machine.unload_rapl()
    tick = await bench.control.tick(replace(ALONE, limit=limit(1000)))
    assert (tick.limit.refused, tick.limit.in_force_mw) == (True, None)


@pytest.mark.parametrize(
    ("keep", "lease_s", "taken_s"), [(True, 300, 3600), (False, 300, 300), (False, 10, 80), (False, 86_400, 3600)]
)
async def test_limits_are_leased_for_as_long_as_the_operator_counts_them(bench, keep, lease_s, taken_s):
    def leases():
        taken = {each.lease_s for each in bench.requests if isinstance(each, SetCpuCap | SetGpuCaps)}
        bench.requests.clear()
        return taken

    await bench.control.tick(replace(ALONE, limit=limit(600, keep=keep, lease_s=lease_s)))
    assert leases() == {taken_s}
    await bench.control.tick(replace(INPUTS, target=capped_target(), now=1.0))
    assert leases() == {80}


async def test_a_limit_that_was_released_is_leased_no_longer_and_restored(bench):
    before = bench.limits()
    released = limit(600, keep=False, lease_s=60)
    await bench.control.tick(replace(ALONE, limit=released))
    tick = await bench.control.tick(replace(ALONE, limit=released, now=60.0))
    assert (bench.limits(), tick.limit.state) == (before, "LeaseEnded")


async def test_a_throttle_in_the_place_of_a_cap_is_no_limit(bench):
    inputs = replace(ALONE, route=host_route("dvfs"), limit=limit(600))
    tick = await bench.control.tick(inputs)
    assert (tick.limit.state, tick.limit.in_force_mw) == ("NotHeld", None)
    assert bench.limits() == ([150, 150], [200, 200])


def test_gpus_that_a_source_counts_and_the_controls_do_not_have_are_told():
    devices = (GpuDeviceRange("a", WattRange(700, 200)), GpuDeviceRange("b", WattRange(700, 200)))
    gpus = SimpleNamespace(gpu_devices=lambda: devices, gpus_without_limit=lambda: ())
    found = HardwareFacts(cpu=CPU, gpu=GPU.model_copy(update={"count": 4}))
    hardware = DiscoveredHardware(NodeHardwareStatus(cpu=found.cpu, gpu=found.gpu))
    assert devices_of(hardware, found, SimpleNamespace(gpu=gpus)).problem == "4 GPUs, of which 2 can be limited"
    found = replace(found, gpu=GPU)
    hardware = DiscoveredHardware(NodeHardwareStatus(cpu=found.cpu, gpu=found.gpu))
    assert devices_of(hardware, found, SimpleNamespace(gpu=gpus)).problem == ""


async def test_watts_of_an_outcome_that_is_in_force_in_part_do_not_count(control, host):
    host.cap = ControlOutcome(ControlResult.ERROR, Reason.PARTLY_APPLIED, "rapl", "1 of 2", 100, total_watts=200)
    tick = await control.tick(replace(ALONE, limit=limit(600)))
    assert (tick.limit.state, tick.limit.in_force_mw, tick.limit.message) == ("NotHeld", None, "CPU: error 1 of 2")


def free_gpu(uuid):
    return {each: HeldAs.FREE if each == uuid else HeldAs.PERFORMANCE for each in "ab"}


async def test_gpus_of_standard_pods_are_served_after_those_of_performance_pods(bench):
    held = {"a": HeldAs.PERFORMANCE, "b": HeldAs.STANDARD}
    for _ in range(2):
        tick = await bench.control.tick(replace(ALONE, limit=limit(1_000), held=held))
    assert (tick.again, bench.limits()) == (False, ([150, 150], [500, 200]))
    # What may be a performance pod's is served as one: nothing moves.
    held = {"a": HeldAs.UNKNOWN, "b": HeldAs.STANDARD}
    tick = await bench.control.tick(replace(ALONE, limit=limit(1_000), held=held))
    assert (tick.again, bench.limits()) == (False, ([150, 150], [500, 200]))


async def test_free_gpus_get_what_the_others_leave(bench):
    await bench.control.tick(replace(ALONE, limit=limit(1_000)))
    assert bench.limits() == ([150, 150], [350, 350])
    tick = await bench.control.tick(replace(ALONE, limit=limit(1_000), held=free_gpu("b")))
    assert tick.again
    tick = await bench.control.tick(replace(ALONE, limit=limit(1_000), held=free_gpu("b")))
    assert (tick.again, bench.limits()) == (False, ([150, 150], [500, 200]))
    assert tick.limit.in_force_mw == 1_000_000


async def test_power_moves_from_one_gpu_to_another_in_two_ticks(bench):
    """The driver sets one after the other: at no moment may the limits add up to more than that of the node."""
    for free in ("b", "b", "a"):
        tick = await bench.control.tick(replace(ALONE, limit=limit(1_000), held=free_gpu(free)))
    # A pod has come to one and another has left the other.
    assert (tick.again, bench.limits()) == (True, ([150, 150], [200, 200]))
    assert tick.limit.in_force_mw == 700_000
    tick = await bench.control.tick(replace(ALONE, limit=limit(1_000), held=free_gpu("a")))
    assert (tick.again, bench.limits()) == (False, ([150, 150], [200, 500]))


async def test_a_lower_limit_holds_at_once_while_power_moves(bench):
    for watts, free in ((1_000, "b"), (1_000, "b"), (800, "a")):
        tick = await bench.control.tick(replace(ALONE, limit=limit(watts), held=free_gpu(free)))
    assert tick.limit.in_force_mw <= 800_000
    tick = await bench.control.tick(replace(ALONE, limit=limit(800), held=free_gpu("a")))
    assert tick.limit.in_force_mw == 800_000


async def test_another_agent_moves_power_in_two_ticks_too(bench):
    for _ in range(2):
        await bench.control.tick(replace(ALONE, limit=limit(1_000), held=free_gpu("b")))
    again = bench.another_control()
    tick = await again.tick(replace(ALONE, limit=limit(1_000), held=free_gpu("a")))
    assert (tick.again, bench.limits()) == (True, ([150, 150], [200, 200]))
    tick = await again.tick(replace(ALONE, limit=limit(1_000), held=free_gpu("a")))
    assert (tick.again, bench.limits()) == (False, ([150, 150], [200, 500]))


def oversubscribed(watts, fallback_watts, *, taken_s=None, **lease) -> FollowedLimit:
    """A limit that counts for 10 s after a sample, and its fallback else."""
    return replace(limit(watts, **lease), hold=LimitHold(round(fallback_watts * 1000), 5.0, 10.0, taken_s))


async def test_the_fallback_is_written_to_every_device_at_the_end_of_the_hold_and_the_limit_comes_back(bench):
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600, taken_s=0.0), now=9.0))
    assert (bench.limits(), tick.limit.state) == (([150, 150], [350, 350]), "AsAsked")
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600, taken_s=0.0), now=10.0))
    assert (bench.limits(), tick.limit.state) == (([100, 100], [200, 200]), "FallingBack")
    assert (tick.limit.in_force_mw, tick.limit.message) == (
        1_000_000,
        "no fresh sample is named: 600 W in the place of 1000 W",
    )
    assert tick.cpu.message == "capped by the power budget of 1000 W for the node, at its fallback of 600 W"
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600, taken_s=11.0), now=12.0))
    assert (bench.limits(), tick.limit.in_force_mw) == (([150, 150], [350, 350]), 1_000_000)


async def test_a_limit_that_was_never_in_force_counts_as_it_would_be(bench):
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600)))
    assert (bench.limits(), tick.limit.in_force_mw) == (([100, 100], [200, 200]), 1_000_000)
    highest = oversubscribed(9_000, 600)
    tick = await bench.control.tick(replace(ALONE, limit=replace(highest, ask=replace(highest.ask, sequence=2))))
    assert tick.limit.in_force_mw == 1_700_000, "no device takes more than its highest limit"


async def test_what_the_limit_held_as_read_back_counts_while_it_falls_back_and_only_under_its_sequence(bench):
    bench.gpus[0].sticks_at_mw = 500_000
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600, taken_s=0.0)))
    assert (tick.limit.state, tick.limit.in_force_mw) == ("HeldHigher", 1_150_000)
    bench.gpus[0].sticks_at_mw = 0
    fallen = oversubscribed(1_000, 600)
    tick = await bench.control.tick(replace(ALONE, limit=fallen))
    assert (tick.limit.state, tick.limit.in_force_mw) == ("FallingBack", 1_150_000)
    later = replace(fallen, ask=replace(fallen.ask, sequence=2))
    tick = await bench.control.tick(replace(ALONE, limit=later))
    assert tick.limit.in_force_mw == 1_000_000


async def test_a_fallback_that_a_gpu_holds_higher_is_refused_with_both_numbers(bench):
    await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600, taken_s=0.0)))
    bench.gpus[0].sticks_at_mw = 350_000
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600)))
    assert (tick.limit.state, tick.limit.refused, tick.limit.in_force_mw) == ("FallbackNotHeld", True, 1_000_000)
    assert tick.limit.message == "600 W are to be held without a fresh sample, and 750 W were read back"
    assert bench.limits() == ([100, 100], [350, 200])


async def test_a_fallback_that_cannot_be_set_is_refused_and_tried_again(bench):
    await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600, taken_s=0.0)))
    bench.library.permitted = False
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600)))
    assert (tick.limit.state, tick.limit.refused, tick.limit.in_force_mw) == ("FallbackNotHeld", True, None)
    assert tick.limit.message.startswith("600 W are to be held without a fresh sample; GPU: ")
    assert bench.limits() == ([100, 100], [350, 350])
    bench.library.permitted = True
    tick = await bench.control.tick(replace(ALONE, limit=oversubscribed(1_000, 600)))
    assert (bench.limits(), tick.limit.state) == (([100, 100], [200, 200]), "FallingBack")
    assert tick.limit.in_force_mw == 1_000_000


async def test_a_profile_below_the_fallback_still_wins(bench):
    target = capped_target().model_copy(update={"cpu": CpuTarget(package_power_cap_watts=70), "gpu": None})
    await bench.control.tick(replace(INPUTS, target=target, limit=oversubscribed(1_000, 600)))
    assert bench.limits() == ([70, 70], [200, 200])


async def test_a_released_lease_lifts_the_fallback_too(bench):
    before = bench.limits()
    fallen = oversubscribed(1_000, 600, keep=False, lease_s=60)
    await bench.control.tick(replace(ALONE, limit=fallen))
    assert bench.limits() != before
    tick = await bench.control.tick(replace(ALONE, limit=fallen, now=60.0))
    assert (bench.limits(), tick.limit.state) == (before, "LeaseEnded")


async def test_power_that_moves_while_a_node_falls_back_is_in_force_nowhere_twice(bench):
    held = {"limit": oversubscribed(1_000, 700, taken_s=0.0), "now": 1.0}
    for _ in range(2):
        await bench.control.tick(replace(ALONE, held=free_gpu("b"), **held))
    assert bench.limits() == ([150, 150], [500, 200])
    tick = await bench.control.tick(replace(ALONE, held=free_gpu("a"), limit=oversubscribed(1_000, 700), now=20.0))
    assert sum(sum(each) for each in bench.limits()) <= 700
    assert tick.limit.in_force_mw == 1_000_000
