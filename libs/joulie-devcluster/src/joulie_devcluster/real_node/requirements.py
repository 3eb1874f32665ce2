"""What a machine must have so that a real node can run on it, beyond what `binaries` finds or builds."""

import os
import re
import shutil
from pathlib import Path

# A user's PATH often lacks the directories of system programs.
_SYSTEM_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/sbin", "/sbin"))
_FILE_SYSTEMS, _MOUNTS = Path("/proc/filesystems"), Path("/proc/self/mounts")
_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 21
_ELF_MAGIC = b"\x7fELF"
_PROGRAM_INTERPRETER = 3


def obstacles() -> list[str]:
    """Why no real node can be started here, each with the way out; empty where one can."""
    rights = missing_rights()
    found = [] if rights is None else [rights]
    if find_runc() is None:
        found.append("no runc: install it (Debian's package runc)")
    if find_busybox() is None:
        found.append("no static busybox, which the sandbox image is made of: install Debian's package busybox-static")
    return found


def missing_rights() -> str | None:
    """Why this user cannot start a real node, whatever is installed; None where he can."""
    status = re.search(r"^CapEff:\s*([0-9a-f]+)$", _STATUS.read_text(), re.MULTILINE)
    # Root in a container mostly lacks it.
    if os.geteuid() == 0 and status is not None and int(status[1], 16) >> _CAP_SYS_ADMIN & 1:
        return None
    return "a real node needs root with CAP_SYS_ADMIN: namespaces, mounts and control groups are root's"


def find_runc() -> Path | None:
    """The program that starts containers."""
    return _which("runc")


def find_busybox() -> Path | None:
    """A busybox that needs no library."""
    found = _which("busybox")
    return found if found is not None and is_static(found.read_bytes()) else None


def find_snapshotter(directory: Path) -> str:
    """How a runtime with its data in `directory` puts the layers of images together.

    "overlayfs" where the kernel can lay directories over one another there. Otherwise "native", which copies: it works
    everywhere, and takes seconds for each container of a large image.
    """
    kinds = {line.split()[-1] for line in _FILE_SYSTEMS.read_text().splitlines()}
    return "overlayfs" if "overlay" in kinds and _file_system(directory) != "overlay" else "native"


def is_static(content: bytes) -> bool:
    """Whether a 64-bit executable runs without a loader; False for what is no such executable."""
    if not content.startswith(_ELF_MAGIC):
        return False
    # The ELF specification: place, size and number of the program headers in the file header; the type comes first in
    # each of them.
    start = int.from_bytes(content[0x20:0x28], "little")
    size, count = (int.from_bytes(content[at : at + 2], "little") for at in (0x36, 0x38))
    kinds = (int.from_bytes(content[at : at + 4], "little") for at in range(start, start + size * count, size or 1))
    return _PROGRAM_INTERPRETER not in kinds


def _file_system(directory: Path) -> str:
    rows = [line.split() for line in _MOUNTS.read_text().splitlines()]
    holders = [(Path(row[1]), row[2]) for row in rows if directory.resolve().is_relative_to(row[1])]
    # The last of the deepest: what was mounted over something hides it.
    return max(enumerate(holders), key=lambda each: (len(each[1][0].parts), each[0]))[1][1]


def _which(name: str) -> Path | None:
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    return None if found is None else Path(found).resolve()
