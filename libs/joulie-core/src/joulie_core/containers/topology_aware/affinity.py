"""Worth of pools to a container by where the containers are that it wants to be near to, or far from."""

from collections.abc import Callable, Sequence
from typing import Final

from joulie_core.containers.affinity import Affinity
from joulie_core.containers.container import ContainerInfo
from joulie_core.containers.topology_aware.ledger import PoolLedger
from joulie_core.containers.topology_aware.pools import PoolTree
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicySpec

#: What a container is worth to the next larger or smaller pool, in relation to its own.
_PER_LINK: Final = 0.75
#: Weight of containers of the same pod or namespace, where the configuration places them together.
_COLOCATED: Final = 10


def affinity_scores(
    ledger: PoolLedger, container: ContainerInfo, affinities: Sequence[Affinity], spec: TopologyAwarePolicySpec
) -> Sequence[float] | None:
    """Return the worth of each pool; None where the container has no such wishes.

    Args:
        ledger: The grants.
        container: The container, which has none.
        affinities: What its annotations request; the configuration counts where they request nothing.
        spec: The configuration.
    """
    weigh = _requested(container, affinities) if affinities else _configured(container, spec)
    if weigh is None:
        return None
    weights = [0] * len(ledger.supply.tree.pools)
    for grant in ledger.grants.values():
        weights[grant.pool] += weigh(grant.container)
    return _spread(ledger.supply.tree, weights)


def _spread(tree: PoolTree, weights: Sequence[int]) -> Sequence[float]:
    scores = []
    for pool in tree.pools:
        around = (weights[above] * _PER_LINK**links for links, above in enumerate(pool.ancestors))
        below = (
            weights[each] * _PER_LINK ** (tree.pools[each].depth - pool.depth)
            for each in pool.subtree
            if each != pool.id
        )
        scores.append(sum(around) + sum(below))
    return scores


def _requested(container: ContainerInfo, affinities: Sequence[Affinity]) -> Callable[[ContainerInfo], int]:
    return lambda other: sum(each.weight for each in affinities if each.applies(container, other))


def _configured(container: ContainerInfo, spec: TopologyAwarePolicySpec) -> Callable[[ContainerInfo], int] | None:
    if spec.colocate_namespaces:
        return lambda other: _COLOCATED * (other.pod.namespace == container.pod.namespace)
    if spec.colocate_pods:
        return lambda other: _COLOCATED * (other.pod.id == container.pod.id)
    return None
