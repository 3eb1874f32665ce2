import pytest

from joulie_agent.actuator.gpus import GpuHandler
from joulie_agent.actuator.protocol import (
    LINE_LIMIT,
    MOST_GPUS,
    DescribeGpu,
    ReadGpu,
    SetGpuCaps,
    SetGpuClocks,
    decode_reply,
    decode_request,
    encode,
)
from joulie_agent.hardware.gpu.device_calls import GpuDeadlines
from joulie_agent.hardware.gpu.library_driver import LibraryDriver
from joulie_agent.hardware.journal import Journal
from joulie_agent.hardware.journaled_writer import JournaledWriter, RestoreOutcome
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.reasons import Reason
from joulie_agent.testing.fake_gpu import FakeGpu, FakeGpuLibrary
from joulie_core.control_result import ControlResult


def caps(**watts):
    return SetGpuCaps(caps_mw={name: round(each * 1000) for name, each in watts.items()}, lease_s=60)


def test_each_gpu_gets_its_own_cap_and_gets_back_what_it_had(gpu_bench):
    a, b = FakeGpu("a", limit_mw=650_000), FakeGpu("b")
    bench = gpu_bench(a, b)
    done = bench.part.carry_out(caps(a=400, b=500))
    assert (done.result, done.reason, done.backend, done.enforced_watts) == (
        ControlResult.APPLIED,
        Reason.CAPPED,
        "nvml",
        500,
    )
    assert (a.limit_mw, b.limit_mw) == (400_000, 500_000)
    assert bench.part.restore(bench.hands.held).left == ()
    assert (a.limit_mw, b.limit_mw) == (650_000, 700_000)


def test_a_cap_is_held_within_the_devices_own_range(gpu_bench):
    gpu = FakeGpu("a", min_mw=300_000)
    done = gpu_bench(gpu).part.carry_out(caps(a=100))
    assert (done.reason, gpu.limit_mw) == (Reason.CLAMPED, 300_000)
    assert "held at 300 W" in done.message


def test_the_limit_that_holds_is_reported_as_enforced(gpu_bench):
    assert gpu_bench(FakeGpu("a", imposed_mw=350_000)).part.carry_out(caps(a=400)).enforced_watts == 350


def test_a_lost_gpu_is_an_error_and_the_other_is_capped(gpu_bench):
    a, b = FakeGpu("a"), FakeGpu("b")
    bench = gpu_bench(a, b)
    bench.part.carry_out(DescribeGpu())
    a.lost = True
    done = bench.part.carry_out(caps(a=400, b=400))
    assert (done.result, done.reason) == (ControlResult.ERROR, Reason.DEVICE_LOST)
    assert b.limit_mw == 400_000


def test_a_gpu_that_was_never_here_is_blocked(gpu_bench):
    done = gpu_bench(FakeGpu("a")).part.carry_out(caps(b=400))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_DEVICE)


def test_without_permission_a_cap_is_blocked_and_nothing_stays_in_charge(gpu_bench):
    bench = gpu_bench(FakeGpu("a"))
    bench.library.permitted = False
    done = bench.part.carry_out(caps(a=400))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NOT_PERMITTED)
    assert bench.hands.held == frozenset()


def test_a_cap_survives_a_reload_of_the_driver_and_its_default_is_what_is_given_back(gpu_bench):
    gpu = FakeGpu("a", limit_mw=600_000)
    bench = gpu_bench(gpu)
    bench.part.carry_out(caps(a=400))
    bench.library.reload()
    assert gpu.limit_mw == 700_000
    assert bench.part.carry_out(caps(a=400)).result is ControlResult.APPLIED
    assert gpu.limit_mw == 400_000
    assert sum(bench.part.carry_out(ReadGpu()).overwritten.values()) == 1
    bench.part.restore(bench.hands.held)
    assert gpu.limit_mw == 700_000


