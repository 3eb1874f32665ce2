"""One request by a blocking command, against servers that answer, or do not, in every way."""

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from joulie_actuator import blocking_client
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import LINE_LIMIT, DescribeCpu, ProtocolError, decode_reply, encode
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply

#: A client that waits for longer than it was told finds its connection closed then, and says so.
_LONGEST_S = 10.0


@contextmanager
def answering(path, answer, *, stays_open=False):
    """Serve one connection; yields the lines that it has sent. Stays open until the client ends it, if so asked."""
    asked = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def serve():
            connection, _ = listening.accept()
            connection.settimeout(_LONGEST_S)
            with connection, connection.makefile("rb") as lines:
                asked.append(lines.readline())
                connection.sendall(answer)
                if stays_open:
                    with suppress(TimeoutError):
                        asked.append(lines.readline())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        thread.join(2 * _LONGEST_S)
        assert not thread.is_alive()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s")


def ask(path, timeout_s=10.0):
    return blocking_client.request(path, DescribeCpu(), timeout_s)


def test_a_request_is_one_line_and_its_reply_is_returned_while_the_connection_is_open(path):
    with answering(path, encode(ErrorReply(message="no")), stays_open=True) as asked:
        assert ask(path) == ErrorReply(message="no")
    assert asked == [encode(DescribeCpu()), b""]


def test_a_reply_of_the_longest_line_is_read(path):
    reply = ErrorReply(message="a" * (LINE_LIMIT - len(encode(ErrorReply(message="")))))
    assert len(encode(reply)) == LINE_LIMIT
    with answering(path, encode(reply)):
        assert ask(path) == reply


def test_a_line_without_an_end_is_read_to_the_limit(path):
    with answering(path, b"a" * LINE_LIMIT, stays_open=True):
        assert ask(path, 5.0).reason is Reason.MALFORMED_REPLY


def test_without_a_socket_there_is_no_actuator(path):
    assert ask(path) == HardwareFailure(Reason.NO_HOST_INTERFACE, f"no actuator at {path}")


def test_a_socket_that_nobody_serves_is_unreachable(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    refused = "[Errno 111] Connection refused"
    assert ask(path) == HardwareFailure(Reason.UNREACHABLE, f"the actuator at {path} cannot be reached: {refused}")


def test_an_actuator_that_does_not_answer_in_time_is_named_with_the_time(path):
    with answering(path, b"", stays_open=True):
        answer = ask(path, 0.05)
    assert answer == HardwareFailure(Reason.TIMEOUT, f"the actuator at {path} did not answer within 0.05 s")


def test_an_actuator_that_closes_the_connection_does_not_permit_it(path):
    with answering(path, b""):
        answer = ask(path)
    closed = "closed the connection: it serves root and its controller only"
    assert answer == HardwareFailure(Reason.NOT_PERMITTED, f"the actuator at {path} {closed}")


@pytest.mark.parametrize("reply", [b"{}\n", b'{"is":"odd"}\n', b"\n"])
def test_a_line_that_is_no_reply_is_malformed(path, reply):
    with answering(path, reply):
        answer = ask(path)
    with pytest.raises(ProtocolError) as refused:
        decode_reply(reply)
    assert answer == HardwareFailure(Reason.MALFORMED_REPLY, str(refused.value))
