"""Privileges of the current user that containers and namespaces require."""

import os
import re
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 21


def is_privileged_root() -> bool:
    """Return whether this process is root with CAP_SYS_ADMIN. Root in a container usually lacks the capability."""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", _STATUS.read_text(), re.MULTILINE)
    return os.geteuid() == 0 and capabilities is not None and bool(int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1)
