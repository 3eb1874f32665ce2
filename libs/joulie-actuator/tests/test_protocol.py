import pytest

from joulie_actuator.cpu_class_protocol import (
    ClassControl,
    CoreFrequencyLimit,
    CpuClassControls,
    CpuClassState,
    Governor,
    KhzSpan,
    UnmetControl,
)
from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.hardware.knob_results import RestoredKnob, RestoreOutcome
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import (
    LINE_LIMIT,
    CheckHealth,
    DescribeCpu,
    DescribeGpu,
    Epp,
    LeaseKind,
    ProtocolError,
    ReadCpu,
    ReadGpu,
    Restore,
    SetCoreLimits,
    SetCpuCap,
    SetCpuClasses,
    SetCpuTuning,
    SetGpuCaps,
    SetGpuClassClocks,
    SetGpuClocks,
    SetInterrupts,
    SetThrottle,
    Subsystem,
    decode_reply,
    decode_request,
    encode,
    lease_of,
    subsystem_of,
)
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import (
    CoreLimitsReport,
    CpuClassesReport,
    CpuReadings,
    GpuPowerReading,
    GpuUsers,
    InterruptsReport,
    PolicyReading,
    RestoreReport,
    SubsystemHealth,
)
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.control_result import ControlResult

CLASSES = {
    "eco": CpuClassControls(
        cpus="0-3,8",
        min_khz=FrequencyName.MIN,
        max_khz=1_500_000,
        epp="power",
        governor=Governor.POWERSAVE,
        throttle_order=ThrottleOrder.ECO,
    ),
    "performance": CpuClassControls(
        cpus="4-7", max_khz=FrequencyName.TURBO, disabled_idle_states=("C6",), turbo_priority=1
    ),
}

CLAIMS = (InterruptClaims(patterns=("eth0-*", "24"), cpus="2-3"),)
REQUESTS = [
    (SetCpuCap(cap_watts_per_package=90, lease_s=60), Subsystem.CPU),
    (SetCpuCap(cap_watts_per_package=90, lease_s=60, release_throttle=True), Subsystem.CPU),
    (SetThrottle(throttle_pct=50, lease_s=60), Subsystem.CPU),
    (SetThrottle(throttle_pct=50, lease_s=60, release_caps=True), Subsystem.CPU),
    (SetCpuClasses(classes=CLASSES, lease_s=60), Subsystem.CPU),
    (SetCpuClasses(classes={}, lease_s=60), Subsystem.CPU),
    (SetCoreLimits(limits=(CoreFrequencyLimit(cpus="0-3,8", max_khz=2_000_000),), lease_s=10), Subsystem.CPU),
    (SetInterrupts(controllable=("*",), lease_s=60), Subsystem.INTERRUPTS),
    (SetInterrupts(controllable=(), claims=CLAIMS, sinks="0", isolated="2-7", lease_s=60), Subsystem.INTERRUPTS),
    (Restore(subsystem=Subsystem.INTERRUPTS), Subsystem.INTERRUPTS),
    (SetCpuTuning(epp=Epp.POWER, uncore_max_khz=1_200_000, lease_s=60), Subsystem.CPU),
    (SetGpuCaps(caps_mw={"GPU-1": 300_000}, lease_s=60), Subsystem.GPU),
    (SetGpuCaps(caps_mw={"GPU-1": 300_000}, lease_s=60, release_clocks=True), Subsystem.GPU),
    (SetGpuClocks(clocks_mhz={}, lease_s=60), Subsystem.GPU),
    (SetGpuClassClocks(clocks_mhz={}, lease_s=60), Subsystem.GPU),
    (Restore(subsystem=Subsystem.GPU), Subsystem.GPU),
    (Restore(subsystem=Subsystem.CPU), Subsystem.CPU),
    (Restore(subsystem=Subsystem.CPU, keep_classes=True), Subsystem.CPU),
    (ReadCpu(power_only=True), Subsystem.CPU),
    (ReadGpu(), Subsystem.GPU),
    (DescribeCpu(), Subsystem.CPU),
    (DescribeGpu(), Subsystem.GPU),
    (CheckHealth(), Subsystem.CPU),
]


@pytest.mark.parametrize(("request_", "subsystem"), REQUESTS)
def test_a_request_is_one_line_about_one_subsystem(request_, subsystem):
    line = encode(request_)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_request(line) == request_
    assert subsystem_of(request_) is subsystem


@pytest.mark.parametrize(
    ("request_", "lease"),
    [
        (SetCpuCap(cap_watts_per_package=90, lease_s=60), LeaseKind.POWER),
        (SetThrottle(throttle_pct=50, lease_s=60), LeaseKind.POWER),
        (SetCpuTuning(epp=None, uncore_max_khz=None, lease_s=60), LeaseKind.POWER),
        (SetGpuCaps(caps_mw={"a": 1}, lease_s=60), LeaseKind.POWER),
        (SetGpuClocks(clocks_mhz={}, lease_s=60), LeaseKind.POWER),
        (SetCpuClasses(classes={}, lease_s=60), LeaseKind.CLASSES),
        (SetCoreLimits(limits=(), lease_s=10), LeaseKind.CORE_LIMITS),
        (SetGpuClassClocks(clocks_mhz={}, lease_s=60), LeaseKind.CLASSES),
        (SetInterrupts(controllable=(), lease_s=60), LeaseKind.INTERRUPTS),
    ],
)
def test_a_request_renews_the_lease_of_its_client(request_, lease):
    assert lease_of(request_) is lease


