"""Users of each GPU: the driver's list of processes, and the pods that these belong to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from joulie_actuator.hardware.gpu.driver import GpuDriver
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.process_pods import NO_POD, pod_of, why_unseen
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import GpuProcesses, GpuUsers

#: Processes of one GPU that are looked at.
MOST_PROCESSES: Final = 4096


def read_users(drivers: Mapping[str, GpuDriver], proc: Path) -> GpuProcesses:
    """Return what uses each GPU.

    Args:
        drivers: by UUID.
        proc: a mount of proc.
    """
    unseen = why_unseen(proc)
    users: dict[str, GpuUsers] = {}
    failures: dict[str, HardwareFailure] = {}
    for uuid, driver in drivers.items():
        found = unseen or _users(driver.process_ids(uuid), proc)
        if isinstance(found, HardwareFailure):
            failures[uuid] = found
        else:
            users[uuid] = found
    return GpuProcesses(users=users, failures=failures)


def _users(pids: tuple[int, ...] | HardwareFailure, proc: Path) -> GpuUsers | HardwareFailure:
    if isinstance(pids, HardwareFailure):
        return pids
    if len(pids) > MOST_PROCESSES:
        return HardwareFailure(Reason.OUT_OF_RANGE, f"{len(pids)} processes, at most {MOST_PROCESSES} are looked at")
    pods: set[str] = set()
    outside_pid: int | None = None
    for pid in pids:
        uid = pod_of(proc, pid)
        if isinstance(uid, HardwareFailure):
            return uid
        if uid == NO_POD:
            outside_pid = pid if outside_pid is None else outside_pid
        elif uid is not None:
            pods.add(uid)
    return GpuUsers(pods=tuple(sorted(pods)), outside_pid=outside_pid)
