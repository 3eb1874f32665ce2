"""The agent's two processes, and their resource usage from /proc."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from joulie_devcluster.host.usage import cpu_s

_START_S = 60.0
_STOP_S = 30.0


@dataclass(frozen=True)
class Usage:
    """Resource usage of one process."""

    #: User and system time since its start.
    cpu_s: float
    rss_mib: float
    #: Resident memory, of shared pages only this process's share.
    pss_mib: float


@dataclass
class Process:
    """A running process; `events` is its log."""

    name: str
    popen: "subprocess.Popen[str]"
    events: list[dict[str, object]] = field(default_factory=list)
    _heard: threading.Condition = field(default_factory=threading.Condition)

    def follow(self) -> None:
        """Collect the log; print warnings and errors."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            event = json.loads(line)
            if event["level"] not in {"info", "debug"}:
                print(f"{time.strftime('%H:%M:%S')} {self.name}: {event}", file=sys.stderr)
            with self._heard:
                self.events.append(event)
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def wait_for(self, event: str) -> dict[str, object]:
        """Return the first log line of an event.

        Raises:
            RuntimeError: the process has exited, or does not log it in time.
        """
        with self._heard:
            self._heard.wait_for(lambda: self.popen.poll() is not None or self._find(event), timeout=_START_S)
            found = self._find(event)
        if found is None:
            raise RuntimeError(f"{self.name} never logged {event!r}; exit code {self.popen.poll()}")
        return found

    def usage(self) -> Usage:
        """Return the current usage.

        Raises:
            RuntimeError: the process has exited.
        """
        if self.popen.poll() is not None:
            raise RuntimeError(f"{self.name} exited with {self.popen.returncode}")
        rollup = Path(f"/proc/{self.popen.pid}/smaps_rollup").read_text()
        sizes = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
        return Usage(
            cpu_s=cpu_s(self.popen.pid),
            rss_mib=int(sizes["Rss"].split()[0]) / 1024,
            pss_mib=int(sizes["Pss"].split()[0]) / 1024,
        )

    def _find(self, event: str) -> dict[str, object] | None:
        return next((each for each in self.events if each["event"] == event), None)


@contextmanager
def start(name: str, arguments: list[str], env: Mapping[str, str]) -> Iterator[Process]:
    """Run `joulie-agent` with these arguments, and stop it at the end."""
    command = [sys.executable, "-m", "joulie_agent", *arguments]
    # In a session of its own, so that Ctrl-C does not reach it: it is stopped here, after what depends on it.
    with subprocess.Popen(
        command, env=os.environ | env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as popen:
        process = Process(name, popen)
        threading.Thread(target=process.follow, daemon=True).start()
        try:
            yield process
        finally:
            popen.terminate()
            try:
                popen.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                popen.kill()


def scrape(port: int) -> str:
    """Return the text of /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())
