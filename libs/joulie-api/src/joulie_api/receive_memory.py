"""Memory for what is received, kept between one reading of a socket and the next.

asyncio receives into a new object of 256 KiB each time and then shrinks it to what has arrived. glibc takes blocks of
128 KiB or more from the kernel, one by one, and returns them: system calls and page faults, which cost more than
receiving a few kilobytes. It would raise that limit itself once a block of that size is freed, but these have been
shrunk by then.
Source: docs/results/cost-per-pod.md.
"""

import ctypes
from typing import Final

#: Numbers of the parameters, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
#: Blocks up to this size are taken from memory that the process keeps, and as much of it is kept while it is free.
_KEPT_BYTES: Final = 1024 * 1024


def keep_receive_memory() -> bool:
    """Let this process keep the memory that it receives into; return whether its C library allows that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(parameter, _KEPT_BYTES) == 1 for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))
