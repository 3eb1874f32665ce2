"""The lock between processes."""

import subprocess
import sys

from joulie_devcluster.host.lock import file_lock

HOLDER = """
import sys, time
from pathlib import Path
from joulie_devcluster.host.lock import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
    print("released", flush=True)
"""


def holder(path):
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=pipe, stdout=pipe, text=True)


def test_a_second_process_waits_until_the_first_releases_the_lock(tmp_path):
    path = tmp_path / "lock"
    with holder(path) as process:
        assert process.stdout.readline() == "held\n"
        waits = []

        def release():
            waits.append(True)
            process.stdin.write("\n")
            process.stdin.flush()

        with file_lock(path, on_wait=release):
            assert process.stdout.readline() == "released\n"
        assert waits == [True]


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    path = tmp_path / "lock"
    with holder(path) as process:
        process.stdout.readline()
        process.kill()
        process.wait()
        waits = []
        with file_lock(path, on_wait=lambda: waits.append(True)):
            assert waits == []


def test_a_free_lock_is_acquired_without_waiting(tmp_path):
    with file_lock(tmp_path / "new" / "lock", on_wait=lambda: 1 / 0):
        pass
