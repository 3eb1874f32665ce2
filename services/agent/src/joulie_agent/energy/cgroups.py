"""CPU time of this node and its pods, from their cgroups (version 2), by the UID in a directory's name.

Guarantees that a directory's name decides nothing but the UID: what is no name of a pod's cgroup is passed over, and a
UID that two directories have is that of a pod whose time is unknown. Numbers of entries and sizes of files are bounded.
Source: Kubernetes, pkg/kubelet/cm (cgroup_manager_linux.go); names of directories: joulie_core.pod_cgroup.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_core.attribution.cpu_times import CpuTimes
from joulie_core.cpu_stat import usage_us
from joulie_core.pod_cgroup import pod_uid_of

#: Cgroups of pods that are read: a kubelet runs 110 pods by default.
MOST_PODS: Final = 1024
#: Entries of one directory that are looked at.
MOST_ENTRIES: Final = 8192
#: Bytes of one file: `cpu.stat` has some hundreds.
MOST_BYTES: Final = 16 << 10
_US_PER_S: Final = 1_000_000
#: By the systemd and by the cgroupfs driver, at the root or below what `--cgroup-root` of a kind node says.
_PARENTS: Final = ("kubepods.slice", "kubelet.slice/kubelet-kubepods.slice", "kubepods", "kubelet/kubepods")


@dataclass(frozen=True, slots=True)
class NoCgroups:
    """Reason why no CPU time is known."""

    message: str


def read_cpu_times(root: Path) -> CpuTimes | NoCgroups:
    """Return the CPU time of the node and its pods; `root`: the node's /sys/fs/cgroup."""
    if not (root / "cgroup.controllers").is_file():
        return NoCgroups(f"{root} is not the node's cgroup hierarchy of version 2")
    parent = next((root / each for each in _PARENTS if (root / each).is_dir()), None)
    if parent is None:
        return NoCgroups(f"{root} has no cgroup of the kubelet ({', '.join(_PARENTS)})")
    node_seconds = _seconds(root)
    if node_seconds is None:
        return NoCgroups(f"{root}/cpu.stat has no usage_usec, which it has since Linux 5.8")
    return _of_pods(parent, node_seconds)


def _of_pods(parent: Path, node_seconds: float) -> CpuTimes:
    pods: dict[str, float | None] = {}
    complete = True
    for directory in (parent, *_qos_directories(parent)):
        try:
            for uid, path in _pod_directories(directory):
                if len(pods) >= MOST_PODS:
                    complete = False
                    break
                pods[uid] = None if uid in pods else _seconds(path)
        except (OSError, _BeyondBoundsError):
            complete = False
    return CpuTimes(node_seconds, pods, complete)


class _BeyondBoundsError(Exception):
    pass


def _qos_directories(parent: Path) -> Iterator[Path]:
    prefix, dot, suffix = parent.name.partition(".")
    for qos in ("burstable", "besteffort"):
        path = parent / (f"{prefix}-{qos}{dot}{suffix}" if dot else qos)
        # The kubelet makes both when it starts.
        if path.is_dir():
            yield path


def _pod_directories(directory: Path) -> Iterator[tuple[str, Path]]:
    with os.scandir(directory) as entries:
        for count, entry in enumerate(entries):
            if count >= MOST_ENTRIES:
                raise _BeyondBoundsError
            uid = pod_uid_of(entry.name)
            if uid is not None and entry.is_dir(follow_symlinks=False):
                yield uid, Path(entry.path)


def _seconds(directory: Path) -> float | None:
    try:
        with (directory / "cpu.stat").open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    if len(content) > MOST_BYTES:
        return None
    used_us = usage_us(content.decode("ascii", errors="replace"))
    return None if used_us is None else used_us / _US_PER_S
