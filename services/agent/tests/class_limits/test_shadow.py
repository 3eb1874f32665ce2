"""Limits that GPUs would have, over passes of a node's worker."""

import pytest

from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_agent.backends.base import GpuReading, GpuSample
from joulie_agent.class_limits.metrics import limit_families
from joulie_agent.class_limits.report import limit_reports
from joulie_agent.class_limits.shadow import MOST_COUNTED_S, ShadowLimits, ShadowSources, is_limited
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.gpu_limits import LimitReason
from joulie_core.class_caps.held_clock import LEAST_SAMPLES
from joulie_core.class_caps.held_limit import HolderPods
from joulie_core.class_caps.limit_effect import NO_EFFECT, EffectBand, NotStated
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import HeldDevice, Holder
from joulie_core.holders.records import HolderReason, NodePod
from joulie_core.kinds.held_devices import BandReport
from joulie_core.kinds.node_hardware import GpuDevice, GpuHardware, NodeHardwareStatus
from joulie_core.kinds.telemetry_profile import ControlReport

NOTHING = ControlReport(reason="NoIntent")
RESTORED = ControlReport(result="applied", reason="Restored")
CAPPED = ControlReport(result="applied", reason="Capped")
FAILED = ControlReport(result="error", reason="Timeout")
A100 = "NVIDIA A100 PCIe 80GB"
POD = NodePod("ml", "train", "u", True, WorkloadClass.STANDARD, 0.0, max_slowdown="10%")


def held(held_as=HeldAs.STANDARD, uuid="GPU-a"):
    holders = (Holder("ml", "train", "main", WorkloadClass.STANDARD),) if held_as is HeldAs.STANDARD else ()
    return HeldDevice(uuid, 0, held_as, HolderReason.ALL_STANDARD, "", holders)


class Machine:
    """What limits depend on; a test changes it between two passes."""

    def __init__(self):
        self.held = (held(),)
        self.pods = HolderPods({POD.key: POD}, {"ml": {}}.get)
        self.clocks = {"GPU-a": ClockRange(210, 1410)}
        self.model = A100
        self.report = NOTHING
        self.sample = {"clock_mhz": 1410, "busy_share": 1.0, "power_watts": 290.0, "clock_bound": ClockBound.NONE}
        self.now_s = 0.0
        self.limits = ShadowLimits(
            ShadowSources(lambda: self.held, lambda: self.pods, lambda: self.clocks), Inventory.load()
        )

    def step(self, times=1, **sample):
        self.sample |= sample
        for _ in range(times):
            self.now_s += 20.0
            devices = tuple(GpuDevice(uuid=each, index=0, model=self.model) for each in self.clocks)
            hardware = NodeHardwareStatus(gpu=GpuHardware(devices=devices))
            reading = GpuReading(gpus=tuple(GpuSample(each, **self.sample) for each in self.clocks))
            state = self.limits.step(reading, self.report, hardware, self.now_s)
        return state

    def limit(self, **sample):
        return self.step(**sample).limits["GPU-a"]

    def reason(self, **sample):
        return self.limit(**sample).held.limit.reason


@pytest.fixture
def machine():
    return Machine()


def series(machine):
    return {
        (family.name, *sample.labels.values()): sample.value
        for family in limit_families({"n1": machine.limits.state})
        for sample in family.samples
    }


def test_a_gpu_is_limited_as_soon_as_its_clock_was_measured(machine):
    assert machine.reason() is LimitReason.HELD_CLOCK_UNKNOWN
    machine.step(times=LEAST_SAMPLES - 2)
    assert machine.reason() is LimitReason.CLOCK_LIMITED
    # 1410 / 1.1, rounded up.
    assert machine.limit().held.limit.clock_mhz == 1282


@pytest.mark.parametrize("report", [CAPPED, FAILED, ControlReport(result="blocked", reason="Refused")])
def test_no_clock_is_measured_under_a_limit_of_joulies_or_where_that_is_not_known(machine, report):
    machine.report = report
    machine.step(times=2 * LEAST_SAMPLES)
    assert machine.reason() is LimitReason.HELD_CLOCK_UNKNOWN


