"""How many CPUs of a class the pools have; the machine has 8 CPUs, of which CPU 0 is reserved and CPU 7 isolated."""

from joulie_core.containers.idset import IdSet
from joulie_testing.core.machines import MachineShape
from joulie_testing.core.topology_aware import TopologyAwareNode


def capacity(**options):
    topology = MachineShape(cores_per_node=8, isolated=IdSet([7])).topology()
    spec = {"reservedResources": {"cpu": "cpuset:0"}, "cpuClasses": [{"name": "night"}], **options}
    return TopologyAwareNode(topology, spec).policy.class_capacity()


def test_a_class_has_the_cpus_of_its_pools():
    found = capacity(sharedPoolCPUClass="eco", reservedPoolCPUClass="standard", defaultExclusiveCPUClass="performance")
    assert (found["eco"], found["standard"], found["performance"]) == (6_000, 1_000, 7_000)


def test_pools_of_one_class_add_up_without_counting_a_cpu_twice():
    assert capacity(sharedPoolCPUClass="eco", reservedPoolCPUClass="eco")["eco"] == 7_000
    assert capacity(sharedPoolCPUClass="eco", defaultExclusiveCPUClass="eco")["eco"] == 7_000


def test_a_class_of_no_pool_may_be_that_of_all_exclusive_cpus():
    assert capacity(sharedPoolCPUClass="eco")["night"] == 7_000
