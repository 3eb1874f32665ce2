"""Fixtures of the development cluster's tests."""

import pytest

from joulie_devcluster.real_node import cgroups


@pytest.fixture
def hierarchies(monkeypatch, tmp_path):
    """Two cgroup v1 controllers, as directories."""
    mounts = tmp_path / "mounts"
    lines = [f"cgroup {tmp_path / name} cgroup rw 0 0" for name in ("cpuset", "memory")]
    mounts.write_text("\n".join(["proc /proc proc rw 0 0", *lines]))
    for name in ("cpuset", "memory"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroups, "_MOUNTS", mounts)
    return tmp_path
