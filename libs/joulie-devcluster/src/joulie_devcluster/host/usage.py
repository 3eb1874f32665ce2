"""CPU time and memory of a process, from /proc.

All raise FileNotFoundError where there is no such process.
"""

import os
from pathlib import Path

_KIB_PER_MIB = 1024


def cpu_s(pid: int) -> float:
    """Return the CPU time, user and system, that a process has used since its start, in seconds."""
    # The second field, the command in parentheses, may contain spaces and parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, in MiB.

    Raises:
        ValueError: the process has exited, and its parent has not waited for it yet.
    """
    return _memory_mib(pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """Return the most resident memory that a process has had, in MiB.

    Raises:
        ValueError: the process has exited, and its parent has not waited for it yet.
    """
    return _memory_mib(pid, "VmHWM")


def _memory_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / _KIB_PER_MIB
    raise ValueError(f"process {pid} has no {field}: it has exited")
