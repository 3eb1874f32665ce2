"""An actuator whose files block, or that runs out of connections or descriptors, and the probe that reports it."""

import resource
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from joulie_actuator.protocol import (
    ReadCpu,
    SetThrottle,
    decode_reply,
    encode,
)
from joulie_core.control_result import ControlResult
from joulie_testing.agent.actuator_process import cap, next_event, stop


def test_a_counter_that_blocks_holds_up_neither_the_lease_nor_the_end(node, blocks):
    actuator = node.start_listening()
    node.request(cap(90))
    blocks(f"{node.machine.zones()[0]}/energy_uj")
    reading = node.request(ReadCpu())
    assert [zone.energy_uj is None for zone in reading.zones] == [True, False]
    node.request(cap(80, lease_s=0.1))
    assert next_event(actuator, "restored")["cause"] == "lease expired"
    assert node.limits_watts == [150, 150]
    node.request(SetThrottle(throttle_pct=100, lease_s=60))
    assert stop(actuator)[0] == 0
    assert node.policies_khz == {3_900_000}


def test_a_limit_that_blocks_is_left_and_everything_else_is_restored_at_the_end(node, blocks):
    actuator = node.start_listening(ACTUATOR_STOP_GRACE="8")
    node.request(cap(90))
    node.request(SetThrottle(throttle_pct=100, lease_s=60))
    first, second = node.machine.limits()
    blocks(first)
    code, stopped = stop(actuator)
    assert (code, stopped["not_restored"]) == (1, ["cpu"])
    assert node.machine.read(second) == 150_000_000
    assert node.policies_khz == {3_900_000}


def test_1000_idle_connections_disable_neither_the_lease_nor_the_end(node):
    actuator = node.start_listening()
    with ExitStack() as connections:
        flood = [connections.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(1000)]
        connection = flood[0]
        connection.settimeout(30)
        lines = connection.makefile("rb")
        for each in flood:
            each.connect(node.env["ACTUATOR_SOCKET"])
        for request in (cap(90, lease_s=0.1), SetThrottle(throttle_pct=100, lease_s=0.1)):
            connection.sendall(encode(request))
            assert decode_reply(lines.readline()).result is ControlResult.APPLIED
        assert next_event(actuator, "restored")["cause"] == "lease expired"
        assert (node.limits_watts, node.policies_khz) == ([150, 150], {3_900_000})
        connection.sendall(encode(cap(90)))
        assert decode_reply(lines.readline()).result is ControlResult.APPLIED
        threads = len(list(Path(f"/proc/{actuator.pid}/task").iterdir()))
        assert threads < 30
        assert stop(actuator)[0] == 0
    assert node.limits_watts == [150, 150]


def exhaust_descriptors(actuator):
    """Let a running actuator open no further file."""
    used = [int(each.name) for each in Path(f"/proc/{actuator.pid}/fd").iterdir()]
    resource.prlimit(actuator.pid, resource.RLIMIT_NOFILE, (max(used) + 1, max(used) + 1))


def test_an_actuator_without_a_descriptor_left_keeps_its_lease(node):
    actuator = node.start_listening()
    ask = NodeConnection(node)
    ask(SetThrottle(throttle_pct=100, lease_s=2))
    exhaust_descriptors(actuator)
    assert next_event(actuator, "restored")["cause"] == "lease expired"
    assert node.policies_khz == {3_900_000}
    ask.close()


def test_an_actuator_without_a_descriptor_left_restores_at_its_end(node):
    actuator = node.start_listening()
    ask = NodeConnection(node)
    ask(cap(90))
    exhaust_descriptors(actuator)
    code, stopped = stop(actuator)
    assert (code, stopped["not_restored"]) == (0, [])
    assert node.limits_watts == [150, 150]
    ask.close()


class NodeConnection:
    """A connection that stays open."""

    def __init__(self, node):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(node.env["ACTUATOR_SOCKET"])
        self._lines = self._socket.makefile("rb")

    def __call__(self, request):
        self._socket.sendall(encode(request))
        return decode_reply(self._lines.readline())

    def close(self):
        self._lines.close()
        self._socket.close()


def test_the_probe_distinguishes_alive_dead_and_degraded(node, blocks):
    assert node.run("probe").returncode == 1
    actuator = node.start_listening()
    assert (node.run("probe").stdout, node.run("probe").returncode) == ("alive\n", 0)
    file = blocks(f"{node.machine.zones()[0]}/energy_uj")
    node.request(ReadCpu())
    output = node.run("probe")
    assert output.returncode == 0
    assert f"cpu: {file} has blocked" in output.stdout
    actuator.send_signal(signal.SIGSTOP)
    assert node.run("probe").returncode == 1
    actuator.send_signal(signal.SIGCONT)
    assert stop(actuator)[0] == 0
