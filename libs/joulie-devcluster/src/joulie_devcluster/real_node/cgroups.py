"""The control groups of one real node: made before its kubelet, removed after it, and how to find a container in them.

A node has a group of its own below the root of every hierarchy, named after its cluster's directory: beside the kubelet
of another cluster (or the machine's own) it neither takes nor cleans up what is not its own. Knows both versions of
control groups.
"""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from joulie_devcluster.errors import StateError

_MOUNTS = Path("/proc/self/mounts")
_UNIFIED = Path("/sys/fs/cgroup")
# A new group of this version 1 controller has no CPUs and takes no processes before it is given some.
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
_REMOVE_TIMEOUT_S = 10.0
_POLL_S = 0.05
_PREFIX = "joulie-devcluster-"
_NAME_DIGITS = 12


def group_name(directory: Path) -> str:
    """The name of the group of the real node of the cluster in `directory`."""
    return f"{_PREFIX}{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:_NAME_DIGITS]}"


def create(name: str) -> None:
    """Make the group in every hierarchy that a kubelet uses, with all its controllers."""
    if (_UNIFIED, "cgroup2") in _hierarchies():
        group = _UNIFIED / name
        group.mkdir(exist_ok=True)
        for parent in (_UNIFIED, group):
            _enable_controllers(parent)
        return
    for mount, kind in _hierarchies():
        if kind == "cgroup":
            group = mount / name
            group.mkdir(exist_ok=True)
            for file_name in _CPUSET_FILES:
                if (group / file_name).exists():
                    (group / file_name).write_text((mount / file_name).read_text())


def remove(name: str) -> None:
    """Remove the group and all below it from every hierarchy; nothing happens where there is none.

    Raises:
        StateError: processes are still in it after some seconds, although they should have been killed before.
    """
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    for group in _groups(name):
        while (error := _remove_tree(group)) is not None:
            if time.monotonic() >= deadline:
                raise StateError(f"{group} cannot be removed, end what runs in it: {error}")
            time.sleep(_POLL_S)


def exist() -> bool:
    """Whether any real node's group exists."""
    return any(any(mount.glob(f"{_PREFIX}*")) for mount, _ in _hierarchies())


def pids(name: str, member: str) -> tuple[int, ...]:
    """The processes of the group called `member` below `name` (a container's id); none where there is no such group."""
    for group in _groups(name):
        for found in group.rglob(member):
            return tuple(int(line) for line in (found / "cgroup.procs").read_text().split())
    return ()


def _groups(name: str) -> Iterator[Path]:
    return (mount / name for mount, _ in _hierarchies() if (mount / name).is_dir())


def _hierarchies() -> list[tuple[Path, str]]:
    rows = (line.split() for line in _MOUNTS.read_text().splitlines())
    return [(Path(row[1]), row[2]) for row in rows if row[2] in {"cgroup", "cgroup2"}]


def _enable_controllers(group: Path) -> None:
    names = (group / "cgroup.controllers").read_text().split()
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))


def _remove_tree(group: Path) -> OSError | None:
    """Remove a group from the bottom up; None once it is gone, else what was in the way."""
    try:
        for child in list(group.iterdir()):
            if child.is_dir() and (error := _remove_tree(child)) is not None:
                return error
        group.rmdir()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None
