"""Poison of the campaign's grammar in what its processes do not read: in this process, without a site.

The campaign has one source of power for the operator, no actuator, and no forged Leases.
"""

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tools.hostile.grammar import Grammar

from joulie_actuator import blocking_client
from joulie_actuator.cpu_class_protocol import CpuClassControls
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.protocol import (
    LINE_LIMIT,
    CheckHealth,
    ReadCpu,
    Request,
    Restore,
    SetCpuCap,
    SetCpuClasses,
    SetCpuTuning,
    SetGpuCaps,
    SetInterrupts,
    SetThrottle,
    Subsystem,
    decode_reply,
    encode,
)
from joulie_actuator.replies import CpuReadings, ErrorReply, HealthReport, Reply
from joulie_actuator.server import Admission, Server
from joulie_actuator.settings import ActuatorSettings
from joulie_actuator.subsystems import HostSubsystems
from joulie_api.errors import DecodeError
from joulie_api.lease import LeaseCandidate, StandBy, Write, decode_lease
from joulie_api.prometheus import PrometheusSample, decode_series, split_samples
from joulie_core.kinds.node_twin import MeasurementSource
from joulie_core.names import NodeName
from joulie_operator.power_prometheus import PrometheusReadings
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS

CASES = 1_500
GOOD = [NodeName(f"good-{number}") for number in range(50)]
NAMES = [*GOOD, NodeName("sink")]


class PowerQuery:
    """Answers the operator's power query: the good nodes, and poison among them."""

    def __init__(self) -> None:
        self.watts = 0.0
        self.poison = b""

    async def query(self, _expression: str) -> list[PrometheusSample]:
        series = [msgspec.json.encode(_series(name, self.watts)) for name in GOOD]
        series.insert(25, self.poison)
        raw = b'{"status":"success","data":{"resultType":"vector","result":[%b]}}' % b",".join(series)
        return [part if isinstance(part, PrometheusSample) else decode_series(part) for part in split_samples(raw)]


def _series(name: str, watts: float) -> dict[str, Any]:
    return {"metric": {"node": name, "instance": f"{name}:9100"}, "value": [1_767_323_045.678, str(watts)]}


@pytest.mark.parametrize("seed", range(3))
async def test_a_poisoned_series_takes_the_reading_of_no_other_node(seed: int) -> None:
    """Where not even its node is known, the readings stay as they were, and age."""
    prometheus, grammar = PowerQuery(), Grammar(Random(seed), big_every=500)
    source = MeasurementSource.KEPLER
    readings = PrometheusReadings(prometheus, "watts", lambda: NAMES, source=source, interval_s=1)  # type: ignore[arg-type]
    kept = 0
    for number in range(CASES // 3):
        before = prometheus.watts
        prometheus.watts = 200.0 + number
        poison = grammar.draw(_series("sink", 300.0), well_formed=True)
        prometheus.poison = poison.raw
        await readings.poll()
        found = {reading.watts for name in GOOD if (reading := readings.reading(name)) is not None}
        # Of what is wrong with a value alone, only depth and broken escapes keep an answer from being cut into series.
        at_value = " at value" in poison.label and poison.family not in {"depth", "encoding"}
        assert found == {prometheus.watts} or (not at_value and found == ({before} if number else set())), poison.label
        kept += found != {prometheus.watts}
        prometheus.poison = msgspec.json.encode(_series("sink", 300.0))
        await readings.poll()
        assert {readings.reading(name).watts for name in GOOD} == {prometheus.watts}, poison.label  # type: ignore[union-attr]
    assert kept < CASES / 6


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "joulie-operator", "namespace": "joulie-system", "uid": "1", "resourceVersion": "7"},
    "spec": {
        "holderIdentity": "other",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    },
}


