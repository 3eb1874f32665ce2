"""`joulie-agent probe` against executors in this process, and against servers that answer wrongly."""

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from joulie_actuator.commands import probe
from joulie_actuator.executor import OVERDUE_S, SubsystemExecutor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import SetCpuCap, Subsystem, encode
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import HealthReport, SubsystemHealth
from joulie_actuator.server import Admission, Server
from joulie_actuator.settings import ActuatorSettings


@pytest.fixture
def executor(cpu_bench, events, clock):
    made = SubsystemExecutor(Subsystem.CPU, cpu_bench().handler, events, clock=clock)
    yield made
    made.stop(0)


@pytest.fixture
def run_probe(executor, tmp_path, events, capsys):
    """Serve the executor and probe it; returns the exit code and the output."""
    path = tmp_path / "socket"
    server = Server(path, {Subsystem.CPU: executor}, Admission(0, 0), events)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def run():
        code = probe.main([], {"ACTUATOR_SOCKET": str(path)})
        return code, capsys.readouterr().out

    yield run
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_actuator_that_keeps_its_leases_is_alive(executor, run_probe, clock):
    executor.start()
    assert run_probe() == (0, "alive\n")
    clock.now += 10 * OVERDUE_S
    assert run_probe() == (0, "alive\n"), "a lease thread with nothing to keep is never late"


def test_an_ended_lease_thread_is_dead(executor, run_probe):
    executor.start()
    executor.stop(0)
    assert executor._lease_thread is not None
    executor._lease_thread.join(10)
    assert run_probe() == (1, "cpu: the lease thread has ended\n")


def test_a_late_lease_thread_is_dead(executor, run_probe, clock):
    executor.execute(SetCpuCap(cap_watts_per_package=90, lease_s=60))
    executor.start()
    holds, ends = threading.Event(), threading.Event()

    def hold():
        with executor._lock:
            holds.set()
            ends.wait()

    while executor._expected_at != clock.now + 60:  # until the thread sleeps until the lease ends
        pass
    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert holds.wait(10)
    clock.now += 60 + OVERDUE_S
    assert run_probe()[0] == 0
    clock.now += 1
    assert run_probe() == (1, f"cpu: the lease thread is {OVERDUE_S + 1:.0f} s late\n")
    ends.set()
    holder.join(10)


def test_a_journal_that_cannot_be_used_is_degraded_and_alive(executor, run_probe):
    executor._handler.writer = HardwareFailure(Reason.NO_JOURNAL, "damaged")
    executor.start()
    assert run_probe() == (0, "alive; cpu: damaged\n")


def test_a_file_that_blocks_is_degraded_and_alive(executor, run_probe, monkeypatch):
    executor.start()
    monkeypatch.setattr(type(executor._thread.watch), "blocked", {"/sys/a": 7.4})
    assert run_probe() == (0, "alive; cpu: /sys/a has blocked for 7 s\n")


def test_a_socket_without_a_listener_is_dead(tmp_path, capsys):
    assert probe.main([], {"ACTUATOR_SOCKET": str(tmp_path / "none")}) == 1
    assert "does not answer: FileNotFoundError" in capsys.readouterr().out


@contextmanager
def scripted(path, answer):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve():
            connection, _ = listening.accept()
            with connection:
                assert connection.recv(100)
                if answer is None:
                    connection.recv(100)  # until the probe gives up
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"{}\n", b"[]\n", b'{"subsystems":3}\n', b'{"subsystems":{"cpu":{}}}\n', None]
)
def test_an_invalid_answer_is_dead(tmp_path, capsys, monkeypatch, answer):
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.1)
    with scripted(tmp_path / "s", answer):
        assert probe.main([], {"ACTUATOR_SOCKET": str(tmp_path / "s")}) == 1
    assert "does not answer" in capsys.readouterr().out


def test_every_part_has_to_be_alive(tmp_path, capsys):
    report = HealthReport(subsystems={"cpu": SubsystemHealth(problem=None), "gpu": SubsystemHealth(problem="late")})
    with scripted(tmp_path / "s", encode(report)):
        assert probe.main([], {"ACTUATOR_SOCKET": str(tmp_path / "s")}) == 1
    assert capsys.readouterr().out == "gpu: late\n"


def test_the_default_socket_is_the_actuators():
    assert ActuatorSettings().actuator_socket == probe.DEFAULT_SOCKET


def test_the_probe_imports_nothing_of_the_agent_but_itself(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "joulie_actuator", "probe"],
        env={"ACTUATOR_SOCKET": str(tmp_path / "none"), "PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    agent = {name for name in imported if name.startswith("joulie")}
    assert agent == {"joulie_actuator", "joulie_actuator.commands", "joulie_actuator.commands.probe"}
    assert "msgspec" not in imported


def test_the_probe_takes_no_arguments(capsys):
    assert probe.main(["x"]) == 2
    assert probe.main(["--help"]) == 0
    assert "ACTUATOR_SOCKET" in capsys.readouterr().out
