"""Bounds of what drivers and backends report, and validators that keep values within them.

Texts are made printable and truncated with a mark, lists are truncated, and a number beyond what hardware can have is
unknown: it is a mistake or forged, and a node must not count as freer for it; `dropped_figures` tells which. Values
that fit, and values of another type, are returned unchanged; the model's own validation rejects the latter. The maxima
below are those of the schema of NodeHardware and of labels and resources alike. An object stored before a maximum
existed is read as any other.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pydantic import ValidationInfo
from pydantic.alias_generators import to_camel

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

#: Figures that are told of one report.
_MOST_DROPPED: Final = 16
_DROPPED: Final[ContextVar[list[str] | None]] = ContextVar("dropped figures", default=None)


def cut_text(most: int) -> Cut:
    """Return a validator that makes text printable and truncates it to a number of characters, including the mark."""

    def cut(value: object) -> object:
        return printable(value, most) if isinstance(value, str) else value

    return cut


@contextmanager
def dropped_figures() -> Iterator[list[str]]:
    """Collect the figures that models which are made in this context take for unknown, as field and value each."""
    found: list[str] = []
    token = _DROPPED.set(found)
    try:
        yield found
    finally:
        _DROPPED.reset(token)


def unknown_beyond(
    most: float, unknown: float | None = 0, *, tells: bool = True
) -> Callable[[object, ValidationInfo], object]:
    """Return a validator that replaces a number above `most`, infinity included, by the value for unknown.

    Args:
        most: the highest value that is believed.
        unknown: what stands for unknown.
        tells: whether `dropped_figures` tells of it; not of a figure that moves by itself.
    """

    def cut(value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > most:
            return value
        found = _DROPPED.get()
        if tells and found is not None and len(found) < _MOST_DROPPED:
            name = to_camel(info.field_name or "").replace("Mhz", "MHz")
            found.append(f"{name} {_shown(value)} is beyond {most:.15g}, and taken for unknown")
        return unknown

    return cut


def _shown(value: float) -> str:
    """Return a number of any size as text."""
    try:
        return f"{value:.6g}"
    except OverflowError:
        return "of more than 308 digits"


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
