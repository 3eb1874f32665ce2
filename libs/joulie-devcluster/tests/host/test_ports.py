"""Free ports: no two processes are given the same one."""

import socket
import subprocess
import sys
from contextlib import closing

import pytest

from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.ports import LOOPBACK, free_port, is_free

_TAKE = "from joulie_devcluster.host.ports import free_port; print(*(free_port() for _ in range(40)))"


@pytest.fixture(autouse=True)
def counter(monkeypatch, tmp_path):
    """The file of the last port, in a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    free_port()
    [path] = cache_home().iterdir()
    return path


def test_processes_that_choose_at_once_never_get_the_same_port():
    processes = [subprocess.Popen([sys.executable, "-c", _TAKE], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ports = [port for process in processes for port in process.communicate(timeout=60)[0].split()]
    assert len(ports) == 3 * 40
    assert len(set(ports)) == len(ports)


def test_ports_are_free_and_below_the_ephemeral_range():
    ports = [free_port() for _ in range(50)]
    assert all(is_free(port) for port in ports)
    assert min(ports) >= 20_000
    assert max(ports) < 32_768


def test_a_port_with_a_listener_is_passed_over(counter):
    counter.write_text("25000")
    taken = free_port()
    with closing(socket.create_server((LOOPBACK, taken))):
        counter.write_text(str(taken - 1))
        assert free_port() > taken


def test_the_range_begins_again_after_its_last_port(counter):
    counter.write_text("32767")
    assert 20_000 <= free_port() < 20_100


@pytest.mark.parametrize("content", [b"", b"80", b"99999", b"-1", b"port", b"\xff" * 64, b"9" * 64])
def test_a_file_that_names_no_port_of_the_range_is_written_anew(counter, content):
    counter.write_bytes(content)
    port = free_port()
    assert counter.read_text() == str(port)
