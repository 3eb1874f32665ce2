"""Checks whether memory wanted from sets of nodes fits into the nodes: a maximum flow from sets to nodes."""

from collections.abc import Iterator, Mapping
from itertools import pairwise


def crowded_nodes(wanted: Mapping[int, int], capacity: Mapping[int, int]) -> int:
    """Return nodes that are wanted more memory from, by sets within them, than they have.

    Checking single sets is not enough: {0,1}, {1,2} and {0,2} may each fit where all three together do not.

    Args:
        wanted: Bytes by set of nodes, as a mask; the bytes may be anywhere within the set.
        capacity: Bytes by node, as a mask of one bit.

    Returns:
        A mask of nodes whose memory is exceeded, smaller sets first; 0 where everything fits.
    """
    free = dict(capacity)
    used: dict[int, dict[int, int]] = {node: {} for node in capacity}
    # Narrow sets first: for sets that contain each other or are disjoint, this alone finds a fit where there is one.
    for zone in sorted(wanted, key=lambda mask: (mask.bit_count(), mask)):
        rest = wanted[zone]
        for node in bits(zone):
            if taken := min(rest, free[node]):
                free[node] -= taken
                used[node][zone] = taken
                rest -= taken
        while rest > 0:
            path, reached = _path_to_free_node(zone, free, used)
            if not path:
                return reached
            rest -= _push(zone, path, rest, free, used)
    return 0


def bits(mask: int) -> Iterator[int]:
    """Yield the bits of a mask, each as a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


def _path_to_free_node(
    zone: int, free: Mapping[int, int], used: Mapping[int, Mapping[int, int]]
) -> tuple[list[tuple[int, int]], int]:
    """Return steps (zone, node) from a zone to a node with free memory, and all nodes that were reached.

    Every zone but the first has memory on the node of the step before, which it can leave for the node of its own step.
    """
    came_from: dict[int, tuple[int, int]] = {}
    queue: list[int] = []
    reached = 0
    zones = [(zone, 0)]
    while True:
        for via, start in zones:
            for node in bits(via & ~reached):
                reached |= node
                came_from[node] = (via, start)
                if free[node] > 0:
                    return _steps(node, came_from), reached
                queue.append(node)
        if not queue:
            return [], reached
        node = queue.pop(0)
        zones = [(other, node) for other in sorted(used[node])]


def _steps(node: int, came_from: Mapping[int, tuple[int, int]]) -> list[tuple[int, int]]:
    steps = []
    while node:
        zone, start = came_from[node]
        steps.append((zone, node))
        node = start
    return steps[::-1]


def _push(
    zone: int, path: list[tuple[int, int]], rest: int, free: dict[int, int], used: Mapping[int, dict[int, int]]
) -> int:
    """Place up to `rest` bytes of a zone along a path, and return how many were placed."""
    moves = [(other, start, end) for (_, start), (other, end) in pairwise(path)]
    last = path[-1][1]
    amount = min(rest, free[last], *(used[start][other] for other, start, _ in moves))
    free[last] -= amount
    first = path[0][1]
    for other, start, end in moves:
        used[start][other] -= amount
        if not used[start][other]:
            del used[start][other]
        used[end][other] = used[end].get(other, 0) + amount
    used[first][zone] = used[first].get(zone, 0) + amount
    return amount
