"""The control group of a running container, as the kernel has it: by cgroup v1 or v2, whatever driver made it."""

import errno
import math
from dataclasses import dataclass
from pathlib import Path

from joulie_core.containers.idset import IdSet


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """What the files of a container's group say."""

    cpus: IdSet
    memory_nodes: IdSet
    #: CPU limit; None where there is none.
    limit_milli: int | None
    #: `cpu.shares` of cgroup v1, or `cpu.weight` of v2.
    weight: int
    is_unified: bool

    @classmethod
    def of(cls, pid: int) -> "ContainerGroup":
        """Read the group of a process.

        Raises:
            AssertionError: The process has ended.
        """
        try:
            groups = _groups(pid)
            return _unified(groups[""]) if "cpuset" not in groups else _of_v1(groups)
        except OSError as error:
            # The kernel answers ENODEV for a file of a group that is being removed.
            if error.errno not in {errno.ENOENT, errno.ENODEV, errno.ESRCH}:
                raise
            raise AssertionError(f"process {pid} has ended: {error}") from error

    def has_shares(self, shares: int) -> bool:
        """Return whether the weight is that of shares of the CRI: runtimes convert them to cgroup v2 in two ways."""
        if not self.is_unified:
            return self.weight == shares
        log = math.log2(shares)
        return self.weight in {
            1 + (shares - 2) * 9999 // 262142,
            math.ceil(10 ** (log * log / 612 + 125 * log / 612 - 7 / 34)),
        }


def _unified(group: Path) -> ContainerGroup:
    quota, period = (group / "cpu.max").read_text().split()
    return ContainerGroup(
        cpus=_ids(group / "cpuset.cpus"),
        memory_nodes=_ids(group / "cpuset.mems"),
        limit_milli=None if quota == "max" else 1000 * int(quota) // int(period),
        weight=int((group / "cpu.weight").read_text()),
        is_unified=True,
    )


def _of_v1(groups: dict[str, Path]) -> ContainerGroup:
    quota, period = (int((groups["cpu"] / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return ContainerGroup(
        cpus=_ids(groups["cpuset"] / "cpuset.cpus"),
        memory_nodes=_ids(groups["cpuset"] / "cpuset.mems"),
        limit_milli=None if quota < 0 else 1000 * quota // period,
        weight=int((groups["cpu"] / "cpu.shares").read_text()),
        is_unified=False,
    )


def _ids(file: Path) -> IdSet:
    return IdSet.parse(file.read_text().strip())


def _groups(pid: int) -> dict[str, Path]:
    """Return the directories of a process's groups by controller; that of cgroup v2 has none."""
    found: dict[str, Path] = {}
    mounts = _mounts()
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounts:
                root, mount = mounts[controller]
                found[controller] = mount / Path(path).relative_to(root)
    return found


def _mounts() -> dict[str, tuple[str, Path]]:
    """Return the root within the hierarchy and the mount point, by controller."""
    found: dict[str, tuple[str, Path]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, filesystem = line.partition(" - ")
        root, point = mount.split()[3:5]
        kind, _, options = filesystem.split()[:3]
        if kind in {"cgroup", "cgroup2"}:
            for controller in ("",) if kind == "cgroup2" else options.split(","):
                found.setdefault(controller, (root, Path(point)))
    return found
