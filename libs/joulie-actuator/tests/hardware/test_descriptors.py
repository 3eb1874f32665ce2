import os
import resource
from contextlib import suppress

import pytest

from joulie_actuator.hardware import descriptors


@pytest.fixture
def reserve(monkeypatch):
    """A reserve of two, given up at the end; and this process's limit as it was."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(descriptors, "_held", [])
    monkeypatch.setattr(descriptors, "_wanted", 0)
    descriptors.reserve(2)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for held in descriptors._held:
        os.close(held)


@pytest.fixture
def exhaust(reserve):
    """Leave this process without a descriptor; closed in the end."""
    taken = []

    def take():
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 3, hard))  # noqa: PTH208
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        return taken

    yield take
    for each in taken:
        os.close(each)


def test_a_file_is_opened_from_the_reserve_where_no_descriptor_is_left(exhaust):
    exhaust()
    with pytest.raises(OSError, match="Too many open files"):
        os.open(os.devnull, os.O_RDONLY)
    os.close(descriptors.opened(lambda: os.open(os.devnull, os.O_RDONLY)))


def test_the_reserve_is_made_whole_when_descriptors_are_to_be_had_again(exhaust):
    taken = exhaust()
    handle = descriptors.opened(lambda: os.open(os.devnull, os.O_RDONLY))
    assert not descriptors.refill()
    os.close(handle)
    os.close(taken.pop())
    assert descriptors.refill()
    os.close(descriptors.opened(lambda: os.open(os.devnull, os.O_RDONLY)))


def test_another_error_leaves_the_reserve_alone(reserve, tmp_path):
    with pytest.raises(FileNotFoundError):
        descriptors.opened(lambda: os.open(tmp_path / "none", os.O_RDONLY))
    assert len(descriptors._held) == 2


def test_a_process_may_open_as_many_files_as_its_hard_limit_lets_it(reserve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
