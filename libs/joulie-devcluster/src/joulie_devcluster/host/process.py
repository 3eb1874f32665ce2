"""A child process with a log file.

Guarantees: the child leads a session of its own (Ctrl-C at the terminal signals this process only, which can then stop
its children in order), is killed when the thread that started it ends, and is only signalled by the pid that was
started. A process that was started in one event loop can be awaited in another.

Limits: does not restart a process that exits.
"""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from joulie_devcluster.errors import StartError
from joulie_devcluster.host import die_with_parent

_TAIL_BYTES = 4096
_LOG_POLL_S = 0.05
_TERMINATE_GRACE_S = 8.0

# Variables that a child inherits. A developer's KUBECONFIG or HTTP_PROXY must not influence a test.
_INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
)


def base_environment() -> dict[str, str]:
    """Return the variables of this process's environment that child processes inherit."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


class ProcessExitedError(StartError):
    """A process that exited while a condition on it was awaited. The message contains the end of its log."""

    def __init__(self, name: str, returncode: int, tail: str) -> None:
        super().__init__(f"{name} exited with status {returncode}; end of its log:\n{tail}")
        self.returncode = returncode
        self.tail = tail


class ServiceProcess:
    """A command that can be started, paused, killed and restarted under one name.

    Args:
        name: name in messages.
        argv: the command; argv[0] is an absolute path.
        log_path: file to which stdout and stderr are appended (mode 0600).
        env: the complete environment; None is `base_environment()`.
        cwd: working directory; None is the directory of the log.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.argv = tuple(argv)
        self.log_path = log_path
        self.env = dict(base_environment() if env is None else env)
        self.cwd = cwd if cwd is not None else log_path.parent
        #: Called after every start, for owners that record pids.
        self.on_start: Callable[[], None] | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """Pid of the current or last run.

        Raises:
            RuntimeError: the process was never started.
        """
        if self._popen is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def started(self) -> bool:
        """Whether the process was ever started."""
        return self._popen is not None

    @property
    def running(self) -> bool:
        """Whether the process is alive; a paused process is."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit status of the last run, -N if signal N ended it; None while running or if never started."""
        return None if self._popen is None else self._popen.poll()

    async def start(self) -> None:
        """Start the process.

        Raises:
            RuntimeError: the process is running.
        """
        if self.running:
            raise RuntimeError(f"{self.name} is already running with pid {self.pid}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._log_start = os.fstat(descriptor).st_size
            # Not with asyncio, whose subprocesses belong to one event loop and are killed with it.
            self._popen = subprocess.Popen(  # noqa: S603, ASYNC220 - a fixed argv; a fork takes milliseconds
                die_with_parent.wrap(self.argv),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        if self.on_start is not None:
            self.on_start()

    def pause(self) -> None:
        """Pause the process (SIGSTOP). It keeps its memory, sockets and leases."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM, and SIGCONT so that a paused process receives it."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, which also ends a paused process."""
        self._signal(signal.SIGKILL)

    async def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the process has exited.

        Returns:
            The exit status, -N if signal N ended the process.

        Raises:
            RuntimeError: the process was never started.
            TimeoutError: it is still running after `timeout_s` seconds.
        """
        popen = self._popen
        if popen is None:
            raise RuntimeError(f"{self.name} was never started")
        if popen.poll() is not None:
            return popen.returncode
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Not reaped yet: poll() returned None, and only this object reaps it. The pid cannot belong to another process.
        descriptor = os.pidfd_open(popen.pid)
        try:
            loop.add_reader(descriptor, ended.set)
            try:
                async with asyncio.timeout(timeout_s):
                    await ended.wait()
            finally:
                loop.remove_reader(descriptor)
        finally:
            os.close(descriptor)
        return popen.wait()

    async def stop(self, grace_s: float = _TERMINATE_GRACE_S) -> int:
        """Send SIGTERM, and SIGKILL after `grace_s` seconds.

        Returns:
            The exit status, -9 if the process had to be killed.
        """
        self.terminate()
        try:
            return await self.wait(grace_s)
        except TimeoutError:
            self.kill()
            return await self.wait()

    async def restart(self, env: Mapping[str, str] | None = None, *, grace_s: float = _TERMINATE_GRACE_S) -> None:
        """Stop the process if it is running, and start it with `env` added to its environment from now on."""
        if self.running:
            await self.stop(grace_s)
        self.env.update(env or {})
        await self.start()

    def log(self) -> str:
        """Return the output of all runs; empty before the first."""
        return self._read_log(0)

    def log_of_run(self) -> str:
        """Return the output of the current or last run."""
        return self._read_log(self._log_start)

    def log_tail(self) -> str:
        """Return the end of the output of the current or last run (4 KiB), for messages."""
        return self.log_of_run()[-_TAIL_BYTES:]

    async def wait_for_log(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """Wait until a regular expression matches the output of the current run.

        Raises:
            ProcessExitedError: the process exited without a match.
            TimeoutError: no match within `timeout_s` seconds; the message contains the pattern and the end of the log.
        """
        expression = re.compile(pattern, re.MULTILINE)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            # Before the log is read: a line that was written just before the exit must not be missed.
            returncode = self.returncode
            match = expression.search(self.log_of_run())
            if match is not None:
                return match
            if returncode is not None:
                raise ProcessExitedError(self.name, returncode, self.log_tail())
            if loop.time() >= deadline:
                raise TimeoutError(
                    f"{self.name} did not log {pattern!r} within {timeout_s:g} s; end of its log:\n{self.log_tail()}"
                )
            await asyncio.sleep(_LOG_POLL_S)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal unless the process has exited. Popen polls first, so that a reused pid is never signalled."""
        if self._popen is not None:
            self._popen.send_signal(number)

    def _read_log(self, offset: int) -> str:
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as stream:
            stream.seek(offset)
            return stream.read().decode(errors="replace")


async def stop_in_order(groups: Iterable[Sequence[ServiceProcess]], grace_s: float = _TERMINATE_GRACE_S) -> None:
    """Stop groups of processes one after the other, the members of each group at the same time."""
    for group in groups:
        await asyncio.gather(*(process.stop(grace_s) for process in group if process.running))
