"""Sets of small numbers: CPUs and memory nodes, in the list format of the kernel.

A set is one integer with a bit per member. Ids have no upper bound: machines number CPUs sparsely, also above 1,024.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Self, TypeAlias


class InvalidIdListError(ValueError):
    """A text is not a list of ids such as `0-3,8`."""


class IdSet:
    """An immutable set of ids, ordered by id."""

    __slots__ = ("mask",)
    mask: int

    def __init__(self, ids: Iterable[int] = ()) -> None:
        """Collect ids; raises ValueError for a negative one."""
        mask = 0
        for number in ids:
            mask |= 1 << number
        self.mask = mask

    @classmethod
    def from_mask(cls, mask: int) -> Self:
        """Return the set whose members are the bits of a mask."""
        result = cls.__new__(cls)
        result.mask = mask
        return result

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the list format of the kernel, `0-3,8,10-14:2`; blanks around a part are ignored.

        Raises:
            InvalidIdListError: With the part that is not a number, a range or a range with a step.
        """
        mask = 0
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            mask |= _mask(part)
        return cls.from_mask(mask)

    def lowest(self, count: int) -> "IdSet":
        """Return the `count` lowest members, or all where there are fewer."""
        mask, rest = 0, self.mask
        for _ in range(count):
            if not rest:
                break
            low = rest & -rest
            mask |= low
            rest ^= low
        return IdSet.from_mask(mask)

    def min(self) -> int:
        """Return the lowest member; raises ValueError where there is none."""
        if not self.mask:
            raise ValueError("an empty set has no lowest id")
        return (self.mask & -self.mask).bit_length() - 1

    def isdisjoint(self, other: "IdSet") -> bool:
        """Return whether there is no common member."""
        return not self.mask & other.mask

    def __or__(self, other: "IdSet") -> "IdSet":
        return IdSet.from_mask(self.mask | other.mask)

    def __and__(self, other: "IdSet") -> "IdSet":
        return IdSet.from_mask(self.mask & other.mask)

    def __sub__(self, other: "IdSet") -> "IdSet":
        return IdSet.from_mask(self.mask & ~other.mask)

    def __le__(self, other: "IdSet") -> bool:
        return not self.mask & ~other.mask

    def __contains__(self, number: int) -> bool:
        return number >= 0 and bool(self.mask >> number & 1)

    def __iter__(self) -> Iterator[int]:
        rest = self.mask
        while rest:
            low = rest & -rest
            yield low.bit_length() - 1
            rest ^= low

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __str__(self) -> str:
        """Return the list format of the kernel, shortest form: `0-3,8`."""
        return _text(self.mask)

    def __repr__(self) -> str:
        return f"IdSet({str(self)!r})"


@lru_cache(maxsize=4096)
def _text(rest: int) -> str:
    """Return the list format of a mask; the containers of a node share a few sets."""
    parts: list[str] = []
    offset = 0
    while rest:
        gap = (rest & -rest).bit_length() - 1
        rest >>= gap
        length = (~rest & (rest + 1)).bit_length() - 1
        first = offset + gap
        parts.append(str(first) if length == 1 else f"{first}-{first + length - 1}")
        rest >>= length
        offset = first + length
    return ",".join(parts)


#: CPUs by the kernel's number.
Cpus: TypeAlias = IdSet
#: NUMA nodes by the kernel's number.
MemoryNodes: TypeAlias = IdSet
EMPTY: Final = IdSet()


def union(sets: Iterable[IdSet]) -> IdSet:
    """Return the union of sets."""
    mask = 0
    for ids in sets:
        mask |= ids.mask
    return IdSet.from_mask(mask)


def _mask(part: str) -> int:
    span, _, step = part.partition(":")
    first, dash, last = span.partition("-")
    numbers = [text.strip() for text in (first, last if dash else first, step or "1")]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise InvalidIdListError(f"{part!r} is not an id or a range of ids, such as 3 or 0-7")
    low, high, stride = map(int, numbers)
    if low > high or stride == 0 or high > HIGHEST_ID:
        raise InvalidIdListError(f"{part!r} is not a range of ids from 0 to {HIGHEST_ID}")
    if stride == 1:
        return (1 << high + 1) - (1 << low)
    return sum(1 << number for number in range(low, high + 1, stride))


#: Highest id in a text: a typing error must not become a number of gigabytes. Linux is built for 8,192 CPUs at most.
HIGHEST_ID: Final = 65_535
