import pytest

from joulie_actuator.gpus import GpuHandler
from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.hardware.gpu.device_calls import GpuDeadlines
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.knob_results import RestoreOutcome
from joulie_actuator.protocol import (
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
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.fake_gpu import FakeGpu, FakeGpuLibrary


def caps(**watts):
    return SetGpuCaps(caps_mw={name: round(each * 1000) for name, each in watts.items()}, lease_s=60)


def test_each_gpu_gets_its_own_cap_and_gets_back_what_it_had(gpu_bench):
    a, b = FakeGpu("a", limit_mw=650_000), FakeGpu("b")
    bench = gpu_bench(a, b)
    done = bench.handler.execute(caps(a=400, b=500))
    assert (done.result, done.reason, done.backend, done.enforced_watts) == (
        ControlResult.APPLIED,
        Reason.CAPPED,
        "nvml",
        500,
    )
    assert (a.limit_mw, b.limit_mw, done.total_watts) == (400_000, 500_000, 900)
    assert bench.handler.restore(bench.writer.managed).left == ()
    assert (a.limit_mw, b.limit_mw) == (650_000, 700_000)


def test_a_cap_is_held_within_the_devices_own_range(gpu_bench):
    gpu = FakeGpu("a", min_mw=300_000)
    done = gpu_bench(gpu).handler.execute(caps(a=100))
    assert (done.reason, gpu.limit_mw) == (Reason.CLAMPED, 300_000)
    assert "limited to 300 W" in done.message


def test_the_limit_that_holds_is_reported_as_enforced(gpu_bench):
    assert gpu_bench(FakeGpu("a", imposed_mw=350_000)).handler.execute(caps(a=400)).enforced_watts == 350


def test_a_lost_gpu_is_an_error_and_the_other_is_capped(gpu_bench):
    a, b = FakeGpu("a"), FakeGpu("b")
    bench = gpu_bench(a, b)
    bench.handler.execute(DescribeGpu())
    a.lost = True
    done = bench.handler.execute(caps(a=400, b=400))
    assert (done.result, done.reason) == (ControlResult.ERROR, Reason.DEVICE_LOST)
    assert b.limit_mw == 400_000


def test_a_gpu_that_was_never_here_is_blocked(gpu_bench):
    done = gpu_bench(FakeGpu("a")).handler.execute(caps(b=400))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_DEVICE)


def test_without_permission_a_cap_is_blocked_and_nothing_is_managed(gpu_bench):
    bench = gpu_bench(FakeGpu("a"))
    bench.library.permitted = False
    done = bench.handler.execute(caps(a=400))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NOT_PERMITTED)
    assert bench.writer.managed == frozenset()


def test_a_cap_survives_a_reload_of_the_driver_and_its_default_is_what_is_restored(gpu_bench):
    gpu = FakeGpu("a", limit_mw=600_000)
    bench = gpu_bench(gpu)
    bench.handler.execute(caps(a=400))
    bench.library.reload()
    assert gpu.limit_mw == 700_000
    assert bench.handler.execute(caps(a=400)).result is ControlResult.APPLIED
    assert gpu.limit_mw == 400_000
    assert sum(bench.handler.execute(ReadGpu()).overwritten.values()) == 1
    bench.handler.restore(bench.writer.managed)
    assert gpu.limit_mw == 700_000


def test_a_lost_gpu_stays_managed_until_it_can_be_restored(gpu_bench):
    gpu = FakeGpu("a")
    bench = gpu_bench(gpu)
    bench.handler.execute(caps(a=400))
    gpu.lost = True
    (left,) = bench.handler.restore(bench.writer.managed).left
    assert (left.key, left.reason) == ("gpu/a/power_limit_mw", Reason.DEVICE_LOST)
    assert bench.writer.managed == {"gpu/a/power_limit_mw"}


def test_where_nothing_is_managed_a_restore_opens_no_driver(gpu_bench):
    bench = gpu_bench(FakeGpu("a"))
    assert bench.handler.restore(bench.writer.managed).knobs == ()
    assert bench.library.opened == 0


