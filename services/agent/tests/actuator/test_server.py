import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from joulie_agent.actuator import call
from joulie_agent.actuator.log import Level
from joulie_agent.actuator.parts import Machine
from joulie_agent.actuator.protocol import (
    LINE_LIMIT,
    DescribeCpu,
    DescribeGpu,
    Done,
    Fault,
    GpuDescription,
    ReadCpu,
    SetCpuCap,
    SetGpuCaps,
    decode_reply,
    encode,
)
from joulie_agent.actuator.server import Admission, Peer, Server
from joulie_agent.hardware.knob import Refusal
from joulie_agent.reasons import Reason
from joulie_agent.testing.fake_gpu import FakeGpu, fake_gpu_driver

NOBODY = Admission(uid=65532, gid=65532)


@pytest.fixture
def gpus():
    return fake_gpu_driver(FakeGpu("a"))


@pytest.fixture
def server(actuator_settings, events, gpus):
    settings, _ = actuator_settings()
    machine = Machine(settings, events, drivers=[gpus[0]])
    serving = Server(Path(settings.actuator_socket), machine.lanes, NOBODY, events)
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
            connection.sendall(encode(SetCpuCap(cap_uw_per_package=watts * 1_000_000, lease_s=60)))
            reply = decode_reply(lines.readline())
            assert isinstance(reply, Done)
            assert reply.enforced_watts == watts


def test_what_is_no_request_is_answered_and_costs_nothing(server, events):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        lines = connection.makefile("rb")
        connection.sendall(b'{"op":"format_disk"}\n')
        assert isinstance(decode_reply(lines.readline()), Fault)
        connection.sendall(encode(ReadCpu()))
        assert not isinstance(decode_reply(lines.readline()), Fault)
    assert events.named("not a request")


def test_an_endless_line_ends_in_a_fault(server):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        connection.sendall(b"x" * LINE_LIMIT)
        assert isinstance(decode_reply(connection.makefile("rb").readline()), Fault)


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
    answer = call.ask(server, DescribeCpu(), 10)
    assert isinstance(answer, Refusal)
    assert answer.reason in {Reason.NOT_PERMITTED, Reason.UNREACHABLE}
    assert events.named("peer turned away")[0]["uid"] == os.geteuid()


def test_a_fault_in_carrying_out_is_answered_and_told_with_its_trace(server, monkeypatch, events):
    monkeypatch.setattr("joulie_agent.actuator.cpus.CpuPart.carry_out", lambda *_: 1 / 0)
    assert call.ask(server, DescribeCpu(), 10) == Fault(message="ZeroDivisionError: division by zero")
    assert "ZeroDivisionError" in events.named("request failed")[0]["trace"]
    assert events.lines[-1][1] is Level.ERROR


def test_a_gpu_driver_that_hangs_does_not_hold_up_the_cpus(server, gpus):
    library = gpus[1]
    library.answering.clear()
    hung = threading.Thread(target=call.ask, args=(server, SetGpuCaps(caps_mw={"a": 300_000}, lease_s=60), 30))
    hung.start()
    try:
        assert isinstance(call.ask(server, SetCpuCap(cap_uw_per_package=90_000_000, lease_s=60), 10), Done)
    finally:
        library.answering.set()
        hung.join()
    assert isinstance(call.ask(server, DescribeGpu(), 10), GpuDescription)


def test_a_socket_left_by_a_killed_actuator_is_taken_over(actuator_settings, events, gpus):
    settings, _ = actuator_settings()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(settings.actuator_socket)
    machine = Machine(settings, events, drivers=[gpus[0]])
    Server(Path(settings.actuator_socket), machine.lanes, NOBODY, events).server_close()
    machine.close()


def test_where_nobody_listens_the_refusal_says_so(tmp_path):
    assert call.ask(str(tmp_path / "none"), DescribeCpu(), 1).reason is Reason.NO_HOST_INTERFACE
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    assert call.ask(str(tmp_path / "dead"), DescribeCpu(), 1).reason is Reason.UNREACHABLE
