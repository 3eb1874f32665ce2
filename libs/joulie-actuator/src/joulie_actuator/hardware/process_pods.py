"""The pod that a process of this machine belongs to, by the path of its cgroup.

Guarantees that nothing is said where this process does not see all processes of the machine: there a process that is
not found may be in another PID namespace, and not ended. Sizes of files are bounded.
Source: Linux, Documentation/admin-guide/cgroup-v2.rst and include/linux/proc_ns.h.
"""

from pathlib import Path
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_core.pod_cgroup import pod_uid_of

#: The machine's own PID namespace: PROC_PID_INIT_INO.
_MACHINE: Final = "pid:[4026531836]"
#: Bytes of /proc/PID/cgroup: a line for each hierarchy.
_MOST_BYTES: Final = 1 << 16
#: UID of a process that is in no pod.
NO_POD: Final = ""


def why_unseen(proc: Path) -> HardwareFailure | None:
    """Return why not all processes of the machine are seen; None where they are.

    Args:
        proc: a mount of proc.
    """
    try:
        namespace = str((proc / "self/ns/pid").readlink())
        # Not seen either where proc is mounted with hidepid.
        (proc / "1/cgroup").read_bytes()
    except OSError as error:
        return HardwareFailure(Reason.NO_INTERFACE, f"{error.filename}: {error.strerror}")
    if namespace != _MACHINE:
        return HardwareFailure(Reason.NO_INTERFACE, "this process is not in the PID namespace of the machine")
    return None


def pod_of(proc: Path, pid: int) -> str | HardwareFailure | None:
    """Return the UID of the pod of a process, `NO_POD` for one in none; None for one that has ended."""
    path = proc / str(pid) / "cgroup"
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        return HardwareFailure(Reason.IO_ERROR, f"{path}: {error.strerror}")
    if len(content) > _MOST_BYTES:
        return HardwareFailure(Reason.IO_ERROR, f"{path} has more than {_MOST_BYTES} bytes")
    names = content.decode("utf-8", errors="replace").replace("\n", "/").split("/")
    return next((uid for name in names if (uid := pod_uid_of(name)) is not None), NO_POD)
