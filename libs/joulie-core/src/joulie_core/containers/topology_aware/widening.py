"""Widening containers on shared CPUs to larger pools, so that CPUs can be taken out of the smaller ones.

Every pool with containers on its shared CPUs keeps whole CPUs for them, however little they request. So CPUs may be
free in number without one that can be taken. Containers that share the CPUs of a larger pool round up less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.need import CpuNeed
from joulie_core.containers.topology_aware.scoring import fits
from joulie_core.containers.topology_aware.supply import Supply


def widen_for(ledger: PoolLedger, cpu: CpuNeed) -> PoolLedger | None:
    """Return the ledger with as few containers widened as let the whole machine grant exclusive CPUs.

    None where the CPUs are not there.
    """
    root = ledger.supply.tree.root
    if ledger.supply.spare(root.id, cpu.milli, cpu.users) < cpu.exclusive:
        return None
    while not fits(ledger.supply, root, cpu):
        for grant in _cheapest(ledger.supply, _members(ledger)):
            ledger = _widened(ledger, grant)
    return ledger


def _members(ledger: PoolLedger) -> Mapping[int, Sequence[PoolGrant]]:
    """Return the containers on shared CPUs by pool, those with the largest share first; none of the whole machine."""
    members: dict[int, list[PoolGrant]] = {}
    for grant in ledger.grants.values():
        if grant.cpu.users and grant.pool != ledger.supply.tree.root.id:
            members.setdefault(grant.pool, []).append(grant)
    for grants in members.values():
        grants.sort(key=lambda grant: (-grant.cpu.milli, -grant.container.created_ns, grant.container.id))
    return members


def _cheapest(supply: Supply, members: Mapping[int, Sequence[PoolGrant]]) -> Sequence[PoolGrant]:
    """Return the containers of a pool that keep a CPU in it, the fewest there are; or all of the smallest pool."""
    choices = []
    for pool, grants in members.items():
        shares = accumulate((grant.cpu.milli for grant in grants), initial=0)
        for count, share in enumerate(shares):
            if supply.spare(pool, -share, -count) > supply.spare(pool):
                choices.append((count, pool))
                break
    if not choices:
        return members[min(members)]
    count, pool = min(choices)
    return members[pool][:count]


def _widened(ledger: PoolLedger, grant: PoolGrant) -> PoolLedger:
    parent = ledger.supply.tree.pools[grant.pool].ancestors[1]
    supply = ledger.supply.with_users(grant.pool, -grant.cpu.milli, -1).with_users(parent, grant.cpu.milli)
    return ledger.with_grant(supply, replace(grant, pool=parent))
