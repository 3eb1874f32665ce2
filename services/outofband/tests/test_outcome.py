from joulie_core.kinds.base import ConditionStatus
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.reasons import BmcError, BmcReason


def test_a_finding_is_a_status_a_reason_and_maybe_a_message():
    assert BmcFinding.yes(BmcReason.ANSWERS) == BmcFinding(ConditionStatus.TRUE, BmcReason.ANSWERS, "")
    assert BmcFinding.no(BmcReason.BUSY, "m") == BmcFinding(ConditionStatus.FALSE, BmcReason.BUSY, "m")
    assert BmcFinding.unknown(BmcReason.WOKEN, "m") == BmcFinding(ConditionStatus.UNKNOWN, BmcReason.WOKEN, "m")
    assert BmcFinding.no(BmcReason.BUSY).message == BmcFinding.unknown(BmcReason.BUSY).message == ""


def test_the_message_of_an_error_is_printable_and_short():
    error = BmcError(BmcReason.BUSY, "a\x9b\x7f\r\nb", retry_after_s=3.0)
    replaced = "\N{REPLACEMENT CHARACTER}"
    assert (str(error), error.reason, error.retry_after_s) == (f"a{replaced * 2}  b", BmcReason.BUSY, 3.0)
    assert len(str(BmcError(BmcReason.BUSY, "x" * 9000))) == 500
    assert BmcError(BmcReason.BUSY, "x").retry_after_s is None
