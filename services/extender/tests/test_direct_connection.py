"""One direct connection in virtual time: its limits, how it ends, and every byte of its answers."""

import asyncio
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter

import pytest

from joulie_extender.byte_budget import ByteBudget
from joulie_extender.direct_http import DirectConnection, DirectEndpoints, DirectReply, Timeouts

pytestmark = pytest.mark.looptime

TIMEOUTS = Timeouts(first_request_s=5, request_s=30, stall_s=2, idle_s=10)
BUDGET_BYTES = 2000
MIB = 1024 * 1024
TOO_LATE = "request not received and answered in time"


def post(body, path=b"/echo"):
    return b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (path, len(body), body)


class Transport(asyncio.Transport):
    """A socket, whose client takes all answers at once, or nothing."""

    def __init__(self):
        super().__init__()
        self.answers = []
        self.takes_answers = self.is_read = True
        self.closing = False

    def set_protocol(self, protocol):
        self.protocol = protocol
        protocol.connection_made(self)

    def write(self, data):
        self.answers.append(bytes(data))
        if not self.takes_answers:
            self.protocol.pause_writing()

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True
        if self.takes_answers:
            self._end()

    def abort(self):
        self.closing = True
        self._end()

    def _end(self):
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


@dataclass
class Server:
    """What a connection tells its server, in place of the server and of its log."""

    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    handed_over: list[tuple[bytes, float]] = field(default_factory=list)

    def __post_init__(self):
        self.log = self

    def refused(self, problem):
        self.problems.append(problem)

    def failed(self, error):
        self.failures.append(str(error))

    def on_error(self, path, status):
        self.errors.append((path, status))

    def hand_over(self, _transport, data, due_at):
        self.handed_over.append((data, due_at))


class Running:
    """A connection, and what becomes of it. Times are since its start."""

    def __init__(self):
        self.transport, self.server, self.budget = Transport(), Server(), ByteBudget(BUDGET_BYTES)
        self.bodies, self.readings, self.ends = [], [], []
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        endpoints = DirectEndpoints({"/echo": self.echo, "/fail": fail})
        self.connection = DirectConnection(endpoints, TIMEOUTS, self.budget, self.server, self.end)
        self.transport.set_protocol(self.connection)

    def echo(self, body, started):
        self.bodies.append(body)
        self.readings.append(started)
        if body == b"decline":
            return None
        return DirectReply(body, HTTPStatus.BAD_REQUEST if body == b"bad" else HTTPStatus.OK)

    def end(self, connection):
        assert connection is self.connection
        self.ends.append(self.age_s())

    def age_s(self):
        return round(self._loop.time() - self._began, 6)

    def receive(self, data):
        self.connection.data_received(data)


def fail(_body, _started):
    raise RuntimeError("a defect")


async def one_turn():
    """Let the connection do what it has postponed."""
    await asyncio.sleep(0)


async def long_after():
    await asyncio.sleep(1000)


async def test_a_connection_without_a_request_is_ended_and_logged():
    running = Running()
    await long_after()
    assert running.ends == [TIMEOUTS.first_request_s]
    assert running.server == Server(problems=["no request in time"])


async def test_a_connection_that_is_lost_gives_its_memory_back_and_is_not_logged():
    running = Running()
    running.receive(post(b"123")[:-1])
    assert running.budget.held_bytes == 2
    running.connection.connection_lost(None)
    assert running.budget.held_bytes == 0
    await long_after()
    assert running.ends == [0]
    assert running.server == Server()


async def test_a_body_of_which_nothing_more_comes_ends_the_connection():
    running = Running()
    await asyncio.sleep(1)
    running.receive(post(b"12")[:-1])
    await long_after()
    assert running.ends == [1 + TIMEOUTS.stall_s]
    assert running.server == Server(problems=[TOO_LATE], errors=[("/echo", HTTPStatus.REQUEST_TIMEOUT)])
    assert running.budget.held_bytes == 0


async def test_a_body_that_takes_longer_than_a_request_may_ends_the_connection():
    running = Running()
    running.receive(post(b"x" * 100)[:-100])
    while not running.ends:
        running.receive(b"x")
        await asyncio.sleep(TIMEOUTS.stall_s / 2)
    assert running.ends == [TIMEOUTS.request_s]
    assert running.server.problems == [TOO_LATE]


