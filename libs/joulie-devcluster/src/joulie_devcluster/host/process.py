"""One local process with a log file, owned by this one.

Promises: the process leads its own session (a Ctrl-C at the terminal reaches only us, so that we can stop things in
order), dies when the thread that started it dies, and is only ever signalled by the pid that we started. Works from any
event loop: a process started in one loop can be awaited in another. Does not restart anything by itself.
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

# Only these reach the child from our own environment: a developer's KUBECONFIG or HTTP_PROXY must not steer a test.
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
    """The part of our environment that child processes get."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


class ProcessExitedError(StartError):
    """The process ended while something was awaited from it; carries the end of its log."""

    def __init__(self, name: str, returncode: int, tail: str) -> None:
        super().__init__(f"{name} ended with status {returncode}; the end of its log:\n{tail}")
        self.returncode = returncode
        self.tail = tail


class ServiceProcess:
    """A command that can be started, paused, killed and started again under one name.

    Args:
        name: what it is called in messages.
        argv: the command; argv[0] is an absolute path.
        log_path: stdout and stderr are appended here (mode 0600).
        env: the whole environment; None is `base_environment()`.
        cwd: its working directory; None is the log's directory.
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
        #: Called after every start, for whoever keeps account of pids.
        self.on_start: Callable[[], None] | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The pid of the current or last run; RuntimeError when it was never started."""
        if self._popen is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def started(self) -> bool:
        """Whether it was started at all, running or not."""
        return self._popen is not None

    @property
    def running(self) -> bool:
        """Whether it is alive (a paused process is)."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit status of the last run (negative: ended by that signal); None while running or never started."""
        return None if self._popen is None else self._popen.poll()

    async def start(self) -> None:
        """Start it, or start it again after it ended; RuntimeError when it runs already."""
        if self.running:
            raise RuntimeError(f"{self.name} runs already with pid {self.pid}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._log_start = os.fstat(descriptor).st_size
            # Not through asyncio: its subprocesses belong to one event loop and are killed with it.
            self._popen = subprocess.Popen(  # noqa: S603, ASYNC220 - our own argv; the fork itself takes milliseconds
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
        """Stop it in its tracks (SIGSTOP); it keeps its memory, sockets and leases."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM); a paused process is woken to hear it."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once (SIGKILL), paused or not."""
        self._signal(signal.SIGKILL)

    async def wait(self, timeout_s: float | None = None) -> int:
        """Wait until it has ended; its exit status. TimeoutError after `timeout_s` seconds."""
        popen = self._popen
        if popen is None:
            raise RuntimeError(f"{self.name} was never started")
        if popen.poll() is not None:
            return popen.returncode
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Not yet reaped (poll() said so, and only we reap it), so the pid cannot mean another process.
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
        """Ask it to end, kill it after `grace_s` seconds; its exit status, -SIGKILL where it had to be killed."""
        self.terminate()
        try:
            return await self.wait(grace_s)
        except TimeoutError:
            self.kill()
            return await self.wait()

    async def restart(self, env: Mapping[str, str] | None = None, *, grace_s: float = _TERMINATE_GRACE_S) -> None:
        """Stop it if it runs, then start it, with `env` laid over its environment for this and later runs."""
        if self.running:
            await self.stop(grace_s)
        self.env.update(env or {})
        await self.start()

    def log(self) -> str:
        """Everything it ever wrote, over all runs; empty before the first."""
        return self._read_log(0)

    def log_of_run(self) -> str:
        """What the current or last run wrote."""
        return self._read_log(self._log_start)

    def log_tail(self) -> str:
        """The last lines of the current or last run, for messages."""
        return self.log_of_run()[-_TAIL_BYTES:]

    async def wait_for_log(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """Wait for a match of a regular expression in the log of this run.

        Raises:
            ProcessExitedError: it ended without the line.
            TimeoutError: no match within `timeout_s` seconds; names the pattern and the end of the log.
        """
        expression = re.compile(pattern, re.MULTILINE)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            # Asked before reading, or a line written just before the end could be missed.
            returncode = self.returncode
            match = expression.search(self.log_of_run())
            if match is not None:
                return match
            if returncode is not None:
                raise ProcessExitedError(self.name, returncode, self.log_tail())
            if loop.time() >= deadline:
                raise TimeoutError(
                    f"{self.name} did not log {pattern!r} in {timeout_s:g} s; its log ends:\n{self.log_tail()}"
                )
            await asyncio.sleep(_LOG_POLL_S)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal unless the process has ended; Popen looks first, so a reused pid is never hit."""
        if self._popen is not None:
            self._popen.send_signal(number)

    def _read_log(self, offset: int) -> str:
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as stream:
            stream.seek(offset)
            return stream.read().decode(errors="replace")


async def stop_in_order(groups: Iterable[Sequence[ServiceProcess]], grace_s: float = _TERMINATE_GRACE_S) -> None:
    """Stop groups of processes one group after the other, the members of a group together."""
    for group in groups:
        await asyncio.gather(*(process.stop(grace_s) for process in group if process.running))
