"""What differs between two states of hundreds of containers of which an event changes a few."""

from collections.abc import Iterator, Mapping
from itertools import compress
from operator import is_not
from typing import TypeVar

Key = TypeVar("Key")


def changed_keys(now: Mapping[Key, object], before: Mapping[Key, object]) -> Iterator[Key]:
    """Return the keys whose value is not the very object that it was before, new keys included."""
    return compress(now, map(is_not, map(before.get, now), now.values()))
