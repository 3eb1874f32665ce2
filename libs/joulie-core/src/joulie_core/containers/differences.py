"""Differences between two states of hundreds of containers of which an event changes a few."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def changed_keys(now: Mapping[Key, object], before: Mapping[Key, object]) -> Iterator[Key]:
    """Return the keys whose value is not the very object that it was before, new keys included."""
    return compress(now, map(is_not, map(before.get, now), now.values()))


def changes(
    now: Mapping[Key, Value], before: Mapping[Key, Value]
) -> Sequence[tuple[Value | None, Value, Sequence[Key]]]:
    """Return what the changed keys had and have, each pair of objects once with all its keys.

    A new key had None. Equal values that are different objects count as changed.
    """
    changed = list(changed_keys(now, before))
    ids = zip(map(id, map(before.get, changed)), map(id, map(now.__getitem__, changed)), strict=True)
    pairs: defaultdict[tuple[int, int], list[Key]] = defaultdict(list)
    for key, pair in zip(changed, ids, strict=True):
        pairs[pair].append(key)
    return [(before.get(keys[0]), now[keys[0]], keys) for keys in pairs.values()]
