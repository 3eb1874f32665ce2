"""IPMI and DCMI messages as bytes: IPMI 2.0, 28.2 and 28.3; DCMI 1.5, 6.6."""

import struct

import pytest

from joulie_core.kinds.node_bmc import LimitException
from joulie_outofband.ipmi import messages
from joulie_outofband.ipmi.messages import DcmiLimit
from joulie_outofband.reasons import BmcError, BmcReason


def reading(watts=344, *, state=0x40, code=0):
    return struct.pack("<BBHHHHIIB", code, 0xDC, watts, 1, 2, 3, 4, 5, state)


def limit(watts=250, *, code=0, action=0x11, correction_ms=2000, sampling_s=7):
    return struct.pack("<BB2xBHI2xH", code, 0xDC, action, watts, correction_ms, sampling_s)


def reason(call, *args):
    with pytest.raises(BmcError) as caught:
        call(*args)
    return caught.value.reason, str(caught.value)


def test_the_requests_are_those_of_the_specifications():
    assert (messages.CHASSIS, messages.GROUP) == (0x00, 0x2C)
    assert messages.CHASSIS_STATUS.hex() == "01"
    assert messages.POWER_READING.hex() == "02dc010000"
    assert messages.GET_LIMIT.hex() == "03dc0000"
    assert {kind: each.hex() for kind, each in messages.CONTROLS.items()} == {
        "On": "0201",
        "ForceOff": "0200",
        "GracefulShutdown": "0205",
    }
    assert messages.activate(on=True).hex() == "05dc010000"
    assert messages.activate(on=False).hex() == "05dc000000"


def test_a_limit_is_written_with_the_action_and_the_times_that_it_had():
    found = DcmiLimit(watts=250, active=True, action=0x11, correction_ms=2000, sampling_s=7)
    assert messages.set_limit(300, found).hex() == "04dc000000" + "11" + "2c01" + "d0070000" + "0000" + "0700"
    assert messages.set_limit(0xFFFF, messages.NO_LIMIT).hex() == "04dc00000000ffffe803000000000100"
    assert messages.MOST_WATTS == 65535
    without = DcmiLimit(watts=0, active=False, action=0, correction_ms=0, sampling_s=0)
    assert messages.set_limit(1, without)[-2:] == b"\x01\x00"


@pytest.mark.parametrize(("state", "powered"), [(0x01, True), (0x21, True), (0x20, False), (0x00, False)])
def test_the_power_state_is_the_first_bit(state, powered):
    assert messages.is_powered(bytes([0, state, 0, 0])) is powered
    assert messages.is_powered(bytes([0, state])) is powered


@pytest.mark.parametrize("answer", [b"", b"\x00"])
def test_a_chassis_status_that_is_too_short_is_malformed(answer):
    found, message = reason(messages.is_powered, answer)
    assert (found, message.startswith("chassis status: ")) == (BmcReason.MALFORMED, True)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0xC0, BmcReason.BUSY),
        (0xC3, BmcReason.BUSY),
        (0xD2, BmcReason.BUSY),
        (0xD4, BmcReason.UNAUTHORIZED),
        (0x84, BmcReason.OUT_OF_RANGE),
        (0xFF, BmcReason.REFUSED),
        (0x01, BmcReason.REFUSED),
    ],
)
def test_a_completion_code_has_its_reason_and_is_named(code, expected):
    assert reason(messages.accepted, bytes([code]), "it") == (expected, f"it: completion code 0x{code:02x}")


def test_an_answer_without_a_completion_code_is_malformed_and_one_with_zero_is_returned():
    assert reason(messages.accepted, b"", "it") == (BmcReason.MALFORMED, "it: no answer")
    assert messages.accepted(b"\x00\x07", "it") == b"\x00\x07"


@pytest.mark.parametrize("code", [0xC1, 0xC9])
def test_a_command_that_the_bmc_does_not_have_is_neither_a_reading_nor_a_limit(code):
    answer = bytes([code])
    assert messages.is_unknown_command(answer)
    assert messages.reading_watts(answer) is None
    assert messages.read_limit(answer) is None
    assert not messages.is_unknown_command(b"\x00")
    assert not messages.is_unknown_command(b"")


def test_the_power_now_is_read():
    assert messages.reading_watts(reading(344)) == 344.0
    assert messages.reading_watts(reading(1, state=0xFF)) == 1.0
    assert messages.reading_watts(reading(0xFFFF)) == 65535.0


@pytest.mark.parametrize("answer", [reading(0), reading(state=0x00), reading(state=0xBF), reading()[:-1], b"\x00"])
def test_a_bmc_that_does_not_measure_has_no_reading(answer):
    assert messages.reading_watts(answer) is None


def test_a_reading_that_is_refused_is_an_error():
    assert reason(messages.reading_watts, b"\xc0") == (BmcReason.BUSY, "power reading: completion code 0xc0")


def test_a_limit_is_read_with_everything_that_a_write_carries():
    assert messages.read_limit(limit()) == DcmiLimit(250, active=True, action=0x11, correction_ms=2000, sampling_s=7)
    assert messages.read_limit(limit(code=0x80)) == DcmiLimit(
        250, active=False, action=0x11, correction_ms=2000, sampling_s=7
    )


def test_a_limit_that_was_never_set_has_no_data():
    assert messages.read_limit(b"\x80") == messages.NO_LIMIT
    assert DcmiLimit(0, active=False, action=0, correction_ms=1000, sampling_s=1) == messages.NO_LIMIT
    assert messages.NO_LIMIT.exception is LimitException.NO_ACTION


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(limit()[:-1], BmcReason.MALFORMED), (b"", BmcReason.MALFORMED), (b"\xd4", BmcReason.UNAUTHORIZED)],
)
def test_a_limit_that_is_cut_off_or_refused_is_an_error(answer, expected):
    found, message = reason(messages.read_limit, answer)
    assert (found, message.startswith("power limit: ")) == (expected, True)


@pytest.mark.parametrize(
    ("action", "exception"),
    [
        (0x00, LimitException.NO_ACTION),
        (0x01, LimitException.HARD_POWER_OFF),
        (0x11, LimitException.LOG_EVENT_ONLY),
        (0x02, LimitException.OTHER),
        (0x10, LimitException.OTHER),
    ],
)
def test_an_action_that_is_not_known_is_not_taken_for_a_harmless_one(action, exception):
    assert messages.read_limit(limit(action=action)).exception is exception
