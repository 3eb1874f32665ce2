"""Deadlines of the actuator's replies, in one place: each is above those that it waits for.

A call to hardware (`CALL_S` for a file, `CALL_DEADLINE_S` for a GPU) < a request in its executor < the wait of the
controller.
"""

from typing import Final

from joulie_actuator.executor import REQUEST_S
from joulie_actuator.hardware.gpu.device_calls import (
    CALL_DEADLINE_S,
    CROWDED_DEADLINE_S,
    OPEN_WAIT_S,
    PATIENT_OPEN_WAIT_S,
)
from joulie_actuator.protocol import Subsystem

#: GPUs of the largest machines; once one hangs, each further one that does costs the short deadline.
_MOST_GPUS: Final = 16
_MARGIN_S: Final = 2.0
#: How long a controller waits for a reply, by subsystem.
ANSWER_S: Final = {
    Subsystem.CPU: REQUEST_S + _MARGIN_S,
    Subsystem.GPU: OPEN_WAIT_S + CALL_DEADLINE_S + _MOST_GPUS * CROWDED_DEADLINE_S + _MARGIN_S,
    Subsystem.INTERRUPTS: REQUEST_S + _MARGIN_S,
}
#: How long a command with nothing else to do waits, also for a driver that no process holds open.
COMMAND_S: Final = PATIENT_OPEN_WAIT_S + max(ANSWER_S.values())
