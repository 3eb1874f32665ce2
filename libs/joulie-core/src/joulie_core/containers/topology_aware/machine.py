"""One machine under one configuration: what all decisions of the policy share, and nothing that they change."""

from dataclasses import replace

from joulie_core.containers.container import ContainerId
from joulie_core.containers.cpu_allocator import allocate
from joulie_core.containers.idset import EMPTY, Cpus, IdSet
from joulie_core.containers.memory import MemoryAllocator, MemoryState
from joulie_core.containers.node_cpus import NodeCpus, node_cpus
from joulie_core.containers.topology import HardwareTopology
from joulie_core.containers.topology_aware.ledger import PoolGrant, PoolLedger
from joulie_core.containers.topology_aware.need import WHOLE_CPU_MILLI, ClassNames, CpuUse
from joulie_core.containers.topology_aware.pools import PoolTree
from joulie_core.containers.topology_aware.scoring import PoolChooser
from joulie_core.containers.topology_aware.slicing import Slicer
from joulie_core.containers.topology_aware.supply import Supply
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicySpec


class Machine:
    """The parts of a machine, and how its CPUs are divided without any container."""

    def __init__(self, spec: TopologyAwarePolicySpec, topology: HardwareTopology) -> None:
        """Resolve the configuration.

        Raises:
            PolicyConfigError: It cannot be used on this machine.
        """
        cpus = node_cpus(topology, spec.available_resources.cpu, spec.reserved_resources.cpu)
        self.spec = spec
        self.classes = ClassNames(
            frozenset(spec.classes_by_name), frozenset(each.name for each in spec.scheduling_classes)
        )
        self.topology = topology
        self.available: Cpus = cpus.available
        self.reserved: Cpus = _reserved(topology, cpus)
        isolated = (topology.isolated & cpus.available) - self.reserved
        shared = cpus.available - self.reserved - isolated
        if not shared and not self.reserved:
            # Where all CPUs are isolated, containers still have to run somewhere.
            shared, isolated = isolated, EMPTY
        #: What containers share, and what the kernel isolates, before any is granted.
        self.shared: Cpus = shared
        self.isolated: Cpus = isolated
        self.tree = PoolTree(topology, cpus.available)
        #: CPUs of each pool, as text.
        self.pool_cpus = tuple(str(IdSet.from_mask(pool.cpus)) for pool in self.tree.pools)
        self.memory = MemoryAllocator(topology.nodes)
        self.chooser = PoolChooser(topology, self.tree, self.memory)
        self.slicer = Slicer(topology)

    def empty_ledger(self) -> PoolLedger:
        """Return the ledger without any grant."""
        none = (0,) * len(self.tree.pools)
        supply = Supply(
            tree=self.tree,
            shared=self.shared.mask,
            isolated=self.isolated.mask,
            reserved_milli=WHOLE_CPU_MILLI * len(self.reserved),
            granted=none,
            users=none,
        )
        return PoolLedger(supply=supply, memory=MemoryState(), grants={})

    def removed(self, ledger: PoolLedger, container: ContainerId) -> PoolLedger:
        """Return the ledger without a container's grant; other grants stay as they are."""
        grants = dict(ledger.grants)
        supply = self._freed(ledger.supply, grants.pop(container))
        return PoolLedger(supply=supply, memory=self.memory.release(ledger.memory, container), grants=grants)

    def _freed(self, supply: Supply, grant: PoolGrant) -> Supply:
        """Return the supply without a grant of it."""
        if grant.cpu.use is CpuUse.RESERVED:
            return replace(supply, reserved_milli=supply.reserved_milli + grant.cpu.milli)
        if grant.cpu.users:
            supply = supply.with_users(grant.pool, -grant.cpu.milli, -1)
        return supply.with_shared(
            supply.shared | grant.exclusive & self.shared.mask, supply.isolated | grant.exclusive & self.isolated.mask
        )

    def cpus_of(self, supply: Supply, grant: PoolGrant) -> int | None:
        """Return the CPUs that a grant allows, as a mask; None for those that the runtime has set."""
        if grant.cpu.use is CpuUse.UNCHANGED:
            return None
        if grant.cpu.use is CpuUse.RESERVED:
            return self.reserved.mask
        shared = supply.shared & self.tree.pools[grant.pool].cpus if grant.cpu.users else 0
        return shared | grant.exclusive

    def one_thread_per_core(self, cpus: int) -> int:
        """Return the lowest of the CPUs on each core."""
        result = 0
        for core in self.topology.cores.values():
            found = core.mask & cpus
            result |= found & -found
        return result


def _reserved(topology: HardwareTopology, cpus: NodeCpus) -> Cpus:
    if cpus.reserved_set is not None:
        return cpus.reserved_set
    plain = cpus.available - topology.isolated
    chosen = allocate(topology, plain, min(cpus.reserved_count, len(plain)))
    return chosen | (cpus.available - plain).lowest(cpus.reserved_count - len(chosen))
