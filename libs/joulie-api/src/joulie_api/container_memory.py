"""The memory limit of the container that this process runs in."""

from pathlib import Path
from typing import Final

#: In a container this is the container's own cgroup.
_CGROUP_V2: Final = Path("/sys/fs/cgroup/memory.max")
_CGROUP_V1: Final = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit_bytes(*files: Path) -> int | None:
    """Return the limit, in bytes; None where there is none or it cannot be read.

    Args:
        files: where to look, the first that states a limit counts; by default those of cgroups 2 and 1.
    """
    for file in files or (_CGROUP_V2, _CGROUP_V1):
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):  # absent, or "max"
            continue
        # cgroups 1 write a number near 2^63 where there is no limit.
        if 0 < limit < 1 << 60:
            return limit
    return None
