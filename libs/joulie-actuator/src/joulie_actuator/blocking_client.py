"""One request to a running actuator, for commands that are not asynchronous."""

import socket

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import LINE_LIMIT, ProtocolError, Request, decode_reply, encode
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import Reply


def request(path: str, message: Request, timeout_s: float) -> Reply | HardwareFailure:
    """Connect, send a request and return the reply; a failure where there is none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
            connection.sendall(encode(message))
            with connection.makefile("rb") as answers:
                line = answers.readline(LINE_LIMIT)
    except FileNotFoundError:
        return HardwareFailure(Reason.NO_HOST_INTERFACE, f"no actuator at {path}")
    except TimeoutError:
        return HardwareFailure(Reason.TIMEOUT, f"the actuator at {path} did not answer within {timeout_s:g} s")
    except OSError as error:
        return HardwareFailure(Reason.UNREACHABLE, f"the actuator at {path} cannot be reached: {error}")
    if not line:
        return HardwareFailure(
            Reason.NOT_PERMITTED,
            f"the actuator at {path} closed the connection: it serves root and its controller only",
        )
    try:
        return decode_reply(line)
    except ProtocolError as error:
        return HardwareFailure(Reason.MALFORMED_REPLY, str(error))
