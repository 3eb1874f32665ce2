"""CPU usage of containers, read from their cgroups on the host."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_core.containers.container import ContainerId
from joulie_core.cpu_stat import usage_us

_US_PER_S: Final = 1_000_000
_NS_PER_US: Final = 1000
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class _Sample:
    usage_us: int
    at_s: float


class UsageReader:
    """Usage between two readings, in thousandths of a CPU.

    Args:
        host_root: directory below which the host's /sys is found.
    """

    def __init__(self, host_root: Path) -> None:
        self._root = host_root / "sys/fs/cgroup"
        self._samples: dict[ContainerId, _Sample] = {}

    def read(self, cgroups: Mapping[ContainerId, str], now_s: float) -> Mapping[ContainerId, int]:
        """Return the usage since the last reading, without containers whose cgroup cannot be read or is new.

        Args:
            cgroups: The runtime's name of each container's cgroup.
            now_s: A monotonic time.
        """
        samples = {
            container: _Sample(usage_us, now_s)
            for container, name in cgroups.items()
            if (usage_us := self._usage_us(name)) is not None
        }
        usage = {
            container: round((sample.usage_us - earlier.usage_us) * _MILLI / ((now_s - earlier.at_s) * _US_PER_S))
            for container, sample in samples.items()
            if (earlier := self._samples.get(container)) is not None
            and now_s > earlier.at_s
            and sample.usage_us >= earlier.usage_us
        }
        self._samples = samples
        return usage

    def _usage_us(self, cgroup: str) -> int | None:
        path = cgroup_path(cgroup)
        try:
            found = usage_us((self._root / path / "cpu.stat").read_text(encoding="ascii"))
        except (OSError, ValueError):
            found = None
        if found is not None:
            return found
        # Not the unified hierarchy, or the container has ended.
        try:
            return int((self._root / "cpuacct" / path / "cpuacct.usage").read_text(encoding="ascii")) // _NS_PER_US
        except (OSError, ValueError):
            return None


def cgroup_path(name: str) -> str:
    """Return the directory of a cgroup below the root of its hierarchy.

    The cgroupfs driver names it by its path; the systemd driver as `SLICE:PREFIX:ID`, where each dash in the slice's
    name is a level.
    """
    match name.split(":"):
        case [parent, prefix, identity]:
            levels = parent.removesuffix(".slice").split("-")
            slices = ["-".join(levels[: depth + 1]) + ".slice" for depth in range(len(levels))]
            return "/".join([*slices, f"{prefix}-{identity}.scope"])
        case _:
            return name.strip("/")
