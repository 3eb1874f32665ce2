import pytest

from joulie_agent.actuator.protocol import (
    DescribeCpu,
    DescribeGpu,
    ProtocolError,
    ReadCpu,
    ReadGpu,
    Restore,
    SetCpuCap,
    SetGpuCaps,
    SetThrottle,
    Subsystem,
    decode_reply,
    decode_request,
    encode,
    subsystem_of,
)
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

REQUESTS = [
    (SetCpuCap(cap_watts_per_package=90, lease_s=60), Subsystem.CPU),
    (SetCpuCap(cap_watts_per_package=90, lease_s=60, release_throttle=True), Subsystem.CPU),
    (SetThrottle(throttle_pct=50, lease_s=60), Subsystem.CPU),
    (SetThrottle(throttle_pct=50, lease_s=60, release_caps=True), Subsystem.CPU),
    (SetGpuCaps(caps_mw={"GPU-1": 300_000}, lease_s=60), Subsystem.GPU),
    (Restore(subsystem=Subsystem.GPU), Subsystem.GPU),
    (Restore(subsystem=Subsystem.CPU), Subsystem.CPU),
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
    ],
)
def test_what_is_not_on_the_list_or_out_of_range_is_no_request(line):
    with pytest.raises(ProtocolError):
        decode_request(line)


def test_a_reply_comes_back_as_it_was_sent():
    done = ControlOutcome(result=ControlResult.APPLIED, reason=Reason.CLAMPED, backend="rapl", enforced_watts=90.5)
    assert decode_reply(encode(done)) == done


def test_what_is_no_reply_is_an_error():
    with pytest.raises(ProtocolError):
        decode_reply(b'{"is":"odd"}')
