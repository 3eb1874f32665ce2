"""Control groups of a real node: creation, removal, and the processes of a container.

Each node has a group of its own below the root of every hierarchy, named after its cluster's directory, so that
kubelets of several clusters (and the host's own) do not use or clean up each other's groups. Supports cgroup v1 and v2.
"""

import errno
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from joulie_devcluster.errors import StateError

_MOUNTS = Path("/proc/self/mounts")
_UNIFIED = Path("/sys/fs/cgroup")
# A new group of this v1 controller has no CPUs, and accepts processes only after these files were written.
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
_REMOVE_TIMEOUT_S = 10.0
_POLL_S = 0.05
_PREFIX = "joulie-devcluster-"
_NAME_DIGITS = 12


def group_name(directory: Path) -> str:
    """Return the name of the group of the real node of the cluster in `directory`."""
    return f"{_PREFIX}{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:_NAME_DIGITS]}"


def create(name: str) -> None:
    """Create the group in every hierarchy that a kubelet uses, with all controllers."""
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
    """Remove the group and its descendants from every hierarchy. Do nothing if it does not exist.

    Raises:
        StateError: the group still contains processes after 10 s; the caller should have killed them.
    """
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    for group in _groups(name):
        while (error := _remove_tree(group)) is not None:
            if time.monotonic() >= deadline:
                raise StateError(f"{group} cannot be removed, stop its processes: {error}")
            time.sleep(_POLL_S)


def exist() -> bool:
    """Return whether the group of any real node exists."""
    return any(any(mount.glob(f"{_PREFIX}*")) for mount, _ in _hierarchies())


def pids(name: str, member: str) -> tuple[int, ...]:
    """Return the processes of a container.

    Args:
        name: the group of the node.
        member: name of a descendant group, which is the id of a container.

    Returns:
        Empty if there is no such group. Groups of other containers may be created and removed meanwhile.
    """
    for group in _groups(name):
        for parent, below, _ in os.walk(group, onerror=_raise_unless_removed):
            if member in below:
                return _processes(Path(parent) / member)
    return ()


def _processes(group: Path) -> tuple[int, ...]:
    try:
        return tuple(int(line) for line in (group / "cgroup.procs").read_text().split())
    except OSError as error:
        _raise_unless_removed(error)
        return ()


def _raise_unless_removed(error: OSError) -> None:
    # The kernel answers ENODEV for a file that was open when its group was removed.
    if error.errno not in {errno.ENOENT, errno.ENODEV}:
        raise error


def _groups(name: str) -> Iterator[Path]:
    return (mount / name for mount, _ in _hierarchies() if (mount / name).is_dir())


def _hierarchies() -> list[tuple[Path, str]]:
    rows = (line.split() for line in _MOUNTS.read_text().splitlines())
    return [(Path(row[1]), row[2]) for row in rows if row[2] in {"cgroup", "cgroup2"}]


def _enable_controllers(group: Path) -> None:
    names = (group / "cgroup.controllers").read_text().split()
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))


def _remove_tree(group: Path) -> OSError | None:
    """Remove a group from the bottom up. Return None when it does not exist any more, else the error."""
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