def test_no_clock_is_measured_under_a_clock_limit_of_joulies(machine):
    machine.step(times=2 * LEAST_SAMPLES, clock_limit_mhz=1200, clock_mhz=1200)
    assert machine.reason() is LimitReason.HELD_CLOCK_UNKNOWN
    assert machine.limit().in_force_mhz == 1200


def test_a_target_that_limits_nothing_is_no_limit(machine):
    machine.report = RESTORED
    machine.step(times=LEAST_SAMPLES)
    assert machine.reason() is LimitReason.CLOCK_LIMITED


@pytest.mark.parametrize("sample", [{"busy_share": None}, {"busy_share": 0.2}, {"clock_mhz": None}])
def test_without_load_or_a_reading_of_it_the_held_clock_stays_unknown(machine, sample):
    machine.step(times=2 * LEAST_SAMPLES, **sample)
    assert machine.reason() is LimitReason.HELD_CLOCK_UNKNOWN


def test_a_restart_forgets_the_held_clock(machine):
    machine.step(times=LEAST_SAMPLES)
    assert Machine().reason() is LimitReason.HELD_CLOCK_UNKNOWN


def test_a_gpu_that_leaves_is_forgotten(machine):
    machine.step(times=LEAST_SAMPLES)
    machine.held = ()
    assert machine.step().limits == {}
    machine.held = (held(),)
    assert machine.reason() is LimitReason.HELD_CLOCK_UNKNOWN


@pytest.mark.parametrize(
    ("held_as", "reason"),
    [
        (HeldAs.FREE, LimitReason.FREE),
        (HeldAs.PERFORMANCE, LimitReason.NO_SLOWDOWN_ALLOWED),
        (HeldAs.OUTSIDE, LimitReason.OUTSIDE_PROCESS),
        (HeldAs.UNKNOWN, LimitReason.HOLDER_UNKNOWN),
    ],
)
def test_only_a_gpu_of_standard_pods_is_limited(machine, held_as, reason):
    machine.step(times=LEAST_SAMPLES)
    machine.held = (held(held_as),)
    found = machine.limit()
    assert (found.held.limit.reason, found.effect, is_limited(found)) == (reason, None, False)


def test_pods_that_are_not_known_make_a_holder_unknown(machine):
    machine.step(times=LEAST_SAMPLES)
    machine.pods = None
    assert machine.reason() is LimitReason.HOLDER_UNKNOWN


def test_the_clusters_default_applies_where_pod_and_namespace_are_silent(machine):
    silent = NodePod("ml", "train", "u", True, WorkloadClass.STANDARD, 0.0)
    machine.step(times=LEAST_SAMPLES)
    machine.pods = HolderPods({POD.key: silent}, {"ml": {}}.get)
    assert machine.reason() is LimitReason.NO_SLOWDOWN_ALLOWED
    machine.pods = HolderPods({POD.key: silent}, {"ml": {}}.get, AllowedSlowdown.QUARTER)
    assert machine.limit().held.allowed is AllowedSlowdown.QUARTER


def test_a_model_that_was_not_swept_is_limited_and_its_watts_are_not_stated(machine):
    machine.model = "NVIDIA H100 80GB HBM3"
    machine.step(times=LEAST_SAMPLES)
    found = machine.limit()
    assert found.held.limit.clock_mhz == 1282
    assert found.effect.saved_watts is NotStated.MODEL_NOT_SWEPT
    machine.model = "a GPU of tomorrow"
    assert machine.limit().held.limit.clock_mhz == 1282


def test_where_clocks_cannot_be_limited_a_known_model_has_a_power_limit(machine):
    machine.clocks = {}
    assert machine.reason() is LimitReason.MODEL_UNKNOWN, "no hardware names it"


def test_an_idle_gpu_saves_nothing_even_where_its_driver_has_no_busy_time(machine):
    machine.step(times=LEAST_SAMPLES)
    assert machine.limit(busy_share=None, clock_bound=ClockBound.IDLE).effect == NO_EFFECT
    assert machine.limit(busy_share=None, clock_bound=ClockBound.NONE).effect.saved_watts is NotStated.NOT_MEASURED