def test_readings_are_power_and_the_limit_in_force(gpu_bench):
    (figure,) = gpu_bench(FakeGpu("a", power_mw=250_000, limit_mw=500_000)).handler.execute(ReadGpu()).gpus
    assert (figure.uuid, figure.power_mw, figure.limit_mw, figure.failure) == ("a", 250_000, 500_000, None)


def test_energy_counters_are_read_alone_and_one_that_is_missing_is_none(gpu_bench):
    bench = gpu_bench(FakeGpu("a", energy_mj=5_000_000), FakeGpu("b", energy_mj=None))
    bench.handler.execute(ReadGpu())
    answer = bench.handler.execute(ReadGpu(energy_only=True))
    figures = {each.uuid: (each.energy_mj, each.power_mw, each.limit_mw, each.failure) for each in answer.gpus}
    assert figures["a"] == (5_000_000, None, None, None)
    assert figures["b"] == (None, None, None, None)


def test_the_energy_counter_of_a_lost_gpu_has_the_reason(gpu_bench):
    gpu = FakeGpu("a", energy_mj=5_000_000)
    bench = gpu_bench(gpu)
    bench.handler.execute(ReadGpu())
    gpu.lost = True
    (figure,) = bench.handler.execute(ReadGpu(energy_only=True)).gpus
    assert (figure.energy_mj, figure.failure.reason) == (None, Reason.DEVICE_LOST)


def test_moving_figures_make_no_new_revision_and_another_gpu_does(gpu_bench):
    gpu = FakeGpu("a")
    bench = gpu_bench(gpu)
    first = bench.handler.execute(ReadGpu()).revision
    gpu.power_mw, gpu.limit_mw = 1, 300_000
    bench.clock.now += 61
    assert bench.handler.execute(ReadGpu()).revision == first
    bench.library.gpus.append(FakeGpu("b"))
    bench.library.reload()
    bench.clock.now += 61
    assert bench.handler.execute(ReadGpu()).revision == first + 1
    assert [info.uuid for info in bench.handler.execute(DescribeGpu()).devices] == ["a", "b"]


def test_a_machine_without_a_driver_reports_the_reason(gpu_bench):
    bench = gpu_bench()
    bench.library.loaded = False
    described = bench.handler.execute(DescribeGpu())
    assert described.devices == ()
    assert described.failures["nvml"].reason is Reason.NO_INTERFACE
    assert bench.handler.execute(caps(a=400)).reason is Reason.NO_DEVICE


def test_a_gpu_that_hangs_is_reported_and_the_other_is_capped_and_restored(writer, clock):
    a, b = FakeGpu("a"), FakeGpu("b")
    driver = LibraryDriver(FakeGpuLibrary([a, b]), deadlines=GpuDeadlines(open_wait_s=5, call_s=0.2))
    handler = GpuHandler(drivers=[driver], writer=writer, clock=clock)
    handler.execute(caps(a=400, b=400))
    a.answering.clear()
    try:
        clock.now += 61
        done = handler.execute(caps(a=300, b=300))
        assert (done.result, done.reason, b.limit_mw) == (ControlResult.ERROR, Reason.TIMEOUT, 300_000)
        hung, well = handler.execute(DescribeGpu()).devices
        assert (hung.uuid, hung.failure.reason, well.failure) == ("a", Reason.TIMEOUT, None)
        (left,) = handler.restore(writer.managed).left
        assert (left.key, left.outcome, b.limit_mw) == ("gpu/a/power_limit_mw", RestoreOutcome.FAILED, 700_000)
    finally:
        a.answering.set()
    driver.close()


def test_while_its_driver_is_being_opened_a_gpu_is_not_absent(writer, clock):
    library = FakeGpuLibrary([FakeGpu("a")])
    driver = LibraryDriver(library, deadlines=GpuDeadlines(open_wait_s=0.05))
    handler = GpuHandler(drivers=[driver], writer=writer, clock=clock)
    library.answering.clear()
    try:
        done = handler.execute(caps(a=400))
        assert (done.result, done.reason) == (ControlResult.ERROR, Reason.TIMEOUT)
        assert "is being opened" in done.message
    finally:
        library.answering.set()
    while handler.execute(caps(a=400)).reason is Reason.TIMEOUT:
        pass
    assert library.gpus[0].limit_mw == 400_000