def many(count, value):
    return "{" + ",".join(f'"{number}":{value}' for number in range(count)) + "}"


@pytest.mark.parametrize(
    ("operation", "fields", "accepted", "refused"),
    [
        ("set_cpu_cap", '"cap_watts_per_package":{},"lease_s":60', ["0.1", "5000"], ["0", "-1", "5000.1", "NaN"]),
        ("set_cpu_cap", '"cap_watts_per_package":9,"lease_s":{}', ["0.1", "3600"], ["0", "3600.1", "null"]),
        ("set_throttle", '"throttle_pct":{},"lease_s":60', ["0", "100"], ["-0.1", "100.1"]),
        ("set_cpu_tuning", '"epp":null,"uncore_max_khz":{},"lease_s":60', ["1", "null"], ["0", "-1", "1.5"]),
        (
            "set_cpu_tuning",
            '"epp":{},"uncore_max_khz":null,"lease_s":60',
            ['"power"', '"balance_power"', '"balance_performance"', "null"],
            ['"performance"', '"default"', '""'],
        ),
        ("set_gpu_caps", '"caps_mw":{{"a":{}}},"lease_s":60', ["1", "10000000"], ["0", "10000001", "1.5"]),
        ("set_gpu_caps", '"caps_mw":{},"lease_s":60', [many(1, 1), many(512, 1)], [many(0, 1), many(513, 1)]),
        (
            "set_gpu_caps",
            '"caps_mw":{{"{}":1}},"lease_s":60',
            ["a", "a" * 128],
            ["", "a" * 129],
        ),
        ("set_gpu_clocks", '"clocks_mhz":{{"a":{}}},"lease_s":60', ["1", "10000"], ["0", "10001"]),
        ("set_gpu_clocks", '"clocks_mhz":{},"lease_s":60', [many(0, 1), many(512, 1)], [many(513, 1)]),
        ("set_gpu_class_clocks", '"clocks_mhz":{{"a":{}}},"lease_s":60', ["1", "10000"], ["0", "10001"]),
        ("set_gpu_class_clocks", '"clocks_mhz":{},"lease_s":60', [many(0, 1), many(512, 1)], [many(513, 1)]),
        ("restore", '"subsystem":"{}"', ["cpu", "gpu", "interrupts"], ["", "CPU"]),
    ],
)
def test_a_value_is_accepted_to_the_end_of_its_range_and_not_beyond(operation, fields, accepted, refused):
    def decoded(value):
        return decode_request(f'{{"op":"{operation}",{fields.format(value)}}}'.encode())

    for value in accepted:
        decoded(value)
    for value in refused:
        with pytest.raises(ProtocolError):
            decoded(value)


def test_a_request_that_says_nothing_else_leaves_other_controls_alone():
    assert not decode_request(b'{"op":"set_cpu_cap","cap_watts_per_package":90,"lease_s":60}').release_throttle
    assert not decode_request(b'{"op":"set_throttle","throttle_pct":5,"lease_s":60}').release_caps
    assert not decode_request(b'{"op":"set_gpu_caps","caps_mw":{"a":1},"lease_s":60}').release_clocks
    assert not decode_request(b'{"op":"restore","subsystem":"cpu"}').keep_classes
    assert not decode_request(b'{"op":"read_cpu"}').power_only
    placement = decode_request(b'{"op":"set_interrupts","controllable":[],"lease_s":60}').placement()
    assert (placement.claims, len(placement.sinks), len(placement.isolated)) == ((), 0, 0)


def test_a_reply_that_leaves_something_out_says_nothing_about_it():
    assert decode_reply(b'{"is":"interrupts"}') == InterruptsReport(
        moved=0, fixed=0, left_out=0, failed=0, message="", failure=None
    )
    report = decode_reply(b'{"is":"cpu_classes","classes":{}}')
    assert (report.failure, report.not_restored, report.message) == (None, (), "")
    readings = decode_reply(b'{"is":"cpu_readings","revision":1,"zones":[],"throttle_pct":0,"overwritten":{}}')
    assert readings == CpuReadings(
        revision=1,
        zones=(),
        throttle_pct=0,
        overwritten={},
        policies=(),
        domains=(),
        constraints=(),
        throttled_by_class={},
    )
    assert GpuPowerReading(uuid="a") == GpuPowerReading(
        uuid="a",
        power_mw=None,
        limit_mw=None,
        clock_limit_mhz=None,
        cap_clock_mhz=None,
        class_clock_mhz=None,
        clock_bound=ClockBound.UNKNOWN,
        energy_mj=None,
        clock_mhz=None,
        busy_pct=None,
        failure=None,
    )
    assert decode_reply(b'{"is":"core_limits"}') == CoreLimitsReport(failed=(), failure=None)
    users = decode_reply(b'{"is":"gpu_processes","users":{"a":{}},"failures":{}}').users
    assert users == {"a": GpuUsers(pods=(), outside_pid=None)}
    report = decode_reply(b'{"is":"gpu_class_clocks","limits_mhz":{},"failures":{}}')
    assert (report.failure, report.message) == (None, "")
    policy = PolicyReading(cpus=(0,))
    assert (policy.current_khz, policy.max_khz) == (None, None)
    assert SubsystemHealth(problem=None).degraded == ()


