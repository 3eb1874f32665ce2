import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from joulie_actuator import blocking_client
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.log import Level
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import (
    LINE_LIMIT,
    CheckHealth,
    DescribeCpu,
    DescribeGpu,
    ReadCpu,
    SetCpuCap,
    SetGpuCaps,
    decode_reply,
    encode,
)
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply, GpuDescription
from joulie_actuator.server import (
    LOG_INTERVAL_S,
    MOST_CONNECTIONS,
    MOST_PER_USER,
    Admission,
    Peer,
    RateLimited,
    Server,
)
from joulie_actuator.subsystems import HostSubsystems
from joulie_testing.agent.fake_gpu import FakeGpu, fake_gpu_driver

UNPRIVILEGED = Admission(uid=65532, gid=65532)


@pytest.fixture
def gpus():
    return fake_gpu_driver(FakeGpu("a"))


@pytest.fixture
def server(actuator_settings, events, gpus):
    settings, _ = actuator_settings()
    machine = HostSubsystems(settings, events, drivers=[gpus[0]])
    serving = Server(Path(settings.actuator_socket), machine.executors, UNPRIVILEGED, events)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield settings.actuator_socket
    serving.shutdown()
    thread.join()
    serving.server_close()
    machine.close()


def test_requests_are_answered_one_after_another_on_a_connection(server):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        lines = connection.makefile("rb")
        for watts in (90, 80):
            connection.sendall(encode(SetCpuCap(cap_watts_per_package=watts, lease_s=60)))
            reply = decode_reply(lines.readline())
            assert isinstance(reply, ControlOutcome)
            assert reply.enforced_watts == watts


def test_what_is_no_request_is_answered_and_costs_nothing(server, events):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        lines = connection.makefile("rb")
        connection.sendall(b'{"op":"format_disk"}\n')
        assert isinstance(decode_reply(lines.readline()), ErrorReply)
        connection.sendall(encode(ReadCpu()))
        assert not isinstance(decode_reply(lines.readline()), ErrorReply)
    assert events.named("invalid request")


def test_invalid_requests_are_logged_once_a_minute_and_short(server, events):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        lines = connection.makefile("rb")
        for line in (b"[" * 4000, b'{"request": "\xff"}', b'{"type": "\xc2\x9b' + b"x" * 4000 + b'"}', b"1e999", b"{}"):
            connection.sendall(line + b"\n")
            reply = decode_reply(lines.readline())
            assert isinstance(reply, ErrorReply)
            assert len(reply.message) <= 300
            assert reply.message.isprintable()
    assert len(events.named("invalid request")) == 1


def test_an_endless_line_ends_in_a_fault(server):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        connection.sendall(b"x" * LINE_LIMIT)
        assert isinstance(decode_reply(connection.makefile("rb").readline()), ErrorReply)


def test_the_socket_is_for_owner_and_group(server):
    assert stat.S_IMODE(Path(server).stat().st_mode) == 0o660


def test_only_root_the_own_user_and_the_controller_are_admitted():
    admission = Admission(uid=1000, gid=2000)
    assert admission.admits(Peer(1, 0, 0))
    assert admission.admits(Peer(1, os.geteuid(), 5))
    assert admission.admits(Peer(1, 1000, 2000))
    assert not admission.admits(Peer(1, 1000, 0))
    assert not admission.admits(Peer(1, 1001, 2000))


def test_a_peer_that_is_not_admitted_gets_no_answer(server, monkeypatch, events):
    monkeypatch.setattr(Admission, "admits", lambda *_: False)
    answer = blocking_client.request(server, DescribeCpu(), 10)
    assert isinstance(answer, HardwareFailure)
    assert answer.reason in {Reason.NOT_PERMITTED, Reason.UNREACHABLE}
    assert events.named("connection rejected")[0]["uid"] == os.geteuid()


