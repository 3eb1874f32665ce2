"""What clients of other versions may rely on: docs/decisions/0036-container-resources.md."""

import json

import pytest

from joulie_actuator.cpu_class_protocol import CpuClassControls, CpuClassState, KhzSpan
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.protocol import (
    ProtocolError,
    SetCpuCap,
    SetCpuClasses,
    SetInterrupts,
    SetThrottle,
    decode_reply,
    decode_request,
    encode,
)
from joulie_actuator.replies import CpuClassesReport, InterruptsReport

#: What a client of version 0.1 sends at least, as it sends it. A line here never changes.
REQUESTS = {
    '{"op":"set_cpu_cap","cap_watts_per_package":90.0,"lease_s":60.0}': SetCpuCap(
        cap_watts_per_package=90.0, lease_s=60.0
    ),
    '{"op":"set_throttle","throttle_pct":30.0,"lease_s":60.0}': SetThrottle(throttle_pct=30.0, lease_s=60.0),
    '{"op":"set_cpu_classes","classes":{"eco":{"cpus":"0-1","max_khz":2000000}},"lease_s":60.0}': SetCpuClasses(
        classes={"eco": CpuClassControls(cpus="0-1", max_khz=2_000_000)}, lease_s=60.0
    ),
    '{"op":"set_interrupts","controllable":["*"],"claims":[{"patterns":["eth*"],"cpus":"2"}],"lease_s":60.0}': (
        SetInterrupts(controllable=("*",), claims=(InterruptClaims(patterns=("eth*",), cpus="2"),), lease_s=60.0)
    ),
}
#: The same for replies of an actuator.
REPLIES = {
    '{"is":"cpu_classes","classes":{"eco":{"cpus":"0-1","ceiling_khz":{"lowest":1,"highest":2},"floor_khz":null}}}': (
        CpuClassesReport(
            classes={"eco": CpuClassState(cpus="0-1", ceiling_khz=KhzSpan(lowest=1, highest=2), floor_khz=None)}
        )
    ),
    '{"is":"interrupts","moved":3}': InterruptsReport(moved=3),
}


@pytest.mark.parametrize("line", REQUESTS)
def test_what_an_older_client_sends_is_understood_as_it_was(line):
    assert decode_request(line.encode()) == REQUESTS[line]


@pytest.mark.parametrize("line", REPLIES)
def test_what_an_older_actuator_answers_is_understood_as_it_was(line):
    assert decode_reply(line.encode()) == REPLIES[line]


@pytest.mark.parametrize("message", REQUESTS.values(), ids=lambda each: type(each).__name__)
def test_a_wish_that_an_older_actuator_does_not_know_is_refused_as_a_whole(message):
    newer = json.dumps({**json.loads(encode(message)), "wish": 1})
    with pytest.raises(ProtocolError, match="wish"):
        decode_request(newer.encode())


def test_a_control_of_a_class_that_an_older_actuator_does_not_know_is_refused_as_well():
    line = b'{"op":"set_cpu_classes","classes":{"eco":{"cpus":"0-1","wish":1}},"lease_s":60.0}'
    with pytest.raises(ProtocolError, match="wish"):
        decode_request(line)


@pytest.mark.parametrize("message", REPLIES.values(), ids=lambda each: type(each).__name__)
def test_what_a_newer_actuator_says_beside_is_left_out(message):
    newer = json.dumps({**json.loads(encode(message)), "remark": 1})
    assert decode_reply(newer.encode()) == message
