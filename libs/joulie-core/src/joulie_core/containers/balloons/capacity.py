"""Number of CPUs of each CPU class that balloons can have on a node, whatever runs there."""

from collections.abc import Mapping

from joulie_core.containers.balloons.types import BalloonTypes


def class_capacity(types: BalloonTypes, available: int) -> Mapping[str, int]:
    """Return the most CPUs that balloons can have, in thousandths, by CPU class.

    Args:
        types: The types of the configuration.
        available: Number of CPUs of the policy.
    """
    kinds = types.by_name.values()
    classes = {kind.cpu_class for kind in kinds if kind.cpu_class and not kind.components}
    return {name: 1000 * _most(types, name, available) for name in sorted(classes)}


def _most(types: BalloonTypes, cpu_class: str, available: int) -> int:
    reachable = 0
    for kind in types.by_name.values():
        in_one = min(kind.max_cpus, sum(leaf.max_cpus for leaf in types.leaves(kind) if leaf.cpu_class == cpu_class))
        if not in_one:
            # Its balloons always have some CPUs, which are of other classes.
            available -= kind.min_balloons * types.least(kind)
        elif kind.max_balloons is None:
            reachable += available
        else:
            reachable += kind.max_balloons * in_one
    return min(reachable, available)
