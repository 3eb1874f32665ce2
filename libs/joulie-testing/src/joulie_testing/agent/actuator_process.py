"""The commands of the actuator as processes, on a machine in a directory."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joulie_actuator import blocking_client
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import Request, SetCpuCap
from joulie_actuator.replies import Reply
from joulie_actuator.settings import ActuatorSettings
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS


@dataclass
class Events:
    """A log that remembers."""

    lines: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, event: str, /, *, level: str = "info", **details: Any) -> None:
        """Take a line."""
        self.lines.append((event, level, details))

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return the details of each line of an event."""
        return [details for name, _, details in self.lines if name == event]


@dataclass
class ActuatorNode:
    """A machine in a directory, and the commands run on it."""

    machine: FakeMachine
    env: dict[str, str]
    running: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(self, *options: str, before: Sequence[str] = (), **env: str) -> "subprocess.Popen[str]":
        """Start an actuator; `options` are those of the interpreter, `before` a command that starts it."""
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            [*before, sys.executable, *options, "-m", "joulie_actuator", "actuator"],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def start_listening(self, *options: str, **env: str) -> "subprocess.Popen[str]":
        """Start an actuator, and return when it listens."""
        process = self.start(*options, **env)
        next_event(process, "listening")
        return process

    def run(
        self, command: str, *arguments: str, before: Sequence[str] = (), **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run another command to its end."""
        return subprocess.run(  # noqa: S603 - the command is ours
            [*before, sys.executable, "-m", "joulie_actuator", command, *arguments],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def request(self, request: Request) -> Reply | HardwareFailure:
        """Return what the actuator answers."""
        return blocking_client.request(self.env["ACTUATOR_SOCKET"], request, 30)

    @property
    def limits_watts(self) -> list[float]:
        """The long-term limits of the packages."""
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    @property
    def policies_khz(self) -> set[int]:
        """The upper limits of the frequency policies."""
        return {self.machine.read(path) for path in self.machine.policy_limits()}


def settings_of_machine(directory: Path, platform: str = "xeon-2s") -> tuple[ActuatorSettings, FakeMachine]:
    """Return settings over a fake machine, which is at `directory / "machine"`."""
    machine = FakeMachine(directory / "machine", PLATFORMS[platform])
    settings = ActuatorSettings(
        host_sys_root=str(machine.sys),
        host_proc_root=str(machine.proc),
        state_dir=str(directory / "journals"),
        actuator_socket=str(directory / "socket"),
    )
    return settings, machine


def cap(watts: float, lease_s: float = 60.0) -> SetCpuCap:
    """Return the request for a cap of each package."""
    return SetCpuCap(cap_watts_per_package=watts, lease_s=lease_s)


def stop(actuator: "subprocess.Popen[str]") -> tuple[int, dict[str, Any]]:
    """End an actuator; returns its exit code and its last line."""
    actuator.send_signal(signal.SIGTERM)
    out, _ = actuator.communicate(timeout=60)
    return actuator.returncode, json.loads(out.splitlines()[-1])


def silent(_event: str, /, **_details: Any) -> None:
    """Log nothing."""


def next_event(actuator: "subprocess.Popen[str]", name: str) -> dict[str, Any]:
    """Read the log up to an event and return its line."""
    assert actuator.stdout is not None
    while True:
        line: dict[str, Any] = json.loads(actuator.stdout.readline())
        if line["event"] == name:
            return line