def test_a_poisoned_lease_is_no_lease_or_one_that_is_waited_for_or_taken() -> None:
    grammar = Grammar(Random(1), big_every=500)
    seen = {StandBy: 0, Write: 0, DecodeError: 0}
    for _ in range(CASES):
        poison = grammar.draw(LEASE)
        candidate = LeaseCandidate("own", lease_duration_s=15, renew_deadline_s=10)
        try:
            lease = decode_lease(poison.raw)
        except DecodeError:
            seen[DecodeError] += 1
            continue
        candidate.on_read(lease, 100.0)
        assert not candidate.is_leading(100.0), poison.label
        decision = candidate.attempt(100.0, "2026-01-01T00:00:01.000000Z")
        seen[type(decision)] += 1
        if isinstance(decision, StandBy):
            assert math.isfinite(decision.wait_s), poison.label
            assert decision.wait_s > 0, poison.label
        else:
            # What is written can be read again by every other candidate.
            spec = msgspec.to_builtins(decision.spec)
            written = {**LEASE, "spec": spec}
            assert decode_lease(json.dumps(written).encode()).spec.holder_identity == "own", poison.label
    assert min(seen.values()) > CASES / 50, seen


REQUESTS: tuple[Request, ...] = (
    SetCpuCap(cap_watts_per_package=90, lease_s=60, release_throttle=True),
    SetThrottle(throttle_pct=50, lease_s=60),
    SetCpuTuning(epp=None, uncore_max_khz=2_000_000, lease_s=60),
    SetCpuClasses(classes={"eco": CpuClassControls(cpus="0-3,8", max_khz=1_500_000, epp="power")}, lease_s=60),
    SetGpuCaps(caps_mw={"GPU-1": 300_000}, lease_s=60),
    SetInterrupts(
        controllable=("*",),
        claims=(InterruptClaims(patterns=("eth*",), cpus="2-3"),),
        sinks="0",
        isolated="4",
        lease_s=9,
    ),
    Restore(subsystem=Subsystem.CPU, keep_classes=True),
    ReadCpu(power_only=True),
)


@dataclass
class ActuatorLog:
    """The events of a log."""

    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __call__(self, event: str, /, *, level: object = None, **details: object) -> None:
        """Log an event."""
        del level
        self.events.append((event, details))


@pytest.fixture
def actuator(tmp_path: Path) -> Iterator[tuple[str, ActuatorLog]]:
    """Serve an actuator of a machine in a directory; yields its socket and log."""
    machine = FakeMachine(tmp_path / "machine", PLATFORMS["xeon-2s"])
    settings = ActuatorSettings(
        host_sys_root=str(machine.sys),
        host_proc_root=str(machine.proc),
        host_irq_root=str(machine.proc / "irq"),
        state_dir=str(tmp_path / "journals"),
        actuator_socket=str(tmp_path / "a.sock"),
    )
    log = ActuatorLog()
    subsystems = HostSubsystems(settings, log, drivers=[])
    server = Server(Path(settings.actuator_socket), subsystems.executors, Admission(0, 0), log)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for executor in subsystems.executors.values():
        executor.start()
    yield settings.actuator_socket, log
    server.shutdown()
    thread.join()
    server.server_close()
    for executor in subsystems.executors.values():
        assert executor.stop(time.monotonic() + 10)
    subsystems.close()


def test_poisoned_requests_to_the_actuator_are_answered_and_the_next_is_served(
    actuator: tuple[str, ActuatorLog],
) -> None:
    path, log = actuator
    dice = Random(1)
    grammar = Grammar(dice, big_every=500)
    answered = refused = 0
    for number in range(CASES // 3):
        document = json.loads(encode(dice.choice(REQUESTS)))
        poison = grammar.draw(document)
        reply = _exchange(path, poison.raw.replace(b"\n", b" ") + b"\n")
        # A line beyond the limit is cut, and its connection ends after the answer.
        assert reply is not None, poison.label
        answered += 1
        refused += isinstance(reply, ErrorReply)
        if number % 25 == 0:
            assert isinstance(blocking_client.request(path, ReadCpu(), 10), CpuReadings)
            health = blocking_client.request(path, CheckHealth(), 10)
            assert isinstance(health, HealthReport)
            assert [each.problem for each in health.subsystems.values()] == [None] * len(Subsystem)
    assert [details for event, details in log.events if event in {"request failed", "connection failed"}] == []
    assert answered == CASES // 3
    assert refused > answered / 4


def _exchange(path: str, line: bytes) -> Reply | None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        sending = threading.Thread(target=_send, args=(connection.sendall, line))
        sending.start()
        with connection.makefile("rb") as answers:
            answer = answers.readline(LINE_LIMIT)
        sending.join()
    return decode_reply(answer) if answer else None


def _send(sendall: Callable[[bytes], None], line: bytes) -> None:
    with suppress(ConnectionError):  # the server does not read more than the longest line
        sendall(line)