def test_an_exception_in_a_request_is_answered_and_logged_with_its_trace(server, monkeypatch, events):
    monkeypatch.setattr("joulie_actuator.cpus.CpuHandler.execute", lambda *_: 1 / 0)
    assert blocking_client.request(server, DescribeCpu(), 10) == ErrorReply(
        message="ZeroDivisionError: division by zero"
    )
    assert "ZeroDivisionError" in events.named("request failed")[0]["trace"]
    assert events.lines[-1][1] is Level.ERROR


def test_a_gpu_driver_that_hangs_does_not_hold_up_the_cpus(server, gpus):
    library = gpus[1]
    library.answering.clear()
    hung = threading.Thread(
        target=blocking_client.request, args=(server, SetGpuCaps(caps_mw={"a": 300_000}, lease_s=60), 30)
    )
    hung.start()
    try:
        assert isinstance(
            blocking_client.request(server, SetCpuCap(cap_watts_per_package=90, lease_s=60), 10), ControlOutcome
        )
    finally:
        library.answering.set()
        hung.join()
    assert isinstance(blocking_client.request(server, DescribeGpu(), 10), GpuDescription)


def test_a_socket_left_by_a_killed_actuator_is_taken_over(actuator_settings, events, gpus):
    settings, _ = actuator_settings()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(settings.actuator_socket)
    machine = HostSubsystems(settings, events, drivers=[gpus[0]])
    Server(Path(settings.actuator_socket), machine.executors, UNPRIVILEGED, events).server_close()
    machine.close()


def connected(path):
    """A connection that is served; None where the server has closed it at once."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(path)
    try:
        connection.sendall(encode(CheckHealth()))
        if connection.recv(LINE_LIMIT):
            return connection
    except ConnectionError:
        pass
    connection.close()
    return None


def test_connections_of_a_user_are_limited_and_the_excess_is_logged_once(server, events):
    served = [connected(server) for _ in range(3 * MOST_PER_USER)]
    kept = [each for each in served if each is not None]
    assert served[:MOST_PER_USER] == kept
    assert len(events.named("connection limit reached")) == 1
    assert events.named("connection limit reached")[0]["uid"] == os.geteuid()
    for each in kept:
        each.close()
    deadline = threading.Event()
    while (again := connected(server)) is None:
        assert not deadline.wait(0.01)
    again.close()


def test_the_connections_of_all_users_together_are_few(server, monkeypatch, events):
    users = iter(range(1000))
    monkeypatch.setattr("joulie_actuator.server.peer_of", lambda _: Peer(1, next(users) // 4, 0))
    monkeypatch.setattr(Admission, "admits", lambda *_: True)
    served = [connected(server) for _ in range(2 * MOST_CONNECTIONS)]
    assert sum(each is not None for each in served) <= MOST_CONNECTIONS
    assert events.named("connection limit reached")
    for each in served:
        if each is not None:
            each.close()


def test_a_thread_that_cannot_be_started_costs_its_connection_only(server, monkeypatch, events):
    start = threading.Thread.start

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert connected(server) is None
    monkeypatch.setattr(threading.Thread, "start", start)
    assert events.named("connection not served")[0]["error"] == "can't start new thread"
    again = connected(server)
    assert again is not None
    again.close()


def test_no_connection_takes_a_descriptor_while_the_reserve_is_in_use(server, monkeypatch, events):
    whole = threading.Event()
    monkeypatch.setattr("joulie_actuator.server.descriptors.refill", whole.is_set)
    logged = threading.Event()
    log = events.lines.append

    class Told(list):
        def append(self, line):
            log(line)
            logged.set()

    events.lines = Told()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(server)
        connection.sendall(encode(CheckHealth()))
        assert logged.wait(10)
        whole.set()
        assert connection.recv(LINE_LIMIT)


def test_the_same_event_is_logged_once_a_minute_with_the_suppressed_count(events, clock):
    seldom = RateLimited(events, clock=clock)
    for _ in range(5):
        seldom("trouble")
    seldom("other trouble")
    clock.now += LOG_INTERVAL_S
    seldom("trouble")
    assert [details["suppressed"] for details in events.named("trouble")] == [0, 4]
    assert len(events.named("other trouble")) == 1
