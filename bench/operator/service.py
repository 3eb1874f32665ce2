"""The operator as a process, and its values in /proc and /metrics."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from joulie_devcluster.host.usage import cpu_s, peak_mib, resident_mib

PLANS = "joulie_operator_reconcile_duration_seconds"


@dataclass(frozen=True)
class Operator:
    """A running operator."""

    pid: int
    metrics_url: str
    #: From the start of the process until its first plan.
    planned_s: float

    @property
    def cpu_s(self) -> float:
        """CPU time that the process has used."""
        return cpu_s(self.pid)

    @property
    def resident_mib(self) -> float:
        """Resident memory."""
        return resident_mib(self.pid)

    @property
    def peak_mib(self) -> float:
        """The most resident memory so far."""
        return peak_mib(self.pid)

    def plans(self) -> tuple[int, float]:
        """Return the number of plans, and the seconds that they took together."""
        with urllib.request.urlopen(f"{self.metrics_url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        values = {line.partition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(PLANS)}
        return int(values[f"{PLANS}_count"]), values[f"{PLANS}_sum"]


@contextmanager
def run_operator(kubeconfig: str, env: Mapping[str, str]) -> Iterator[Operator]:
    """Start an operator as it is shipped, and end it by SIGTERM."""
    environment = os.environ | {"KUBECONFIG": kubeconfig, "METRICS_ADDR": "127.0.0.1:0"} | env
    command = [sys.executable, "-m", "joulie_operator"]
    started_at = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _wait(process, started_at)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(process: "subprocess.Popen[str]", started_at: float) -> Operator:
    assert process.stdout is not None
    url = ""
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "listening":
            url = f"http://127.0.0.1:{event['port']}"
        if event["event"] == "planned":
            threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()
            return Operator(process.pid, url, time.monotonic() - started_at)
    raise RuntimeError(f"the operator ended with {process.wait()}")


def _drain(lines: Iterator[str]) -> None:
    for line in lines:
        event = json.loads(line)
        if event["level"] not in {"info", "debug"}:
            print(f"{time.strftime('%H:%M:%S')} {event}", file=sys.stderr)
