"""CPU time of a cgroup from its file `cpu.stat`. Source: Linux, Documentation/admin-guide/cgroup-v2.rst."""

from typing import Final

#: Digits of 64 bits.
_MOST_DIGITS: Final = 20


def usage_us(text: str) -> int | None:
    """Return `usage_usec`, in microseconds; None where the file has none, as on the older hierarchy."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec":
            return int(value) if len(value) <= _MOST_DIGITS and value.isascii() and value.isdigit() else None
    return None