def test_a_lost_gpu_stays_in_charge_until_it_can_be_given_back(gpu_bench):
    gpu = FakeGpu("a")
    bench = gpu_bench(gpu)
    bench.part.carry_out(caps(a=400))
    gpu.lost = True
    (left,) = bench.part.restore(bench.hands.held).left
    assert (left.key, left.reason) == ("gpu/a/power_limit_mw", Reason.DEVICE_LOST)
    assert bench.hands.held == {"gpu/a/power_limit_mw"}


def test_where_nothing_is_in_charge_giving_back_opens_no_driver(gpu_bench):
    bench = gpu_bench(FakeGpu("a"))
    assert bench.part.restore(bench.hands.held).knobs == ()
    assert bench.library.opened == 0


def test_readings_are_power_and_the_limit_in_force(gpu_bench):
    (figure,) = gpu_bench(FakeGpu("a", power_mw=250_000, limit_mw=500_000)).part.carry_out(ReadGpu()).gpus
    assert (figure.uuid, figure.power_mw, figure.limit_mw, figure.refusal) == ("a", 250_000, 500_000, None)


def test_moving_figures_make_no_new_revision_and_another_gpu_does(gpu_bench):
    gpu = FakeGpu("a")
    bench = gpu_bench(gpu)
    first = bench.part.carry_out(ReadGpu()).revision
    gpu.power_mw, gpu.limit_mw = 1, 300_000
    bench.clock.now += 61
    assert bench.part.carry_out(ReadGpu()).revision == first
    bench.library.gpus.append(FakeGpu("b"))
    bench.library.reload()
    bench.clock.now += 61
    assert bench.part.carry_out(ReadGpu()).revision == first + 1
    assert [info.uuid for info in bench.part.carry_out(DescribeGpu()).devices] == ["a", "b"]


def test_a_machine_without_a_driver_says_why(gpu_bench):
    bench = gpu_bench()
    bench.library.loaded = False
    described = bench.part.carry_out(DescribeGpu())
    assert described.devices == ()
    assert described.refusals["nvml"].reason is Reason.NO_INTERFACE
    assert bench.part.carry_out(caps(a=400)).reason is Reason.NO_DEVICE


def test_a_gpu_that_hangs_is_told_and_remembered_and_the_other_is_capped_and_restored(hands, clock):
    a, b = FakeGpu("a"), FakeGpu("b")
    driver = LibraryDriver(FakeGpuLibrary([a, b]), deadlines=GpuDeadlines(open_wait_s=5, call_s=0.2))
    part = GpuHandler(drivers=[driver], hands=hands, clock=clock)
    part.carry_out(caps(a=400, b=400))
    a.answering.clear()
    try:
        clock.now += 61
        done = part.carry_out(caps(a=300, b=300))
        assert (done.result, done.reason, b.limit_mw) == (ControlResult.ERROR, Reason.TIMEOUT, 300_000)
        hung, well = part.carry_out(DescribeGpu()).devices
        assert (hung.uuid, hung.refusal.reason, well.refusal) == ("a", Reason.TIMEOUT, None)
        (left,) = part.restore(hands.held).left
        assert (left.key, left.outcome, b.limit_mw) == ("gpu/a/power_limit_mw", RestoreOutcome.REFUSED, 700_000)
    finally:
        a.answering.set()
    driver.close()


def test_while_its_driver_is_being_opened_a_gpu_is_not_said_to_be_absent(hands, clock):
    library = FakeGpuLibrary([FakeGpu("a")])
    driver = LibraryDriver(library, deadlines=GpuDeadlines(open_wait_s=0.05))
    part = GpuHandler(drivers=[driver], hands=hands, clock=clock)
    library.answering.clear()
    try:
        done = part.carry_out(caps(a=400))
        assert (done.result, done.reason) == (ControlResult.ERROR, Reason.TIMEOUT)
        assert "is being opened" in done.message
    finally:
        library.answering.set()
    while part.carry_out(caps(a=400)).reason is Reason.TIMEOUT:
        pass
    assert library.gpus[0].limit_mw == 400_000