def test_what_a_restore_has_left_are_the_knobs_that_are_not_done():
    done, left = RestoredKnob("a", RestoreOutcome.RESTORED), RestoredKnob("b", RestoreOutcome.FAILED)
    report = RestoreReport(knobs=(done, left))
    assert report.left == (left,)
    assert decode_reply(encode(report)) == report


@pytest.mark.parametrize("decode", [decode_request, decode_reply])
def test_an_error_that_quotes_the_line_is_printable_and_of_bounded_length(decode):
    name = "\\u001b[31m" + "a" * 1000
    with pytest.raises(ProtocolError) as quoted:
        decode(f'{{"op":"{name}","is":"{name}"}}'.encode())
    message = str(quoted.value)
    assert message.startswith("Invalid value '\N{REPLACEMENT CHARACTER}[31maaa")
    assert (len(message), message.isprintable()) == (300, True)


@pytest.mark.parametrize("decode", [decode_request, decode_reply])
def test_a_line_that_is_nested_too_deeply_leaves_no_trace_of_its_depth(decode):
    with pytest.raises(ProtocolError) as nested:
        decode(b'{"a":' * (LINE_LIMIT // 5))
    assert str(nested.value) == "nested too deeply"
    assert nested.value.__cause__.__traceback__ is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"op":"write_file","path":"/etc/passwd"}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":0,"lease_s":60}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":-1,"lease_s":60}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":9000,"lease_s":60}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":"90","lease_s":60}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":90}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":90,"lease_s":0}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":90,"lease_s":86400}',
        b'{"op":"set_cpu_cap","cap_watts_per_package":90,"lease_s":60,"path":"x"}',
        b'{"op":"set_throttle","throttle_pct":101,"lease_s":60}',
        b'{"op":"set_throttle","throttle_pct":NaN,"lease_s":60}',
        b'{"op":"set_gpu_caps","caps_mw":{},"lease_s":60}',
        b'{"op":"set_gpu_caps","caps_mw":{"":300000},"lease_s":60}',
        b'{"op":"set_gpu_caps","caps_mw":{"a":99999999999},"lease_s":60}',
        b'{"op":"restore","subsystem":"disk"}',
        b'{"op":"set_cpu_classes","classes":{"a":{}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0-"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0-99999999"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0-3"},"b":{"cpus":"3"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"":{"cpus":"0"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0","max_khz":0}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0","max_khz":"2.4GHz"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0","epp":"256"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0","epp":"power\\n"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0","governor":"userspace"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0","throttle_order":"first"}},"lease_s":60}',
        b'{"op":"set_cpu_classes","classes":{"a":{"cpus":"0"}}}',
        b'{"op":"set_interrupts","controllable":["*"]}',
        b'{"op":"set_interrupts","controllable":"*","lease_s":60}',
        b'{"op":"set_interrupts","controllable":["*"],"sinks":"all","lease_s":60}',
        b'{"op":"set_interrupts","controllable":["*"],"isolated":"0-99999999","lease_s":60}',
        b'{"op":"set_interrupts","controllable":["*"],"claims":[{"patterns":["*"],"cpus":"-1"}],"lease_s":60}',
        b'{"op":"set_interrupts","controllable":["*"],"claims":[{"patterns":["*"]}],"lease_s":60}',
        b'{"op":"set_interrupts","controllable":["' + b"a" * 254 + b'"],"lease_s":60}',
    ],
)
def test_what_is_not_on_the_list_or_out_of_range_is_no_request(line):
    with pytest.raises(ProtocolError):
        decode_request(line)


def test_a_reply_comes_back_as_it_was_sent():
    done = ControlOutcome(result=ControlResult.APPLIED, reason=Reason.CLAMPED, backend="rapl", enforced_watts=90.5)
    assert decode_reply(encode(done)) == done


def test_a_report_on_classes_comes_back_as_it_was_sent():
    span = KhzSpan(lowest=1_500_000, highest=1_500_000)
    unmet = UnmetControl(control=ClassControl.EPP, reason=Reason.NO_INTERFACE, message="no such file", cpus="0")
    state = CpuClassState(cpus="0-3", ceiling_khz=span, floor_khz=None, throttled_cpus=2, unmet=(unmet,))
    report = CpuClassesReport(classes={"eco": state})
    assert decode_reply(encode(report)) == report


def test_what_is_no_reply_is_an_error():
    with pytest.raises(ProtocolError):
        decode_reply(b'{"is":"odd"}')
