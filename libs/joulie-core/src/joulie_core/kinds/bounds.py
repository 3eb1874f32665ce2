"""Bounds of what drivers and backends report, and validators that keep values within them.

Texts are made printable and truncated with a mark, lists are truncated, and a number beyond what hardware can have is
unknown: it is a mistake or forged, and a node must not count as freer for it. Values that fit, and values of another
type, are returned unchanged; the model's own validation rejects the latter. The maxima below are those of the schema of
NodeHardware and of labels and resources alike. An object stored before a maximum existed is read as any other.
"""

from collections.abc import Callable
from typing import Final

from joulie_core.text import printable

#: Sockets of a node. The largest machines with one kernel have 32 (HPE Superdome Flex), earlier ones 256 (SGI UV).
MOST_SOCKETS: Final = 1024
#: Cores, or hardware threads, of a node: eight times what Linux can be built for (NR_CPUS, 8192).
MOST_CPUS: Final = 65_536
#: GPUs of a node: partitions of a rack-scale system included, no node comes near.
MOST_GPUS: Final = 1024
#: Watts of one CPU package or one GPU: CPUs of 2025 draw 500 W, modules of GPU and CPU 2,700 W (GB200).
MOST_PART_WATTS: Final = 10_000.0
#: MHz of a CPU: ten times the highest clock ever reached.
MOST_MHZ: Final = 100_000.0
#: Bytes of main memory: 1 PiB, more than ten times the largest machine's.
MOST_MEMORY_BYTES: Final = 2**50

Cut = Callable[[object], object]


def cut_text(most: int) -> Cut:
    """Return a validator that makes text printable and truncates it to a number of characters, including the mark."""

    def cut(value: object) -> object:
        return printable(value, most) if isinstance(value, str) else value

    return cut


def unknown_beyond(most: float, unknown: float | None = 0) -> Cut:
    """Return a validator that replaces a number above `most`, infinity included, by the value for unknown."""

    def cut(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return unknown if value > most else value

    return cut


def cut_list(most: int) -> Cut:
    """Return a validator that keeps the first entries of a list."""

    def cut(value: object) -> object:
        return value[:most] if isinstance(value, list | tuple) else value

    return cut


def sum_up(most: int) -> Cut:
    """Return a validator that keeps the first warnings and adds the number of those omitted."""

    def cut(value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) <= most:
            return value
        kept = most - 1
        return [*value[:kept], f"and {len(value) - kept} more warnings"]

    return cut
