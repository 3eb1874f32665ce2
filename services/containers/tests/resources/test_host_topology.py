"""The topology of a host, read from its files."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given

from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_containers.resources.host_topology import HostReading, read_host_topology
from joulie_core.containers.idset import EMPTY, IdSet
from joulie_core.containers.topology import HardwareTopology, MemoryKind
from joulie_testing.agent.host_files import CPU_ROOT, NODE_ROOT, host_in_memory, put_host
from joulie_testing.core.machines import GIB, HYBRID, LARGE, TIERED, MachineShape, shapes


@pytest.fixture
def host(tmp_path):
    put_host(tmp_path, MachineShape(packages=2, cores_per_node=2, threads_per_core=2).topology())
    return tmp_path


def read(host: Path) -> HostReading:
    return read_host_topology(SysfsTree(host / "sys"), SysfsTree(host / "proc"))


def change(host: Path, path: str, text: str) -> None:
    file = host / path
    file.chmod(0o644)
    file.write_text(f"{text}\n")


@given(shapes(most_cores_per_node=3))
def test_what_is_written_is_read(shape):
    topology = shape.topology()
    # A node whose CPUs are all offline cannot be distinguished from one that is memory only.
    assume(all(topology.nodes[node].cpus for node in range(shape.nodes_with_cpus)))
    found = read_host_topology(*host_in_memory(topology))
    assert found.topology == topology
    assert found.assumptions == ()


@pytest.mark.parametrize("shape", [LARGE, HYBRID, TIERED], ids=["large", "hybrid", "tiered"])
def test_machines_of_benchmarks_are_read_as_they_are(shape):
    assert read_host_topology(*host_in_memory(shape.topology())).topology == shape.topology()


def test_files_in_a_directory_and_in_memory_are_the_same(tmp_path):
    put_host(tmp_path, HYBRID.topology())
    assert read(tmp_path).topology == HYBRID.topology()


def test_a_host_that_shows_nothing_is_one_cpu_and_states_all_that_is_assumed(tmp_path):
    found = read(tmp_path)
    assert found.topology.online == IdSet([0])
    assert found.topology.nodes[0].capacity_bytes == 0
    assert len(found.assumptions) == 4


@pytest.mark.parametrize(
    "path", ["sys/devices/system/node", "sys/devices/system/cpu/online", "sys/devices/cpu_atom", "proc"]
)
def test_every_part_may_be_absent(path, tmp_path):
    put_host(tmp_path, HYBRID.topology())
    target = tmp_path / path
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    found = read(tmp_path).topology
    assert found.online == HYBRID.topology().online
    assert set().union(*(node.cpus for node in found.nodes.values())) == set(found.online)


def test_any_file_may_be_malformed(tmp_path):
    put_host(tmp_path, MachineShape(cores_per_node=1, threads_per_core=2).topology(), idle_states=())
    expected = read(tmp_path).topology
    for file in sorted(path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()):
        original = file.read_bytes()
        file.chmod(0o644)
        for text in (b"", b"\xff\xfe\n", b"-1\n", b"9-1\n", b"99999999999\n"):
            file.write_bytes(text)
            found = read(tmp_path).topology
            assert found.online, file
            for cpu in found.cpus.values():
                assert cpu.id in found.nodes[cpu.node].cpus, (file, text)
                assert cpu.core in found.online
                assert cpu.l2 in found.online
                assert cpu.l3 in found.online
        file.write_bytes(original)
    assert read(tmp_path).topology == expected


def test_without_numa_nodes_all_memory_is_on_one(host):
    shutil.rmtree(host / NODE_ROOT)
    found = read(host)
    (node,) = found.topology.nodes.values()
    assert node.cpus == found.topology.online
    assert node.capacity_bytes == 64 * GIB
    assert node.distances == {0: 10}
    assert found.assumptions == ("no NUMA nodes are shown: all CPUs and all memory are on one",)


def test_a_node_without_a_size_has_the_rest_of_the_memory(host):
    change(host, f"{NODE_ROOT}/node1/meminfo", "Node 1 MemTotal: much")
    found = read(host)
    assert found.topology.nodes[1].capacity_bytes == 32 * GIB
    assert found.assumptions == (f"nodes 1 show no memory size: {32 * GIB} bytes each, the rest of the machine's",)


def test_a_node_that_is_not_online_or_has_nothing_is_left_out(host):
    change(host, f"{NODE_ROOT}/online", "1")
    assert list(read(host).topology.nodes) == [1]


def test_a_node_without_cpus_and_memory_is_left_out(host):
    change(host, f"{NODE_ROOT}/node1/cpulist", "")
    change(host, f"{NODE_ROOT}/node1/meminfo", "Node 1 MemTotal:       0 kB")
    found = read(host)
    assert found.topology.nodes.keys() == {0}
    assert found.topology.nodes[0].distances == {0: 10}
    assert found.assumptions == ("CPUs 2-3,6-7 are on no NUMA node: they are on node 0",)


def test_distances_are_the_same_in_both_directions(host):
    change(host, f"{NODE_ROOT}/node0/distance", "10 31")
    nodes = read(host).topology.nodes
    assert nodes[0].distances[1] == nodes[1].distances[0] == 26


def test_malformed_distances_make_all_other_nodes_equally_far(host):
    change(host, f"{NODE_ROOT}/node0/distance", "10")
    change(host, f"{NODE_ROOT}/node1/distance", "ten 10")
    found = read(host)
    assert found.topology.nodes[0].distances == {0: 10, 1: 20}
    assert len(found.assumptions) == 2


def test_without_caches_a_package_shares_one_and_clusters_another(host):
    for cpu in range(8):
        shutil.rmtree(host / CPU_ROOT / f"cpu{cpu}/cache")
    change(host, f"{CPU_ROOT}/cpu0/topology/cluster_cpus_list", "0-1,4-5")
    found = read(host)
    assert list(found.topology.l3_groups.values()) == list(found.topology.packages.values())
    assert found.topology.l2_groups[0] == IdSet([0, 1, 4, 5])
    assert found.assumptions == ("CPUs 0-7 show no cache that cores share: the package shares one",)


def test_the_last_cache_counts_whatever_its_level(host):
    for cpu in range(8):
        shutil.rmtree(host / CPU_ROOT / f"cpu{cpu}/cache/index3")
    found = read(host).topology
    assert found.l3_groups == found.l2_groups == found.cores


def test_a_cpu_without_a_package_is_not_used(host):
    shutil.rmtree(host / CPU_ROOT / "cpu3/topology")
    found = read(host)
    assert found.topology.online == IdSet([0, 1, 2, 4, 5, 6, 7])
    assert found.assumptions[0] == "CPUs 3 show no package: they are not used"


def test_a_memory_only_node_is_high_bandwidth_memory_where_it_is_smaller_than_the_others(tmp_path):
    topology: HardwareTopology = TIERED.topology()
    small = replace(topology.nodes[5], capacity_bytes=8 * GIB)
    put_host(tmp_path, replace(topology, nodes={**topology.nodes, 5: small}))
    nodes = read(tmp_path).topology.nodes
    assert nodes[5].kind is MemoryKind.HBM
    assert nodes[4].kind is MemoryKind.PMEM
    assert nodes[5].cpus == EMPTY
