"""Receiving small messages into large buffers."""

import platform
import subprocess
import sys

import pytest

MESSAGES = 500
#: Receives messages as asyncio does, and prints how often the kernel had to provide a page meanwhile.
RECEIVE = f"""
import resource, socket, sys
from joulie_api.receive_memory import keep_receive_memory

assert "keep" not in sys.argv or keep_receive_memory()
left, right = socket.socketpair()

def receive():
    left.send(bytes(4096))
    return right.recv(256 * 1024)

receive()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({MESSAGES}):
    receive()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(*arguments):
    done = subprocess.run([sys.executable, "-c", RECEIVE, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_receiving_takes_no_new_pages_once_the_memory_is_kept():
    assert page_faults() >= MESSAGES
    assert page_faults("keep") < MESSAGES / 10