def test_without_a_journal_nothing_is_written(gpu_bench):
    gpu = FakeGpu("a")
    bench = gpu_bench(gpu)
    bench.part.hands = HardwareFailure(Reason.NO_JOURNAL, "damaged")
    assert bench.part.carry_out(caps(a=400)).reason is Reason.NO_JOURNAL
    assert gpu.limit_mw == 700_000


def test_more_than_64_gpus_are_capped_and_restored_by_one_request_that_fits_in_a_line(gpu_bench):
    gpus = [FakeGpu(f"GPU-8f6d2c11-0b3e-4a57-9c1d-2f4e6a8b0{index:03}") for index in range(130)]
    bench = gpu_bench(*gpus)
    request = decode_request(encode(SetGpuCaps(caps_mw={gpu.uuid: 400_000 for gpu in gpus}, lease_s=60)))
    assert bench.part.carry_out(request).result is ControlResult.APPLIED
    assert {gpu.limit_mw for gpu in gpus} == {400_000}
    description = encode(bench.part.carry_out(DescribeGpu()))
    assert len(description) / len(gpus) * MOST_GPUS < LINE_LIMIT
    assert len(decode_reply(description).devices) == 130
    assert bench.part.restore(bench.hands.held).left == ()
    assert {gpu.limit_mw for gpu in gpus} == {700_000}


def test_a_cap_at_the_end_of_the_range_leaves_a_lower_limit_of_an_administrator_alone(gpu_bench):
    gpu = FakeGpu("a", limit_mw=300_000)
    bench = gpu_bench(gpu)
    done = bench.part.carry_out(caps(a=700))
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.RESTORED, 300)
    assert done.message == "no limit is set on gpu/a/power_limit_mw: 700 W is not below the end of its range, 700 W"
    assert (gpu.limit_mw, bench.library.writes, bench.hands.held) == (300_000, 0, frozenset())


def test_a_cap_that_is_raised_to_the_end_of_the_range_restores_what_was_found(gpu_bench):
    a, b = FakeGpu("a", limit_mw=650_000), FakeGpu("b", max_mw=750_000, limit_mw=300_000)
    bench = gpu_bench(a, b)
    bench.part.carry_out(caps(a=400, b=250))
    done = bench.part.carry_out(caps(a=700, b=700))
    assert (done.result, a.limit_mw) == (ControlResult.APPLIED, 650_000)
    assert bench.hands.held <= {"gpu/b/power_limit_mw"}


def test_a_limit_that_the_driver_keeps_higher_than_asked_is_not_reported_as_applied(gpu_bench):
    done = gpu_bench(FakeGpu("a", sticks_at_mw=600_000)).part.carry_out(caps(a=400))
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.BLOCKED, Reason.HELD_BY_FIRMWARE, 600)
    assert "600 W where 400 W" in done.message


def test_a_lower_limit_of_an_administrator_is_not_raised_by_a_cap_and_is_told(gpu_bench):
    gpu = FakeGpu("a", limit_mw=300_000)
    bench = gpu_bench(gpu)
    done = bench.part.carry_out(caps(a=400))
    assert (done.result, done.enforced_watts, gpu.limit_mw) == (ControlResult.APPLIED, 300, 300_000)
    assert "gpu/a/power_limit_mw" in done.message
    assert bench.hands.held == frozenset()


def clocks(**mhz):
    return SetGpuClocks(clocks_mhz=mhz, lease_s=60)


@pytest.fixture(params=[False, True], ids=["remembered", "told"])
def clock_bench(gpu_bench, request):
    """GPUs of a vendor that tells no clock limit, and of one that does."""

    def make(*gpus):
        bench = gpu_bench(*gpus)
        bench.library.tells_clock = request.param
        bench.part.carry_out(DescribeGpu())
        return bench

    return make


