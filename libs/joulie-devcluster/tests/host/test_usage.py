import os
import subprocess
import sys
import time

import pytest

from joulie_devcluster.host.usage import cpu_s, peak_mib, resident_mib

_TOUCH_64_MIB = "block = b'x' * 2**26; del block; print(flush=True); input()"


def test_cpu_time_is_that_of_the_process():
    started, used = time.process_time(), cpu_s(os.getpid())
    while time.process_time() - started < 0.2:
        pass
    assert 0.15 < cpu_s(os.getpid()) - used < 0.5


def test_the_peak_stays_when_memory_was_given_back():
    argv = [sys.executable, "-c", _TOUCH_64_MIB]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 64 + 1 < peak_mib(process.pid) < 128
        assert 1 < resident_mib(process.pid) < 64
        assert cpu_s(process.pid) < 30
        process.communicate("\n")
    with pytest.raises(FileNotFoundError):
        peak_mib(process.pid)


def test_a_process_that_has_exited_has_no_memory():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ValueError, match=f"process {process.pid} has no VmRSS"):
            resident_mib(process.pid)