async def test_an_idle_connection_is_ended_without_a_line_in_the_log():
    running = Running()
    for _ in range(3):
        running.receive(post(b"1"))
        await asyncio.sleep(TIMEOUTS.idle_s - 1)
    await long_after()
    assert running.ends == [2 * (TIMEOUTS.idle_s - 1) + TIMEOUTS.idle_s]
    assert running.server == Server()


async def test_an_idle_connection_whose_client_has_not_taken_the_last_answer_is_ended_too():
    running = Running()
    running.receive(post(b"1"))
    running.transport.takes_answers = False
    await long_after()
    assert running.ends == [TIMEOUTS.idle_s]


async def test_a_client_that_does_not_take_its_answers_is_not_read_from_and_ends():
    running = Running()
    running.transport.takes_answers = False
    running.receive(post(b"1") + post(b"2"))
    await one_turn()
    assert running.bodies == [b"1"]
    assert not running.transport.is_read
    await long_after()
    assert running.ends == [TIMEOUTS.request_s]
    assert running.server == Server(problems=[TOO_LATE], errors=[("/echo", HTTPStatus.REQUEST_TIMEOUT)])


async def test_a_client_that_takes_its_answers_at_last_is_served_and_has_the_time_of_an_idle_one():
    running = Running()
    running.transport.takes_answers = False
    running.receive(post(b"1"))
    await asyncio.sleep(TIMEOUTS.request_s - 1)
    running.transport.takes_answers = True
    running.connection.resume_writing()
    assert running.transport.is_read
    await long_after()
    assert running.ends == [TIMEOUTS.request_s - 1 + TIMEOUTS.idle_s]
    assert running.server == Server()


async def test_what_was_sent_behind_a_request_is_answered_in_a_later_turn_and_only_then_more_is_read():
    running = Running()
    running.receive(post(b"1") + post(b"2") + post(b"3"))
    assert (running.bodies, running.transport.is_read) == ([b"1"], False)
    await one_turn()
    assert (running.bodies, running.transport.is_read) == ([b"1", b"2"], False)
    await one_turn()
    assert (running.bodies, running.transport.is_read) == ([b"1", b"2", b"3"], True)


async def test_what_was_sent_behind_a_request_is_not_answered_on_a_connection_that_is_being_ended():
    running = Running()
    running.receive(post(b"1") + post(b"2"))
    running.connection.abort()
    await one_turn()
    assert running.bodies == [b"1"]


async def test_a_connection_that_was_handed_over_is_left_alone():
    """The client takes its answer before the turn in which what it has sent behind the request is due."""
    running = Running()
    running.transport.takes_answers = False
    running.receive(post(b"1") + b"GET / HTTP/1.1\r\n")
    running.connection.resume_writing()
    assert [data for data, _ in running.server.handed_over] == [b"GET / HTTP/1.1\r\n"]
    running.transport.pause_reading()
    await one_turn()
    assert not running.transport.is_read
    assert len(running.server.handed_over) == 1


async def test_a_first_request_that_is_handed_over_must_be_complete_as_soon_as_if_it_were_not():
    running = Running()
    due_at = asyncio.get_running_loop().time() + TIMEOUTS.first_request_s
    await asyncio.sleep(1)
    running.receive(b"GET ")
    assert running.server.handed_over == [(b"GET ", due_at)]
    assert running.ends == [1]


async def test_a_later_request_that_is_handed_over_has_the_time_of_a_first_one():
    running = Running()
    running.receive(post(b"1"))
    await asyncio.sleep(TIMEOUTS.idle_s - 1)
    running.receive(b"GET ")
    assert running.server.handed_over == [(b"GET ", asyncio.get_running_loop().time() + TIMEOUTS.first_request_s)]


async def test_what_an_endpoint_declines_is_handed_over_with_what_came_behind_it():
    running = Running()
    request = post(b"decline") + post(b"2")
    running.receive(request)
    assert [data for data, _ in running.server.handed_over] == [request]
    assert running.bodies == [b"decline"]


async def test_a_body_of_more_than_a_mebibyte_is_handed_over_before_it_is_received():
    running = Running()
    running.receive(post(b"x" * (MIB + 1))[:100])
    assert len(running.server.handed_over) == 1


