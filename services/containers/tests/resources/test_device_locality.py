"""CPUs and memory nodes close to devices and paths."""

import pytest

from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_containers.resources.device_locality import DeviceKind, DeviceLocalities, DeviceNode, Locality
from joulie_core.containers.container import TopologyHint
from joulie_core.containers.idset import IdSet
from joulie_core.containers.topology import MemoryKind
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import AttachedMemory, MachineShape

TOPOLOGY = MachineShape(packages=2, cores_per_node=2, attached=(AttachedMemory(MemoryKind.PMEM),)).topology()
FIRST, SECOND = Locality(IdSet([0, 1]), IdSet([0])), Locality(IdSet([2, 3]), IdSet([1]))


@pytest.fixture
def sys(tmp_path):
    put_host(tmp_path, TOPOLOGY, idle_states=())
    return tmp_path / "sys"


@pytest.fixture
def localities(sys):
    return DeviceLocalities(SysfsTree(sys), TOPOLOGY)


def put(sys, path, text=""):
    file = sys / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def link(sys, path, target):
    file = sys / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(sys / target)


def disk(sys, name, number, **shown):
    """Put a disk on a PCI device that shows these files."""
    bus = f"devices/pci0000:00/0000:{number:02d}:00.0"
    for file, text in shown.items():
        put(sys, f"{bus}/{file}", text)
    put(sys, f"{bus}/nvme/nvme{number}/{name}/dev", f"259:{number}")
    link(sys, f"dev/block/259:{number}", f"{bus}/nvme/nvme{number}/{name}")
    link(sys, f"class/block/{name}", f"{bus}/nvme/nvme{number}/{name}")


def test_a_device_is_where_its_bus_is(sys, localities):
    disk(sys, "nvme1n1", 1, numa_node=1, local_cpulist="2-3")
    assert localities.of_device(DeviceKind.BLOCK, 259, 1) == SECOND
    assert localities.of_path("/dev/nvme1n1") == SECOND
    assert localities.of_path("/sys/devices/pci0000:00/0000:01:00.0") == SECOND


def test_the_local_cpus_count_where_no_node_is_shown(sys, localities):
    disk(sys, "nvme1n1", 1, numa_node=-1, local_cpulist="0-1")
    assert localities.of_device(DeviceKind.BLOCK, 259, 1) == FIRST


def test_a_memory_only_node_is_close_to_no_cpus(sys, localities):
    disk(sys, "pmem0", 1, numa_node=2)
    assert localities.of_path("/dev/pmem0") == Locality(IdSet(), IdSet([2]))


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"numa_node": -1},
        {"numa_node": 9},
        {"numa_node": "x", "local_cpulist": "y"},
        {"numa_node": -1, "local_cpulist": "0-3"},
        {"local_cpulist": "9-12"},
    ],
    ids=str,
)
def test_what_is_close_to_nothing_or_to_everything_is_unknown(shown, sys, localities):
    disk(sys, "nvme1n1", 1, **shown)
    assert localities.of_device(DeviceKind.BLOCK, 259, 1) is None


def test_a_device_that_is_absent_is_unknown(localities):
    assert localities.of_device(DeviceKind.CHARACTER, 1, 3) is None


def test_a_logical_volume_is_close_to_what_its_disks_are_close_to(sys, localities):
    disk(sys, "nvme1n1", 1, numa_node=1)
    put(sys, "devices/virtual/block/dm-0/dev", "253:0")
    link(sys, "devices/virtual/block/dm-0/slaves/nvme1n1", "class/block/nvme1n1")
    link(sys, "class/block/dm-0", "devices/virtual/block/dm-0")
    link(sys, "class/block/mapper!data", "devices/virtual/block/dm-0")
    assert localities.of_path("/dev/dm-0") == SECOND
    assert localities.of_path("/dev/mapper/data") == SECOND


@pytest.mark.parametrize("other", [{"numa_node": 0}, {}], ids=["everywhere", "unknown"])
def test_a_raid_over_the_machine_is_close_to_nothing(other, sys, localities):
    disk(sys, "nvme1n1", 1, numa_node=1)
    disk(sys, "nvme2n1", 2, **other)
    put(sys, "devices/virtual/block/md0/dev", "9:0")
    link(sys, "class/block/md0", "devices/virtual/block/md0")
    for name in ("nvme1n1", "nvme2n1"):
        link(sys, f"devices/virtual/block/md0/slaves/{name}", f"class/block/{name}")
    assert localities.of_path("/dev/md0") is None


@pytest.mark.parametrize(("levels", "locality"), [(4, SECOND), (5, None)])
def test_a_stack_of_four_devices_is_followed_and_no_deeper_one(sys, localities, levels, locality):
    disk(sys, "nvme1n1", 1, numa_node=1)
    below = "class/block/nvme1n1"
    for level in range(levels):
        put(sys, f"devices/virtual/block/dm-{level}/dev", f"253:{level}")
        link(sys, f"devices/virtual/block/dm-{level}/slaves/below", below)
        below = f"class/block/dm-{level}"
        link(sys, below, f"devices/virtual/block/dm-{level}")
    assert localities.of_path(f"/dev/dm-{levels - 1}") == locality


def test_devices_that_contain_each_other_end(sys, localities):
    put(sys, "devices/virtual/block/dm-0/dev", "253:0")
    link(sys, "class/block/dm-0", "devices/virtual/block/dm-0")
    link(sys, "devices/virtual/block/dm-0/slaves/dm-0", "class/block/dm-0")
    assert localities.of_path("/dev/dm-0") is None


@pytest.mark.parametrize(
    ("path", "locality"),
    [
        ("/sys/devices/system/node/node1", SECOND),
        ("/sys/devices/system/node/node1/", SECOND),
        ("/sys/devices/system/node/node2", Locality(IdSet(), IdSet([2]))),
        ("/sys/devices/system/cpu/cpu1", Locality(IdSet([1]), IdSet([0]))),
        ("/sys/devices/system/cpu/cpu2/cache/index3", SECOND),
        ("/sys/devices/system/node/node9", None),
        ("/sys/devices/system/cpu/cpu9", None),
        ("/sys/devices/system/cpu/cpu9/cache/index3", None),
        ("/sys/devices/system/../system/node/node1", None),
        ("/var/lib/data", None),
        ("relative", None),
        ("/sys/", None),
    ],
)
def test_paths_of_cpus_caches_and_nodes_are_themselves(path, locality, localities):
    assert localities.of_path(path) == locality


def test_a_link_out_of_sysfs_is_not_followed(sys, localities, tmp_path):
    put(tmp_path, "outside/numa_node", 1)
    link(sys, "class/block/evil", "../outside")
    assert localities.of_path("/dev/evil") is None


def test_a_locality_is_a_hint():
    assert SECOND.hint("device:/dev/sda") == TopologyHint(provider="device:/dev/sda", cpus="2-3", nodes="1")


def test_mounts_and_devices_of_a_container_give_hints_where_something_is_known(sys, localities):
    disk(sys, "nvme1n1", 1, numa_node=1)
    devices = [DeviceNode("/dev/null", DeviceKind.CHARACTER, 1, 3), DeviceNode("/dev/disk", DeviceKind.BLOCK, 259, 1)]
    assert localities.hints(["/etc/hosts", "/sys/devices/system/node/node0"], devices) == (
        TopologyHint(provider="mount:/sys/devices/system/node/node0", cpus="0-1", nodes="0"),
        TopologyHint(provider="device:/dev/disk", cpus="2-3", nodes="1"),
    )
