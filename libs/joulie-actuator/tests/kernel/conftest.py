"""Machines with the kernel's semantics."""

import errno

import pytest

from joulie_testing.agent.kernel import Behaviour, KernelMachine
from joulie_testing.agent.machine_spec import PLATFORMS


class Clock:
    """Monotonic seconds, as the test wants them."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def machine(clock):
    """Make a machine; its time stands still unless the test moves it."""

    def make(platform="xeon-small", **behaviour):
        return KernelMachine(PLATFORMS[platform], Behaviour(**behaviour), clock=clock)

    return make


@pytest.fixture
def refused():
    """Return the name of the error that a call raises; empty where it raises none."""

    def name(call, *arguments):
        try:
            call(*arguments)
        except OSError as error:
            return errno.errorcode[error.errno]
        return ""

    return name
