"""Those that wait give up later than those that are waited for."""

import pytest

from joulie_actuator.deadlines import ANSWER_S, COMMAND_S
from joulie_actuator.executor import REQUEST_S
from joulie_actuator.hardware.gpu.device_calls import (
    CALL_DEADLINE_S,
    CROWDED_DEADLINE_S,
    OPEN_WAIT_S,
    PATIENT_OPEN_WAIT_S,
)
from joulie_actuator.hardware.watch import CALL_S
from joulie_actuator.protocol import Subsystem


@pytest.mark.parametrize("subsystem", [Subsystem.CPU, Subsystem.INTERRUPTS])
def test_a_controller_waits_longer_than_a_request_may_take_and_not_much_longer(subsystem):
    assert CALL_S < REQUEST_S < ANSWER_S[subsystem] <= REQUEST_S + 2


def test_a_controller_waits_until_a_driver_has_opened_and_one_gpu_hangs_and_then_all():
    slowest_s = OPEN_WAIT_S + CALL_DEADLINE_S + 16 * CROWDED_DEADLINE_S
    assert slowest_s < ANSWER_S[Subsystem.GPU] <= slowest_s + 2


def test_a_command_also_waits_for_a_driver_that_no_process_holds_open():
    assert PATIENT_OPEN_WAIT_S + max(ANSWER_S.values()) <= COMMAND_S
