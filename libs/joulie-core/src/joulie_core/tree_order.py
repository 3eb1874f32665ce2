"""Order in which a tree of named objects is shown: parents first, siblings by name."""

from collections import defaultdict
from collections.abc import Mapping


def tree_order(parents: Mapping[str, str | None]) -> list[tuple[str, int]]:
    """Return every name and the number of names above it, each below its parent.

    A name whose parent is not among them stands as a root. Those that no root leads to are in a cycle or below one, and
    follow at the end, each cycle from its first name on.

    Args:
        parents: of each name, the one that it is below; None: none.
    """
    below: dict[str, list[str]] = defaultdict(list)
    roots = []
    for name, parent in sorted(parents.items()):
        if parent is None or parent not in parents:
            roots.append(name)
        else:
            below[parent].append(name)
    depths: dict[str, int] = {}
    for root in [*roots, *sorted(parents)]:
        waiting = [(root, 0)]
        while waiting:
            name, depth = waiting.pop()
            if name not in depths:
                depths[name] = depth
                waiting += [(child, depth + 1) for child in reversed(below[name])]
    return list(depths.items())