def test_a_clock_is_limited_told_and_restored_where_it_is_not_named_any_longer(clock_bench):
    a, b = FakeGpu("a"), FakeGpu("b")
    bench = clock_bench(a, b)
    done = bench.part.carry_out(clocks(a=1200, b=900))
    assert (done.result, done.reason, done.backend) == (ControlResult.APPLIED, Reason.CLOCKS_LIMITED, "nvml")
    assert [figure.clock_limit_mhz for figure in bench.part.carry_out(ReadGpu()).gpus] == [1200, 900]
    assert bench.part.carry_out(clocks(b=1000)).result is ControlResult.APPLIED
    assert (a.clock_mhz, b.clock_mhz) == (1980, 1000)
    assert bench.hands.held == {"gpu/b/graphics_clock_mhz"}
    assert bench.part.carry_out(clocks()).reason is Reason.RESTORED
    assert (b.clock_mhz, bench.hands.held) == (1980, frozenset())


def test_a_restore_gives_back_clocks_and_power_limits(clock_bench):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.part.carry_out(caps(a=400))
    bench.part.carry_out(clocks(a=1200))
    assert bench.part.restore(bench.hands.held).left == ()
    assert (gpu.limit_mw, gpu.clock_mhz, bench.hands.held) == (700_000, 1980, frozenset())


def test_a_clock_that_a_killed_actuator_left_limited_is_restored_by_the_next(clock_bench, tmp_path, clock):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.part.carry_out(clocks(a=1200))
    library = bench.library
    with Journal.open(tmp_path / "next") as journal:
        journal.change(bench.hands._journal.entries)
        part = GpuHandler(drivers=[LibraryDriver(library)], hands=JournaledWriter(journal), clock=clock)
        assert part.carry_out(ReadGpu()).gpus[0].clock_limit_mhz == 1200
        assert part.carry_out(DescribeGpu()).devices[0].highest_mhz == 1980, "and not the limit of ours"
        assert part.restore(part.hands.held).left == ()
    assert gpu.clock_mhz == 1980


def test_a_limit_that_a_reload_of_the_driver_has_ended_is_in_force_again_at_the_next_request(clock_bench):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.part.carry_out(clocks(a=1200))
    bench.library.reload()
    assert gpu.clock_mhz == 1980
    assert bench.part.carry_out(clocks(a=1200)).result is ControlResult.APPLIED
    assert gpu.clock_mhz == 1200
    bench.part.restore(bench.hands.held)
    assert gpu.clock_mhz == 1980


def test_power_limits_alone_release_clocks_that_an_earlier_controller_has_limited(clock_bench):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.part.carry_out(clocks(a=1200))
    assert bench.part.carry_out(caps(a=400)).result is ControlResult.APPLIED
    assert gpu.clock_mhz == 1200, "a controller that limits both says when one is not wanted"
    bench.part.carry_out(SetGpuCaps(caps_mw={"a": 400_000}, lease_s=60, release_clocks=True))
    assert (gpu.clock_mhz, gpu.limit_mw) == (1980, 400_000)


def test_clocks_that_an_external_writer_controls_are_left_alone(clock_bench):
    gpu = FakeGpu("a", clock_taken=True)
    done = clock_bench(gpu).part.carry_out(clocks(a=1200))
    assert (done.reason, gpu.clock_mhz) == (Reason.REFUSED, 1980)


def test_without_permission_a_clock_limit_is_blocked_and_nothing_stays_in_charge(clock_bench):
    bench = clock_bench(FakeGpu("a"))
    bench.library.clock_permitted = False
    done = bench.part.carry_out(clocks(a=1200))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NOT_PERMITTED)
    assert bench.hands.held == frozenset()


def test_a_gpu_without_a_range_of_clocks_is_blocked(clock_bench):
    done = clock_bench(FakeGpu("a", lowest_mhz=None)).part.carry_out(clocks(a=1200))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_INTERFACE)


def test_a_driver_that_takes_a_limit_and_tells_another_is_put_back_and_refused(gpu_bench):
    gpu = FakeGpu("a", clock_hidden=True)
    bench = gpu_bench(gpu)
    bench.library.tells_clock = True
    bench.part.carry_out(DescribeGpu())
    done = bench.part.carry_out(clocks(a=1200))
    assert (done.result, done.reason, gpu.clock_mhz) == (ControlResult.BLOCKED, Reason.NO_INTERFACE, 1980)
    assert bench.hands.held == frozenset()
