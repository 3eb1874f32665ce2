"""Requirements of a real node that the host must meet, besides the executables that `binaries` finds or builds."""

import os
import shutil
from pathlib import Path

from joulie_devcluster.host.privileges import is_privileged_root

# PATH often lacks the directories of system programs.
_SYSTEM_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/sbin", "/sbin"))
_FILE_SYSTEMS, _MOUNTS = Path("/proc/filesystems"), Path("/proc/self/mounts")
_ELF_MAGIC = b"\x7fELF"
_PROGRAM_INTERPRETER = 3


def missing_requirements() -> list[str]:
    """Return the requirements that this host does not meet, each with its remedy; empty if it meets all."""
    privileges = missing_privileges()
    missing = [] if privileges is None else [privileges]
    if find_runc() is None:
        missing.append("runc not found: install Debian's package runc")
    if find_busybox() is None:
        missing.append("static busybox (for the sandbox image) not found: install Debian's package busybox-static")
    return missing


def missing_privileges() -> str | None:
    """Return why this user cannot start a real node whatever is installed, or None if the user can."""
    if is_privileged_root():
        return None
    return "a real node requires root with CAP_SYS_ADMIN, for namespaces, mounts and control groups"


def find_runc() -> Path | None:
    """Return the path of runc, which starts containers, or None if it is not installed."""
    return _which("runc")


def find_busybox() -> Path | None:
    """Return the path of a statically linked busybox, or None if there is none."""
    found = _which("busybox")
    return found if found is not None and is_static(found.read_bytes()) else None


def find_snapshotter(directory: Path) -> str:
    """Return the snapshotter, which combines image layers, for a containerd with its data in `directory`.

    Returns:
        "overlayfs" if the kernel supports overlay mounts there. Otherwise "native", which copies files: it works
        everywhere, and takes seconds for each container of a large image.
    """
    kinds = {line.split()[-1] for line in _FILE_SYSTEMS.read_text().splitlines()}
    return "overlayfs" if "overlay" in kinds and _file_system(directory) != "overlay" else "native"


def is_static(content: bytes) -> bool:
    """Return whether the content is that of a 64-bit ELF executable that runs without a loader."""
    if not content.startswith(_ELF_MAGIC):
        return False
    # The ELF specification: the file header contains offset, size and number of the program headers; each of them
    # begins with its type.
    start = int.from_bytes(content[0x20:0x28], "little")
    size, count = (int.from_bytes(content[at : at + 2], "little") for at in (0x36, 0x38))
    kinds = (int.from_bytes(content[at : at + 4], "little") for at in range(start, start + size * count, size or 1))
    return _PROGRAM_INTERPRETER not in kinds


def _file_system(directory: Path) -> str:
    rows = [line.split() for line in _MOUNTS.read_text().splitlines()]
    holders = [(Path(row[1]), row[2]) for row in rows if directory.resolve().is_relative_to(row[1])]
    # The last one of the deepest mount points: a later mount hides an earlier one at the same path.
    return max(enumerate(holders), key=lambda each: (len(each[1][0].parts), each[0]))[1][1]


def _which(name: str) -> Path | None:
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    return None if found is None else Path(found).resolve()
