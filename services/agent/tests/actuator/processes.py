"""The commands of the actuator as processes, on a machine in a directory."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field

from joulie_agent.actuator import blocking_client
from joulie_agent.actuator.protocol import (
    SetCpuCap,
)
from joulie_testing.agent.fake_sysfs import FakeMachine


@dataclass
class Node:
    """A machine in a directory, and the commands run on it."""

    machine: FakeMachine
    env: dict
    running: list = field(default_factory=list)

    def start(self, *options, before=(), **env):
        process = subprocess.Popen(
            [*before, sys.executable, *options, "-m", "joulie_agent", "actuator"],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def start_listening(self, *options, **env):
        process = self.start(*options, **env)
        while json.loads(process.stdout.readline())["event"] != "listening":
            pass
        return process

    def run(self, command, *arguments, before=(), **env):
        return subprocess.run(
            [*before, sys.executable, "-m", "joulie_agent", command, *arguments],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def request(self, request):
        return blocking_client.request(self.env["ACTUATOR_SOCKET"], request, 30)

    @property
    def limits_watts(self):
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    @property
    def policies_khz(self):
        return {self.machine.read(path) for path in self.machine.policy_limits()}


def cap(watts, lease_s=60.0):
    return SetCpuCap(cap_watts_per_package=watts, lease_s=lease_s)


def stop(actuator):
    """End an actuator; returns its exit code and its last line."""
    actuator.send_signal(signal.SIGTERM)
    out, _ = actuator.communicate(timeout=60)
    return actuator.returncode, json.loads(out.splitlines()[-1])


def silent(_event, /, **_details):
    """A log that is not read."""


def next_event(actuator, name):
    while (event := json.loads(actuator.stdout.readline()))["event"] != name:
        pass
    return event
