"""What containers get of a configuration, on the runtimes' own implementation of the interface, in three versions."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from google.protobuf.json_format import MessageToDict

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_core.containers.idset import IdSet
from joulie_core.containers.topology import HardwareTopology
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.nri_runtime import reference_nri_runtime
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import AttachedMemory, MachineShape, MemoryKind

SUFFIX = "resource-policy.nri.io"
KINDS = {"balloons": "BalloonsPolicy", "topology-aware": "TopologyAwarePolicy"}

#: Four NUMA nodes of four cores with two threads; cores are pairs of CPUs.
THREADED = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False)


@dataclass(frozen=True)
class Run:
    """A container, alone in its pod unless one is named."""

    id: str
    milli: int = 0
    qos: str = "burstable"
    namespace: str = "default"
    pod: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    def sandbox(self):
        uid = self.pod or self.id
        parent = f"/kubepods/{self.qos}/pod{uid}" if self.qos else f"/kubepods/pod{uid}"
        found = nri.PodSandbox(
            id=f"pod-{uid}", uid=uid, name=uid, namespace=self.namespace, annotations=self.annotations
        )
        found.linux.cgroup_parent = parent
        return MessageToDict(found)

    def container(self):
        found = nri.Container(id=self.id, pod_sandbox_id=f"pod-{self.pod or self.id}", name=self.id)
        found.linux.resources.cpu.shares.value = max(2, self.milli * 1024 // 1000)
        if not self.qos:
            found.linux.resources.cpu.quota.value = self.milli * 100
            found.linux.resources.cpu.period.value = 100_000
            found.linux.resources.memory.limit.value = 1 << 28
        return MessageToDict(found)


@pytest.fixture
def placed(nri_runtime_binary, tmp_path):
    """A function that returns CPUs and memory nodes by container: what the runtime has set in the end."""

    @asynccontextmanager
    async def manage(policy: str, spec: Mapping[str, object], machine: HardwareTopology):
        put_host(tmp_path / "host", machine)
        config, socket = tmp_path / "policy.json", tmp_path / "nri.sock"
        document = {"apiVersion": "config.nri/v1alpha1", "kind": KINDS[policy], "metadata": {"name": "default"}}
        config.write_text(json.dumps(document | {"spec": spec}))
        options = {
            "policy": policy,
            "host-root": tmp_path / "host",
            "state-dir": tmp_path / "state",
            "metrics-addr": "127.0.0.1:0",
            "config-file": config,
            "nri-socket": socket,
        }
        argv = [
            sys.executable,
            "-m",
            "joulie_containers",
            "manager",
            *(f"--{key}={value}" for key, value in options.items()),
        ]
        process = ServiceProcess("resource-manager", argv, log_path=tmp_path / "resource-manager.log")
        async with reference_nri_runtime(nri_runtime_binary, tmp_path / "runtime.log", socket=socket) as peer:
            await process.start()
            try:
                await peer.command("await")
                yield peer
            finally:
                await process.stop()

    async def place(policy: str, spec: Mapping[str, object], machine: HardwareTopology, *runs: Run):
        async with manage(policy, spec, machine) as peer:
            for pod in {run.pod or run.id: run for run in reversed(runs)}.values():
                await peer.command("run", pod=pod.sandbox())
            for run in runs:
                await peer.command("create", container=run.container())
                await peer.command("start", id=run.id)
            cpus = {name: each["linux"]["resources"]["cpu"] for name, each in (await peer.containers()).items()}
            return {name: (IdSet.parse(each["cpus"]), each.get("mems", "")) for name, each in cpus.items()}

    return place


def balloons(*types: Mapping[str, object], **options: object) -> Mapping[str, object]:
    return {"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": types, **options}


def cores(machine: HardwareTopology, cpus: IdSet) -> set[int]:
    return {machine.cpus[cpu].core for cpu in cpus}


async def test_every_one_of_several_loads_is_avoided(placed):
    machine = THREADED.topology()
    types = [
        {"name": name, "namespaces": [name], "loads": loads}
        for name, loads in (("avx", ["avx"]), ("net", ["net"]), ("both", ["avx", "net"]))
    ]
    spec = balloons(*types, loadClasses=[{"name": name, "level": "core"} for name in ("avx", "net")])
    found = await placed(
        "balloons", spec, machine, *(Run(name, 1000, namespace=name) for name in ("avx", "net", "both"))
    )
    used = {name: cores(machine, cpus) for name, (cpus, _) in found.items()}
    assert used["both"].isdisjoint(used["avx"] | used["net"])


async def test_a_load_that_overloads_its_own_core_has_a_core_for_each_cpu(placed):
    machine = THREADED.topology()
    classes = [{"name": "avx", "level": "core", "overloadsLevelInBalloon": True}]
    spec = balloons({"name": "t", "namespaces": ["default"], "loads": ["avx"]}, loadClasses=classes)
    found = await placed("balloons", spec, machine, Run("a", 2000))
    assert len(cores(machine, found["a"][0])) == 2


async def test_a_composite_balloon_has_as_many_cpus_of_each_component(placed):
    machine = THREADED.topology()
    nodes = [
        {"name": f"node{node}", "preferCloseToDevices": [f"/sys/devices/system/node/node{node}"]} for node in (1, 2)
    ]
    whole = {"name": "t", "namespaces": ["default"], "components": [{"balloonType": each["name"]} for each in nodes]}
    found = await placed("balloons", balloons(*nodes, whole), machine, Run("a", 3000))
    cpus = found["a"][0]
    assert [len(cpus & machine.nodes[node].cpus) for node in (1, 2)] == [2, 2]
    assert len(cpus) == 4


async def test_a_balancing_composite_counts_the_balloons_of_nested_components(placed):
    machine = THREADED.topology()
    nodes = [
        {"name": f"node{node}", "preferCloseToDevices": [f"/sys/devices/system/node/node{node}"]} for node in range(4)
    ]
    pairs = [
        {"name": f"pair{pair}", "components": [{"balloonType": f"node{2 * pair + each}"} for each in (0, 1)]}
        for pair in (0, 1)
    ]
    single = {"name": "single", "namespaces": ["single"], "components": [{"balloonType": "node1"}]}
    balanced = {
        "name": "balanced",
        "namespaces": ["default"],
        "components": [{"balloonType": pair["name"]} for pair in pairs],
        "componentCreation": "balance-balloons",
        "preferNewBalloons": True,
    }
    spec = balloons(*nodes, *pairs, single, balanced)
    found = await placed("balloons", spec, machine, Run("x", 1000, namespace="single"), Run("a", 2000), Run("b", 2000))
    assert [set(machine.nodes_of(found[name][0])) for name in "ab"] == [{2, 3}, {0, 1}]


async def test_a_request_above_its_level_gets_the_smallest_part_that_has_it(placed):
    machine = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4).topology()
    found = await placed("topology-aware", {"unlimitedBurstable": "numa"}, machine, Run("a", 5000))
    assert found["a"][0] in machine.packages.values()


async def test_a_high_priority_is_met_by_performance_cores_while_such_are_free(placed):
    machine = MachineShape(packages=2, cores_per_node=4, efficient_per_node=12, cores_per_l3=4).topology()
    high = {f"prefer-cpu-priority.{SUFFIX}": "high"}
    runs = [Run(name, 2000, qos="", annotations=high) for name in "abc"]
    found = await placed("topology-aware", {}, machine, *runs)
    assert all(cpus.isdisjoint(machine.efficient) for cpus, _ in found.values())


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_a_short_affinity_holds_in_both_directions(placed, order: Sequence[str]):
    machine = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4).topology()
    annotations = {f"{SUFFIX}/affinity": "{a: [b]}"}
    runs = [Run(name, qos="besteffort", pod="p", annotations=annotations) for name in order]
    found = await placed("topology-aware", {}, machine, *runs)
    assert found["a"] == found["b"]


async def test_memory_of_numa_nodes_without_an_available_cpu_is_not_used(placed):
    machine = MachineShape(packages=2, nodes_per_die=2, cores_per_node=4).topology()
    spec = {"availableResources": {"cpu": "cpuset:0-5,12-15"}}
    found = await placed("topology-aware", spec, machine, Run("a", 7000, qos=""))
    assert found["a"][1] == "0-1,3"


async def test_whole_cores_of_several_numa_nodes_are_used_before_a_core_is_split(placed):
    machine = MachineShape(nodes_per_die=2, cores_per_node=4, threads_per_core=2, siblings_apart=False).topology()
    spec = {"availableResources": {"cpu": "cpuset:0-4,8-11"}}
    found = await placed("topology-aware", spec, machine, Run("a", 6000, qos=""))
    assert found["a"][0] == IdSet.parse("0-3,8-9")


@pytest.mark.parametrize(("annotations", "memory"), [({}, "0"), ({f"memory-type.{SUFFIX}": "hbm,dram"}, "0-1")])
async def test_only_a_container_with_the_annotation_gets_high_bandwidth_memory(placed, annotations, memory):
    attached = AttachedMemory(MemoryKind.HBM, capacity_bytes=8 << 30)
    machine = MachineShape(attached=(attached,)).topology()
    found = await placed("topology-aware", {}, machine, Run("a", 1000, qos="", annotations=annotations))
    assert found["a"][1] == memory