def test_without_a_journal_nothing_is_written(gpu_bench):
    gpu = FakeGpu("a")
    bench = gpu_bench(gpu)
    bench.handler.writer = HardwareFailure(Reason.NO_JOURNAL, "damaged")
    assert bench.handler.execute(caps(a=400)).reason is Reason.NO_JOURNAL
    assert gpu.limit_mw == 700_000


def test_more_than_64_gpus_are_capped_and_restored_by_one_request_that_fits_in_a_line(gpu_bench):
    gpus = [FakeGpu(f"GPU-8f6d2c11-0b3e-4a57-9c1d-2f4e6a8b0{index:03}") for index in range(130)]
    bench = gpu_bench(*gpus)
    request = decode_request(encode(SetGpuCaps(caps_mw={gpu.uuid: 400_000 for gpu in gpus}, lease_s=60)))
    assert bench.handler.execute(request).result is ControlResult.APPLIED
    assert {gpu.limit_mw for gpu in gpus} == {400_000}
    description = encode(bench.handler.execute(DescribeGpu()))
    assert len(description) / len(gpus) * MOST_GPUS < LINE_LIMIT
    assert len(decode_reply(description).devices) == 130
    assert bench.handler.restore(bench.writer.managed).left == ()
    assert {gpu.limit_mw for gpu in gpus} == {700_000}


def test_a_cap_at_the_end_of_the_range_leaves_a_lower_limit_of_an_administrator_alone(gpu_bench):
    gpu = FakeGpu("a", limit_mw=300_000)
    bench = gpu_bench(gpu)
    done = bench.handler.execute(caps(a=700))
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.RESTORED, 300)
    assert done.message == "no limit is set on gpu/a/power_limit_mw: 700 W is not below the maximum of its range, 700 W"
    assert (gpu.limit_mw, bench.library.writes, bench.writer.managed) == (300_000, 0, frozenset())


def test_a_cap_that_is_raised_to_the_end_of_the_range_restores_what_was_found(gpu_bench):
    a, b = FakeGpu("a", limit_mw=650_000), FakeGpu("b", max_mw=750_000, limit_mw=300_000)
    bench = gpu_bench(a, b)
    bench.handler.execute(caps(a=400, b=250))
    done = bench.handler.execute(caps(a=700, b=700))
    assert (done.result, a.limit_mw) == (ControlResult.APPLIED, 650_000)
    assert bench.writer.managed <= {"gpu/b/power_limit_mw"}


def test_a_limit_that_the_driver_keeps_higher_than_requested_is_not_applied(gpu_bench):
    done = gpu_bench(FakeGpu("a", sticks_at_mw=600_000)).handler.execute(caps(a=400))
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.BLOCKED, Reason.HELD_BY_FIRMWARE, 600)
    assert done.total_watts == 600
    assert "600 W where 400 W" in done.message


def test_a_lower_external_limit_is_not_raised_by_a_cap_and_is_reported(gpu_bench):
    gpu = FakeGpu("a", limit_mw=300_000)
    bench = gpu_bench(gpu)
    done = bench.handler.execute(caps(a=400))
    assert (done.result, done.enforced_watts, gpu.limit_mw) == (ControlResult.APPLIED, 300, 300_000)
    assert "gpu/a/power_limit_mw" in done.message
    assert bench.writer.managed == frozenset()


def clocks(**mhz):
    return SetGpuClocks(clocks_mhz=mhz, lease_s=60)


@pytest.fixture(params=[False, True], ids=["remembered", "reported"])
def clock_bench(gpu_bench, request):
    """GPUs of a vendor that tells no clock limit, and of one that does."""

    def make(*gpus):
        bench = gpu_bench(*gpus)
        bench.library.reports_clock = request.param
        bench.handler.execute(DescribeGpu())
        return bench

    return make


