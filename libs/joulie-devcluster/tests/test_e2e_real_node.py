"""A real node next to KWOK nodes: containers run, and nothing is left behind."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from joulie_api.client import KubeClient
from joulie_api.resources import NODES, PODS
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL, KWOK_ANNOTATION, default_node_classes, scale
from joulie_devcluster.control_plane.state import ClusterState, start_ticks
from joulie_devcluster.fixtures import create_namespace
from joulie_devcluster.real_node.cgroups import group_name

pytestmark = pytest.mark.e2e

CLI = [sys.executable, "-m", "joulie_devcluster"]


def busybox_pod(name, node, script):
    container = {"name": "main", "image": BUSYBOX_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": True,
            "nodeSelector": {HOSTNAME_LABEL: node},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


async def wait_pod(client, namespace, name, condition, timeout_s=30.0):
    """Wait until a condition on the pod's status is true and return the status."""
    status = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                status = json.loads(await client.get(PODS, name, namespace))["status"]
                if condition(status):
                    return status
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not in {timeout_s:g} s: {json.dumps(status, indent=1)}")


async def wait_until(condition, timeout_s=10.0):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the kernel signals no event
            await asyncio.sleep(0.02)


def is_running(status):
    return status.get("phase") == "Running"


def container_of(status):
    return status["containerStatuses"][0]


def restarted(status):
    return container_of(status)["restartCount"] == 1 and "running" in container_of(status)["state"]


def control_groups(cluster_directory):
    return list(Path("/sys/fs/cgroup").glob(f"**/{group_name(cluster_directory)}"))


def kernel_settings(node):
    return {path: path.read_text() for path in node.layout.kernel_settings}


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def pids_of(command):
    return [pid for path in Path("/proc").glob("[0-9]*") if command_of(pid := int(path.name)) == command]


def kubelet_directories():
    """Return those of the directories required by a kubelet that exist."""
    return {path for path in (Path("/var/lib/kubelet"), Path("/var/log/containers"), Path("/run/nri")) if path.exists()}


def mounts():
    return Path("/proc/self/mounts").read_text()


async def test_a_busybox_pod_runs_on_the_real_node_next_to_pods_on_kwok_nodes(fresh_devcluster, real_node):
    cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 3))
    node = await real_node(cluster, name="real-0", labels={"joulie.io/managed": "true"})
    settings = kernel_settings(node)
    async with await cluster.client() as client:
        nodes = {each["metadata"]["name"]: each["metadata"] for each in await client.list(NODES)}
        assert len(nodes) == 4
        assert nodes["real-0"]["labels"]["joulie.io/managed"] == "true"
        assert KWOK_ANNOTATION not in nodes["real-0"].get("annotations", {})
        simulated = next(name for name in nodes if name != "real-0")

        namespace = await create_namespace(client)
        script = "echo from the container; exec sleep 600"
        for name, place in (("real", "real-0"), ("simulated", simulated)):
            await client.create(PODS, busybox_pod(name, place, script), namespace)
        status = await wait_pod(client, namespace, "real", is_running)
        await wait_pod(client, namespace, "simulated", is_running)

    (pid,) = node.container_pids(container_of(status)["containerID"])
    # A container runs from the start of its shell on.
    await wait_until(lambda: command_of(pid) == b"sleep\x00600\x00")
    await wait_until(lambda: "from the container" in node.logs(namespace, "real", "main"))
    assert node.logs(namespace, "simulated", "main") == ""
    assert kernel_settings(node) == settings


async def test_a_node_loses_its_power_and_boots_again_with_its_pods(fresh_devcluster, real_node):
    cluster = await fresh_devcluster()
    node = await real_node(cluster)
    async with await cluster.client() as client:
        namespace = await create_namespace(client)
        await client.create(PODS, busybox_pod("b", node.name, "exec sleep 600"), namespace)
        before = container_of(await wait_pod(client, namespace, "b", is_running))["containerID"]
        (pid,) = node.container_pids(before)
        await node.power_off()
        assert start_ticks(pid) is None
        assert node.processes == {}
        cluster.check()
        await node.power_on()
        after = container_of(await wait_pod(client, namespace, "b", restarted))
        assert node.container_pids(before) == ()
        assert len(node.container_pids(after["containerID"])) == 1
        node.check()


async def test_down_kills_containers_and_leaves_no_mount_and_no_control_group(fresh_devcluster, real_node):
    cluster = await fresh_devcluster()
    node = await real_node(cluster)
    directory = cluster.directory
    async with await cluster.client() as client:
        namespace = await create_namespace(client)
        await client.create(PODS, busybox_pod("b", node.name, "exec sleep 600"), namespace)
        status = await wait_pod(client, namespace, "b", is_running)
    (pid,) = node.container_pids(container_of(status)["containerID"])
    assert control_groups(directory)
    assert str(directory) not in mounts()
    await node.down()
    assert start_ticks(pid) is None
    assert control_groups(directory) == []
    assert set(cluster.processes) == {"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok"}
    cluster.check()
    assert str(directory) not in mounts()


async def test_the_containers_of_a_killed_up_are_killed_and_down_removes_the_rest(tmp_path, real_node):
    directory = tmp_path / "c"
    before = kubelet_directories()
    command = [*CLI, "up", "--dir", str(directory), "--real-node"]
    log = tmp_path / "up.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as up,  # noqa: ASYNC220 - quick
    ):
        first_line = await asyncio.to_thread(up.stdout.readline)
        assert first_line == f"export KUBECONFIG={directory}/kubeconfig\n", log.read_text()
        state = ClusterState.read(directory)
        assert {"namespaces", "containerd", "kubelet"} <= {record.name for record in state.processes}
        async with await KubeClient.connect(kubeconfig=state.kubeconfig, user_agent="joulie-tests") as client:
            namespace = await create_namespace(client)
            await client.create(PODS, busybox_pod("b", "real-0", "exec sleep 4242"), namespace)
            await wait_pod(client, namespace, "b", is_running)
        (pid,) = pids_of(b"sleep\x004242\x00")
        up.send_signal(signal.SIGKILL)
    await wait_until(lambda: start_ticks(pid) is None)
    assert directory.exists()
    assert control_groups(directory)
    down = await asyncio.to_thread(subprocess.run, [*CLI, "down", "--dir", str(directory)], check=False)
    assert down.returncode == 0
    assert not directory.exists()
    assert control_groups(directory) == []
    assert kubelet_directories() == before