def test_seconds_of_slowdown_are_counted_for_time_that_was_seen(machine):
    machine.step(times=LEAST_SAMPLES)
    before = machine.limits.state.counts
    effect = machine.limit().effect
    after = machine.limits.state.counts
    upper_s = 20.0 * effect.slowdown_pct.upper / 100
    assert after.slowdown_upper_s - before.slowdown_upper_s == pytest.approx(upper_s)
    machine.now_s += 10_000.0
    machine.step()
    assert machine.limits.state.counts.slowdown_upper_s - after.slowdown_upper_s == pytest.approx(
        MOST_COUNTED_S * effect.slowdown_pct.upper / 100
    )
    machine.step(clock_mhz=None)
    assert machine.limits.state.counts.unstated_s == 20.0


def test_series_count_gpus_by_reason_and_sum_bands(machine):
    machine.clocks = {uuid: ClockRange(210, 1410) for uuid in ("GPU-a", "GPU-b")}
    machine.held = (held(), held(HeldAs.FREE, "GPU-b"))
    machine.step(times=LEAST_SAMPLES)
    found, effect = series(machine), machine.limits.state.limits["GPU-a"].effect

    assert found["joulie_class_limit_gpus", "n1", "true", "ClockLimited"] == 1
    assert found["joulie_class_limit_gpus", "n1", "false", "Free"] == 1
    assert found["joulie_class_limit_saved_watts", "n1", "upper"] == effect.saved_watts.upper > 0
    assert found["joulie_class_limit_saved_watts", "n1", "lower"] == effect.saved_watts.lower > 0
    assert found["joulie_class_limit_slowdown_seconds", "n1", "upper"] > 0
    assert ("joulie_class_limit_unstated_gpus", "n1", "NotMeasured") not in found


def test_series_of_what_is_not_stated_have_no_upper_end(machine):
    machine.step(times=LEAST_SAMPLES)
    machine.step(power_watts=None)
    found = series(machine)
    assert found["joulie_class_limit_saved_watts", "n1", "lower"] == 0
    assert ("joulie_class_limit_saved_watts", "n1", "upper") not in found
    assert found["joulie_class_limit_unstated_gpus", "n1", "NotMeasured"] == 1


def test_before_holders_are_known_there_is_no_count_and_no_saving(machine):
    machine.held = None
    assert machine.step().limits is None
    assert {name for name, *_ in series(machine)} == {
        "joulie_class_limit_slowdown_seconds",
        "joulie_class_limit_unstated_seconds",
    }
    assert limit_reports(machine.limits.state) == {}


def test_the_report_has_the_decision_and_what_it_would_change(machine):
    machine.step(times=LEAST_SAMPLES)
    (report,) = limit_reports(machine.limits.state).values()

    assert (report.reason, report.clock_mhz, report.watts, report.allowed_slowdown) == (
        "ClockLimited",
        1282,
        None,
        "10%",
    )
    assert (report.held_clock_mhz, report.now.clock_bound, report.now.limited) == (1410, "none", False)
    assert 0 < report.now.saved_watts.lower < report.now.saved_watts.upper < 290
    assert report.now.slowdown_pct == BandReport(lower=0.0, upper=10.0)
    assert isinstance(machine.limits.state.limits["GPU-a"].effect.slowdown_pct, EffectBand)


def test_the_report_tells_a_limit_in_force_from_none_and_from_one_that_is_not_known(machine):
    machine.step(times=LEAST_SAMPLES)
    seen = []
    for report in (CAPPED, FAILED, NOTHING):
        machine.report = report
        now = limit_reports(machine.step(cap_watts=250.0))["GPU-a"].now
        seen.append((now.limited, now.limit_watts))
    assert seen == [(True, 250.0), (None, None), (False, None)]


def test_a_reason_why_nothing_is_stated_is_reported_and_never_zero(machine):
    machine.step(times=LEAST_SAMPLES)
    now = limit_reports(machine.step(power_watts=None))["GPU-a"].now
    assert (now.saved_watts, now.saved_reason) == (None, "NotMeasured")
