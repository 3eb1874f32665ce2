import pytest

from joulie_agent.actuator.cpu_class_protocol import (
    ClassControl,
    CpuClassControls,
    CpuClassState,
    Governor,
    KhzSpan,
    UnmetControl,
)
from joulie_agent.actuator.interrupt_protocol import InterruptClaims
from joulie_agent.actuator.protocol import (
    CpuClassesReport,
    DescribeCpu,
    DescribeGpu,
    ProtocolError,
    ReadCpu,
    ReadGpu,
    Restore,
    SetCpuCap,
    SetCpuClasses,
    SetGpuCaps,
    SetInterrupts,
    SetThrottle,
    Subsystem,
    decode_reply,
    decode_request,
    encode,
    subsystem_of,
)
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
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
    (SetInterrupts(controllable=("*",), lease_s=60), Subsystem.INTERRUPTS),
    (SetInterrupts(controllable=(), claims=CLAIMS, sinks="0", isolated="2-7", lease_s=60), Subsystem.INTERRUPTS),
    (Restore(subsystem=Subsystem.INTERRUPTS), Subsystem.INTERRUPTS),
    (SetGpuCaps(caps_mw={"GPU-1": 300_000}, lease_s=60), Subsystem.GPU),
    (Restore(subsystem=Subsystem.GPU), Subsystem.GPU),
    (Restore(subsystem=Subsystem.CPU), Subsystem.CPU),
    (Restore(subsystem=Subsystem.CPU, keep_classes=True), Subsystem.CPU),
    (ReadCpu(power_only=True), Subsystem.CPU),
    (ReadGpu(), Subsystem.GPU),
    (DescribeCpu(), Subsystem.CPU),
    (DescribeGpu(), Subsystem.GPU),
]


@pytest.mark.parametrize(("request_", "subsystem"), REQUESTS)
def test_a_request_is_one_line_about_one_subsystem(request_, subsystem):
    line = encode(request_)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_request(line) == request_
    assert subsystem_of(request_) is subsystem


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
