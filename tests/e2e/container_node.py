"""A real node with the resource manager as a plain process, and containers that write down their CPUs."""

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.e2e.container_cgroup import ContainerGroup

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.resources import EVENTS, PODS
from joulie_core.class_caps.enforced_limit import NOT_LIFTED_EVENT
from joulie_core.containers.idset import IdSet
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.real_node.node import RealNode

CONTAINER = "main"
MEMORY = "32Mi"
# The container writes its own view, again and again: the line that the kernel shows it inside.
_SCRIPT = "while :; do grep Cpus_allowed_list /proc/self/status; sleep 0.1; done"
_ALLOWED = re.compile(r"Cpus_allowed_list:\s*(\S+)")


@dataclass(slots=True)
class ResourceManager:
    """`joulie-containers manager` on the sockets and files of a real node."""

    node: RealNode
    directory: Path
    policy: str
    process: ServiceProcess
    port: int

    @classmethod
    async def start(
        cls,
        node: RealNode,
        directory: Path,
        policy: str,
        spec: dict[str, Any],
        *,
        program: Sequence[str] = ("-m", "joulie_containers"),
        options: Mapping[str, str] | None = None,
    ) -> "ResourceManager":
        """Start it with a configuration file.

        Args:
            node: the node.
            directory: of its files.
            policy: the container policy.
            spec: of the configuration.
            program: arguments of Python that precede the command.
            options: of the command, beside those that every one has.
        """
        port = free_port()
        every = {
            "policy": policy,
            "config-file": directory / "policy.yaml",
            "nri-socket": node.layout.root / "run" / "nri" / "nri.sock",
            "state-dir": directory / "state",
            "metrics-addr": f"{LOOPBACK}:{port}",
            "node-name": node.name,
            "export-host-dir": directory / "state",
        }
        argv = [
            sys.executable,
            *program,
            "manager",
            *(f"--{key}={value}" for key, value in (every | dict(options or {})).items()),
        ]
        process = ServiceProcess("resource-manager", argv, log_path=directory / "resource-manager.log")
        manager = cls(node, directory, policy, process, port)
        manager.configure(spec)
        await process.start()
        return manager

    def configure(self, spec: dict[str, Any]) -> None:
        """Replace the configuration file by rename."""
        kind = {"balloons": "BalloonsPolicy", "topology-aware": "TopologyAwarePolicy"}[self.policy]
        document = {"apiVersion": "config.nri/v1alpha1", "kind": kind, "metadata": {"name": "default"}, "spec": spec}
        new = self.directory / "policy.new"
        new.write_text(yaml.safe_dump(document))
        new.rename(self.directory / "policy.yaml")

    async def ready(self) -> None:
        """AssertionError unless the runtime has registered it."""
        try:
            async with aiohttp.ClientSession() as http, http.get(f"http://{LOOPBACK}:{self.port}/readyz") as reply:
                text = await reply.text()
                assert reply.status == 200, text
        except aiohttp.ClientError as error:
            raise AssertionError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod of one container on the node."""

    node: RealNode
    client: KubeClient
    namespace: str
    name: str

    async def cpus(self) -> IdSet:
        """Return the CPUs that the container is allowed, as it sees it and as its cgroup has it.

        Raises:
            AssertionError: It does not run, or the two differ.
        """
        pids = await self.pids()
        outside = IdSet.parse(_allowed_of(min(pids)))
        log = await asyncio.to_thread(self.node.logs, self.namespace, self.name, CONTAINER)
        inside = _ALLOWED.findall(log)
        assert inside, "the container has written nothing yet"
        assert IdSet.parse(inside[-1]) == outside, f"{inside[-1]} inside, {outside} outside"
        return outside

    async def group(self) -> ContainerGroup:
        """Return what the files of the container's control group say.

        Raises:
            AssertionError: It does not run.
        """
        return ContainerGroup.of(min(await self.pids()))

    async def file(self, path: str) -> str:
        """Return a file as the container sees it.

        Raises:
            AssertionError: It does not run, or has no such file.
        """
        inside = Path(f"/proc/{min(await self.pids())}/root{path}")
        try:
            return await asyncio.to_thread(inside.read_text)
        except FileNotFoundError as error:
            raise AssertionError(f"no {path} in the container") from error

    async def mount_options(self, path: str) -> set[str]:
        """Return the options of what is mounted at a path in the container.

        Raises:
            AssertionError: It does not run, or nothing is mounted there.
        """
        table = await asyncio.to_thread(Path(f"/proc/{min(await self.pids())}/mountinfo").read_text)
        found = [fields[5] for line in table.splitlines() if (fields := line.split())[4] == path]
        assert found, f"nothing is mounted at {path}"
        return set(found[-1].split(","))

    async def resize(self, cpu: str) -> None:
        """Change request and limit of the running container in place."""
        amounts = {"cpu": cpu, "memory": MEMORY}
        containers = [{"name": CONTAINER, "resources": {"requests": amounts, "limits": amounts}}]
        pod = json.loads(await self.client.get(PODS, self.name, self.namespace))
        pod["spec"]["containers"][0] |= containers[0]
        # Without a version: the kubelet writes the pod's status meanwhile.
        await self.client.merge_patch(PODS, self.name, {"spec": pod["spec"]}, self.namespace, "resize")

    async def pids(self) -> tuple[int, ...]:
        """Return the processes of the container.

        Raises:
            AssertionError: It does not run.
        """
        status = await self.status()
        assert status.get("phase") == "Running", json.dumps(status.get("containerStatuses"))
        pids = self.node.container_pids(status["containerStatuses"][0]["containerID"])
        assert pids, "the container has no process"
        return pids

    async def restarts(self) -> int:
        """Return how often the container was restarted."""
        return int((await self.status())["containerStatuses"][0]["restartCount"])

    async def status(self) -> dict[str, Any]:
        """Return the status of the pod."""
        try:
            status: dict[str, Any] = json.loads(await self.client.get(PODS, self.name, self.namespace))["status"]
        except NotFound as error:
            raise AssertionError(f"no pod {self.name}") from error
        return status

    async def delete(self) -> None:
        """Delete the pod, and wait until it is gone."""
        await self.client.delete(PODS, self.name, self.namespace)
        while True:
            try:
                await self.client.get(PODS, self.name, self.namespace)
            except NotFound:
                return
            await asyncio.sleep(0.1)


def _allowed_of(pid: int) -> str:
    text = Path(f"/proc/{pid}/status").read_text()
    found = _ALLOWED.search(text)
    assert found is not None, text
    return found[1]


async def started_limited(client: KubeClient, namespace: str) -> set[str]:
    """Return the pods with an Event of a container that was started under a limit that its pod does not allow."""
    events = await client.list(EVENTS, namespace)
    return {each["involvedObject"]["name"] for each in events if each["reason"] == NOT_LIFTED_EVENT}


async def run_pod(
    node: RealNode,
    client: KubeClient,
    namespace: str,
    name: str,
    *,
    cpu: str = "",
    annotations: dict[str, str] | None = None,
) -> Workload:
    """Create a pod; with `cpu` it is Guaranteed with that many CPUs, else BestEffort."""
    amounts = {"cpu": cpu, "memory": MEMORY}
    container = {
        "name": CONTAINER,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", _SCRIPT],
        "resources": {"requests": amounts, "limits": amounts} if cpu else {},
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "hostNetwork": True,
            "nodeSelector": {HOSTNAME_LABEL: node.name},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }
    await client.create(PODS, body, namespace)
    return Workload(node, client, namespace, name)
