import pytest

from joulie_core.containers.idset import IdSet
from joulie_core.containers.node_cpus import node_cpus
from joulie_core.containers.policy import PolicyConfigError
from joulie_core.containers.topology import HardwareTopology, LogicalCpu, MemoryNode

ONLINE = IdSet.parse("0-5,8-9")
#: CPUs 6 and 7 are offline.
MACHINE = HardwareTopology(
    cpus={number: LogicalCpu(id=number, package=0, core=number, l2=number, l3=0) for number in ONLINE},
    nodes={0: MemoryNode(id=0, capacity_bytes=1, cpus=ONLINE, distances={0: 10})},
    offline=IdSet.parse("6-7"),
)


@pytest.mark.parametrize(
    ("option", "available"),
    [
        (None, "0-5,8-9"),
        ("cpuset:0-3", "0-3"),
        ("cpuset:4-7", "4-5"),
        ("exclude-cpuset:0,2", "1,3-5,8-9"),
        ("exclude-cpuset:", "0-5,8-9"),
    ],
)
def test_available_cpus_are_the_online_ones_that_the_option_allows(option, available):
    assert str(node_cpus(MACHINE, option, None).available) == available


@pytest.mark.parametrize("option", ["cpuset:6-7", "cpuset:", "cpuset:100", "exclude-cpuset:0-9"])
def test_an_option_without_an_online_cpu_is_refused(option):
    with pytest.raises(PolicyConfigError, match=rf"availableResources.cpu: '{option}' has no CPU that is online"):
        node_cpus(MACHINE, option, None)


@pytest.mark.parametrize("option", ["4", "750m", "cpus:0-3"])
def test_available_cpus_are_not_a_quantity(option):
    with pytest.raises(PolicyConfigError, match="is not a set of CPUs, such as cpuset:0-7"):
        node_cpus(MACHINE, option, None)


@pytest.mark.parametrize(
    ("option", "count"), [("750m", 1), ("1", 1), (1, 1), (1.5, 2), ("1001m", 2), ("0", 0), ("8", 8)]
)
def test_a_reserved_quantity_is_rounded_up_to_whole_cpus(option, count):
    found = node_cpus(MACHINE, None, option)
    assert (found.reserved_set, found.reserved_count) == (None, count)


@pytest.mark.parametrize(
    ("option", "chosen"),
    [("cpuset:0-1", "0-1"), ("exclude-cpuset:0-3", "4-5"), ("cpuset:5-6", "5")],
    ids=["listed", "all but", "those online of the listed"],
)
def test_a_reserved_set_is_of_available_online_cpus(option, chosen):
    found = node_cpus(MACHINE, "cpuset:0-7", option)
    assert (str(found.reserved_set), found.reserved_count) == (chosen, len(IdSet.parse(chosen)))


@pytest.mark.parametrize("option", ["cpuset:8", "cpuset:3,8", "cpuset:", "cpuset:6", "exclude-cpuset:0-7"])
def test_a_reserved_set_outside_the_available_cpus_is_refused(option):
    with pytest.raises(PolicyConfigError, match="must be one or more of the available CPUs 0-5"):
        node_cpus(MACHINE, "cpuset:0-7", option)


@pytest.mark.parametrize("option", ["9", "-1", 9])
def test_a_reserved_quantity_beyond_the_available_cpus_is_refused(option):
    with pytest.raises(PolicyConfigError, match="is not between 0 and the 8 available CPUs"):
        node_cpus(MACHINE, None, option)


@pytest.mark.parametrize(
    ("available", "reserved", "field"),
    [
        ("cpuset:x", None, "availableResources"),
        (None, "cpuset:1-", "reservedResources"),
        (None, "two", "reservedResources"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_its_field(available, reserved, field):
    with pytest.raises(PolicyConfigError, match=field):
        node_cpus(MACHINE, available, reserved)
