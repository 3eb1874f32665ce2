"""Processes that are forked from one which has imported their modules: hundreds of starts cost seconds of CPU each.

What they run is the code of a command, with an environment, a session and a log of their own.
"""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager

from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.process import ServiceProcess, base_environment

_PARENT = """
import ctypes, json, os, signal, sys
import joulie_agent.__main__, joulie_agent.app, joulie_agent.holders.process
import joulie_containers.__main__, joulie_containers.start_hook.process
PR_SET_PDEATHSIG = 1
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, log, log)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        sys.argv = asked["argv"]
        code = 1
        try:
            exec(asked["code"], {"__name__": "__main__"})
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 1)
    # Not waited for: its number stays its own.
    print(pid, flush=True)
"""


class ForkingParent:
    """The process that others are forked from."""

    def __init__(self, process):
        self._process = process

    @classmethod
    @contextmanager
    def running(cls):
        argv = die_with_parent.wrap([sys.executable, "-c", _PARENT])
        with subprocess.Popen(
            argv, env=base_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield cls(process)
            finally:
                process.kill()

    def fork(self, **asked):
        """Return the process that runs `code` with `argv`, `env`, `cwd` and `log`."""
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return _Forked(int(self._process.stdout.readline()))


class _Forked:
    """The part of `subprocess.Popen` that a service's process uses; how it has exited is not known."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None
        self._descriptor = os.pidfd_open(pid)
        # `select` takes no descriptor above 1,023.
        self._exit = select.poll()
        self._exit.register(self._descriptor, select.POLLIN)

    def poll(self):
        if self.returncode is None and self._exit.poll(0):
            self.returncode = 0
            os.close(self._descriptor)
        return self.returncode

    def wait(self):
        while self.poll() is None:
            self._exit.poll()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)


class ForkedProcess(ServiceProcess):
    """A service that is forked from a parent at each start; its command is `python -c CODE` or `python -m MODULE`."""

    def __init__(self, name, argv, *, parent, log_path, env):
        super().__init__(name, argv, log_path=log_path, env=env)
        _, option, what, *rest = argv
        self._code = what if option == "-c" else f"from {what}.__main__ import main; main()"
        self._arguments, self._parent = [what, *rest], parent

    async def start(self):
        assert not self.running
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._popen = self._parent.fork(
            code=self._code, argv=self._arguments, env=self.env, cwd=str(self.cwd), log=str(self.log_path)
        )