def test_a_clock_is_limited_reported_and_restored_when_it_is_left_out(clock_bench):
    a, b = FakeGpu("a"), FakeGpu("b")
    bench = clock_bench(a, b)
    done = bench.handler.execute(clocks(a=1200, b=900))
    assert (done.result, done.reason, done.backend) == (ControlResult.APPLIED, Reason.CLOCKS_LIMITED, "nvml")
    b.clock_bound = ClockBound.POWER_LIMIT
    figures = bench.handler.execute(ReadGpu()).gpus
    assert [figure.clock_limit_mhz for figure in figures] == [1200, 900]
    assert [figure.clock_bound for figure in figures] == [ClockBound.CLOCK_LIMIT, ClockBound.POWER_LIMIT]
    assert bench.handler.execute(clocks(b=1000)).result is ControlResult.APPLIED
    assert (a.clock_mhz, b.clock_mhz) == (1980, 1000)
    assert bench.writer.managed == {"gpu/b/graphics_clock_mhz"}
    assert bench.handler.execute(clocks()).reason is Reason.RESTORED
    assert (b.clock_mhz, bench.writer.managed) == (1980, frozenset())


def test_a_restore_restores_clocks_and_power_limits(clock_bench):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.handler.execute(caps(a=400))
    bench.handler.execute(clocks(a=1200))
    assert bench.handler.restore(bench.writer.managed).left == ()
    assert (gpu.limit_mw, gpu.clock_mhz, bench.writer.managed) == (700_000, 1980, frozenset())


def test_a_clock_that_a_killed_actuator_left_limited_is_restored_by_the_next(clock_bench, tmp_path, clock):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.handler.execute(clocks(a=1200))
    library = bench.library
    with Journal.open(tmp_path / "next") as journal:
        journal.change(bench.writer._journal.entries)
        handler = GpuHandler(drivers=[LibraryDriver(library)], writer=JournaledWriter(journal), clock=clock)
        assert handler.execute(ReadGpu()).gpus[0].clock_limit_mhz == 1200
        assert handler.execute(DescribeGpu()).devices[0].highest_mhz == 1980, "and not the managed limit"
        assert handler.restore(handler.writer.managed).left == ()
    assert gpu.clock_mhz == 1980


def test_a_limit_that_a_reload_of_the_driver_has_ended_is_in_force_again_at_the_next_request(clock_bench):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.handler.execute(clocks(a=1200))
    bench.library.reload()
    assert gpu.clock_mhz == 1980
    assert bench.handler.execute(clocks(a=1200)).result is ControlResult.APPLIED
    assert gpu.clock_mhz == 1200
    bench.handler.restore(bench.writer.managed)
    assert gpu.clock_mhz == 1980


def test_power_limits_alone_release_clocks_that_an_earlier_controller_has_limited(clock_bench):
    gpu = FakeGpu("a")
    bench = clock_bench(gpu)
    bench.handler.execute(clocks(a=1200))
    assert bench.handler.execute(caps(a=400)).result is ControlResult.APPLIED
    assert gpu.clock_mhz == 1200, "a controller that limits both says when one is not wanted"
    bench.handler.execute(SetGpuCaps(caps_mw={"a": 400_000}, lease_s=60, release_clocks=True))
    assert (gpu.clock_mhz, gpu.limit_mw) == (1980, 400_000)


def test_clocks_that_an_external_writer_controls_are_left_alone(clock_bench):
    gpu = FakeGpu("a", clock_taken=True)
    done = clock_bench(gpu).handler.execute(clocks(a=1200))
    assert (done.reason, gpu.clock_mhz) == (Reason.REFUSED, 1980)


def test_without_permission_a_clock_limit_is_blocked_and_nothing_is_managed(clock_bench):
    bench = clock_bench(FakeGpu("a"))
    bench.library.clock_permitted = False
    done = bench.handler.execute(clocks(a=1200))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NOT_PERMITTED)
    assert bench.writer.managed == frozenset()


def test_a_gpu_without_a_range_of_clocks_is_blocked(clock_bench):
    done = clock_bench(FakeGpu("a", lowest_mhz=None)).handler.execute(clocks(a=1200))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_INTERFACE)


def test_a_clock_limit_that_reads_differently_is_reset_and_fails(gpu_bench):
    gpu = FakeGpu("a", clock_hidden=True)
    bench = gpu_bench(gpu)
    bench.library.reports_clock = True
    bench.handler.execute(DescribeGpu())
    done = bench.handler.execute(clocks(a=1200))
    assert (done.result, done.reason, gpu.clock_mhz) == (ControlResult.BLOCKED, Reason.NO_INTERFACE, 1980)
    assert bench.writer.managed == frozenset()