async def test_a_body_of_a_mebibyte_is_received():
    running = Running()
    running.receive(post(b"x" * MIB))
    assert [len(body) for body in running.bodies] == [MIB]


async def test_every_path_has_its_endpoint():
    running = Running()
    running.receive(post(b"1"))
    running.receive(post(b"2", path=b"/fail"))
    assert [answer.split()[1] for answer in running.transport.answers] == [b"200", b"500"]


async def test_an_endpoint_gets_the_time_of_the_first_byte():
    running = Running()
    before = perf_counter()
    running.receive(post(b"12")[:-1])
    after = perf_counter()
    running.receive(b"2")
    (reading,) = running.readings
    assert before <= reading <= after


async def test_an_answer_has_the_headers_that_clients_need(monkeypatch):
    running = Running()
    for now_s in (1_800_000_000, 1_800_000_001):
        monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s + 0.9)
        running.receive(post(b'"a"'))
    first, second = running.transport.answers
    assert first == (
        b"HTTP/1.1 200 OK\r\n"
        b"Content-Type: application/json\r\n"
        b"Content-Length: 3\r\n"
        b"Date: Fri, 15 Jan 2027 08:00:00 GMT\r\n"
        b"\r\n"
        b'"a"'
    )
    assert b"Date: Fri, 15 Jan 2027 08:00:01 GMT\r\n" in second


async def test_a_failing_endpoint_is_answered_500_and_logged_and_the_connection_goes_on():
    running = Running()
    running.receive(post(b"{}", path=b"/fail"))
    running.receive(post(b"1"))
    failed, answered = running.transport.answers
    assert failed.startswith(
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 28\r\n"
    )
    assert failed.endswith(b"\r\n\r\ninternal error, see the log\n")
    assert answered.endswith(b"\r\n\r\n1")
    assert running.server == Server(failures=["a defect"], errors=[("/fail", HTTPStatus.INTERNAL_SERVER_ERROR)])


async def test_an_error_that_an_endpoint_answers_is_counted():
    running = Running()
    running.receive(post(b"bad"))
    assert running.server == Server(errors=[("/echo", HTTPStatus.BAD_REQUEST)])


async def test_a_body_beyond_the_budget_is_answered_429_with_the_advice_to_try_again_and_the_connection_closed():
    running = Running()
    running.receive(post(b"x" * (BUDGET_BYTES + 2))[:-1])
    (answer,) = running.transport.answers
    assert answer.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert answer.endswith(b"\r\nRetry-After: 1\r\nConnection: close\r\n\r\nother requests are too large, try again\n")
    await one_turn()
    assert running.ends == [0]
    assert running.server == Server(
        problems=["bodies of concurrent requests too large"], errors=[("/echo", HTTPStatus.TOO_MANY_REQUESTS)]
    )
    assert running.budget.held_bytes == 0


async def test_a_text_that_is_no_unicode_is_answered_all_the_same():
    assert DirectReply.text(HTTPStatus.BAD_REQUEST, "a\ud800").body == b"a\\ud800\n"


async def test_at_shutdown_an_idle_connection_is_closed():
    running = Running()
    running.connection.finish()
    await one_turn()
    assert running.ends == [0]


async def test_at_shutdown_a_request_that_is_being_received_is_answered_and_nothing_behind_it():
    running = Running()
    running.receive(post(b"12")[:-1])
    running.connection.finish()
    assert not running.transport.closing
    running.receive(b"2" + post(b"3"))
    await one_turn()
    assert running.bodies == [b"12"]
    assert running.ends == [0]


async def test_at_shutdown_a_request_that_the_endpoint_declines_is_not_handed_over():
    running = Running()
    running.receive(post(b"decline")[:-1])
    running.connection.finish()
    running.receive(b"e")
    await one_turn()
    assert running.server == Server()
    assert running.ends == [0]


async def test_at_shutdown_a_connection_waits_until_its_client_has_taken_the_answer():
    running = Running()
    running.transport.takes_answers = False
    running.receive(post(b"1"))
    running.connection.finish()
    assert not running.transport.closing
    running.transport.takes_answers = True
    running.connection.resume_writing()
    await one_turn()
    assert running.ends == [0]
