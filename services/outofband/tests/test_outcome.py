"""What a part of a pass found, as a condition."""

import pytest

from joulie_core.kinds.base import ConditionStatus
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.reasons import BmcReason


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (BmcFinding.yes, ConditionStatus.TRUE),
        (BmcFinding.no, ConditionStatus.FALSE),
        (BmcFinding.unknown, ConditionStatus.UNKNOWN),
    ],
)
def test_a_finding_is_a_status_a_reason_and_maybe_a_message(make, status):
    assert make(BmcReason.BUSY, "m") == BmcFinding(status, BmcReason.BUSY, "m")
    assert make(BmcReason.BUSY) == BmcFinding(status, BmcReason.BUSY, "")
