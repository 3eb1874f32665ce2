"""The process of the resource manager against the runtimes' own implementation of the interface, in three versions."""

import json
import signal
import sys
from contextlib import asynccontextmanager

import pytest
from google.protobuf.json_format import MessageToDict

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_core.containers.idset import IdSet
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.nri_runtime import reference_nri_runtime
from joulie_testing.agent.host_files import put_host
from joulie_testing.core.machines import MachineShape

CPUS = IdSet.parse("0-15")
MANIFEST = json.dumps(
    {
        "apiVersion": "config.nri/v1alpha1",
        "kind": "TopologyAwarePolicy",
        "metadata": {"name": "default"},
        "spec": {"availableResources": {"cpu": f"cpuset:{CPUS}"}},
    }
)


@pytest.fixture
def host(tmp_path):
    """Two packages of four cores with two threads."""
    root = tmp_path / "host"
    put_host(root, MachineShape(packages=2, cores_per_node=4, threads_per_core=2).topology())
    return root


@pytest.fixture
def command(host, tmp_path):
    """Everything but where the runtime and the configuration are."""
    options = {
        "policy": "topology-aware",
        "host-root": host,
        "state-dir": tmp_path / "state",
        "metrics-addr": "127.0.0.1:0",
    }
    return [
        sys.executable,
        "-m",
        "joulie_containers",
        "manager",
        *(f"--{name}={value}" for name, value in options.items()),
    ]


@pytest.fixture
def resource_manager(command, tmp_path):
    """Run the process on the runtime's socket."""

    @asynccontextmanager
    async def run():
        config = tmp_path / "policy.json"
        config.write_text(MANIFEST)
        argv = [*command, f"--config-file={config}", f"--nri-socket={tmp_path / 'nri.sock'}"]
        process = ServiceProcess("resource-manager", argv, log_path=tmp_path / "resource-manager.log")
        await process.start()
        try:
            yield process
        finally:
            await process.stop()

    return run


def pod(name, qos="besteffort"):
    parent = f"/kubepods/{qos}/pod{name}" if qos else f"/kubepods/pod{name}"
    sandbox = nri.PodSandbox(id=f"pod-{name}", uid=name, name=name, namespace="default")
    sandbox.linux.cgroup_parent = parent
    return MessageToDict(sandbox)


def container(name, cpus=0):
    found = nri.Container(id=name, pod_sandbox_id=f"pod-{name}", name="main")
    found.linux.resources.cpu.shares.value = max(2, cpus * 1024)
    if cpus:
        found.linux.resources.cpu.quota.value = cpus * 100_000
        found.linux.resources.cpu.period.value = 100_000
        found.linux.resources.memory.limit.value = 1 << 28
    return MessageToDict(found)


async def cpus_of(peer):
    return {
        name: IdSet.parse(each["linux"]["resources"]["cpu"]["cpus"]) for name, each in (await peer.containers()).items()
    }


async def create(peer, name, cpus=0):
    await peer.command("run", pod=pod(name, "" if cpus else "besteffort"))
    await peer.command("create", container=container(name, cpus))
    await peer.command("start", id=name)


async def test_others_leave_exclusive_cpus_at_once_and_a_killed_process_moves_nothing(
    nri_runtime_binary, resource_manager, tmp_path
):
    async with (
        reference_nri_runtime(nri_runtime_binary, tmp_path / "runtime.log", socket=tmp_path / "nri.sock") as peer,
        resource_manager() as process,
    ):
        await peer.command("await")
        await create(peer, "shared")
        before = await cpus_of(peer)
        await create(peer, "exclusive", cpus=2)
        placed = await cpus_of(peer)
        assert len(placed["exclusive"]) == 2
        assert placed["shared"] == before["shared"] - placed["exclusive"]

        process.kill()
        assert await process.wait() == -signal.SIGKILL
        await process.restart()
        await peer.command("await")
        assert await cpus_of(peer) == placed

        await peer.command("stop", id="exclusive")
        await peer.command("remove", id="exclusive")
        assert await cpus_of(peer) == before


async def test_the_runtime_starts_it_as_an_installed_plugin(nri_runtime_binary, command, tmp_path):
    plugins, configuration = tmp_path / "plugins", tmp_path / "conf.d"
    plugins.mkdir()
    configuration.mkdir()
    (configuration / "90-joulie.conf").write_text(MANIFEST.replace(f"cpuset:{CPUS}", "cpuset:8-11"))
    executable = plugins / "90-joulie"
    executable.write_text(f"#!/bin/sh\nexec {' '.join(command)}\n")
    executable.chmod(0o755)
    async with reference_nri_runtime(
        nri_runtime_binary,
        tmp_path / "runtime.log",
        plugins=plugins,
        plugin_config=configuration,
        # A plugin in Python does not always start in five seconds beside other tests.
        registration_timeout_s=60.0,
    ) as peer:
        await create(peer, "shared")
        assert await cpus_of(peer) == {"shared": IdSet.parse("8-11")}
