"""Joulie on a real cluster of kind, whose workers have a two-socket machine in a directory as their hardware."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chart import CHART, NAMESPACE, ROOT, Helm

from joulie_api.client import KubeClient
from joulie_api.resources import EVENTS, LEASES, NODES, PODS
from joulie_devcluster.containers.kind import CLUSTER, WORKERS, KindCluster
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE
from joulie_testing.agent.fake_sysfs import FakeMachine, build
from joulie_testing.agent.machine_spec import PLATFORMS

#: Not the default of 150 W: the value found is restored.
ORIGINALS = [140.0, 130.0]
#: 60 % of what the packages are made for.
ECO = [90.0, 90.0]

VALUES = ROOT / "kind" / "values.yaml"
HELM_TIMEOUT_S = 240
#: Where commands look for the cluster, below their XDG_STATE_HOME.
KIND_DIRECTORY = Path("joulie", "kind")

_MACHINE = Path("/machine")


@dataclass(frozen=True, slots=True)
class KindSite:
    """A cluster, its clients and the machine that its workers have."""

    cluster: KindCluster
    client: KubeClient
    helm: Helm
    kubectl_path: Path
    machine: FakeMachine
    #: The XDG_STATE_HOME with which commands find the cluster.
    state_home: Path

    @classmethod
    def prepare_machine(cls, cluster: KindCluster, directory: Path) -> FakeMachine:
        """Put a machine into every worker."""
        machine = build(directory / _MACHINE.name, PLATFORMS["xeon-2s"])
        (machine.sys / "bus").mkdir(exist_ok=True)
        for path, watts in zip(machine.limits(), ORIGINALS, strict=True):
            machine.write(path, int(watts * 1e6))
        for worker in WORKERS:
            cluster.engine.run("cp", str(directory / _MACHINE.name), f"{worker}:{_MACHINE}")
        return machine

    async def limits_watts(self, worker: str) -> list[float]:
        """The long-term limits of the packages of a worker, as its hardware has them."""
        paths = [str(_MACHINE / "sys" / path) for path in self.machine.limits()]
        text = await asyncio.to_thread(self.cluster.execute, worker, "cat", *paths)
        return [int(line) / 1e6 for line in text.split()]

    async def release(self, command: str, *arguments: str, chart: Path = CHART) -> str:
        """Install or upgrade the release and wait until it is ready."""
        files = ("--values", str(VALUES), "--values", "-")
        options = ("--create-namespace", "--wait", "--timeout", f"{HELM_TIMEOUT_S - 30}s", *arguments)
        return await self.run_helm(command, CLUSTER, str(chart), *files, *options, stdin=json.dumps(values()))

    async def run_helm(self, *arguments: str, stdin: str = "") -> str:
        """Run Helm in Joulie's namespace."""
        command = (*arguments, "--namespace", NAMESPACE)
        return await asyncio.to_thread(self.helm.run, *command, stdin=stdin, timeout_s=HELM_TIMEOUT_S)

    async def kubectl(self, *arguments: str) -> str:
        """Run kubectl; AssertionError with its output where it fails."""
        done = await asyncio.to_thread(
            subprocess.run,
            [str(self.kubectl_path), "--kubeconfig", str(self.cluster.kubeconfig), *arguments],
            capture_output=True,
            text=True,
            timeout=HELM_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def pods(self, component: str) -> list[dict[str, Any]]:
        """Pods of a component of the release."""
        selector = f"app.kubernetes.io/instance={CLUSTER},app.kubernetes.io/component={component}"
        return await self.client.list(PODS, NAMESPACE, label_selector=selector)

    async def ready(self, component: str, count: int) -> None:
        """AssertionError unless the component has this number of pods, all ready."""
        found = {
            pod["metadata"]["name"]: _condition(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]
            for pod in await self.pods(component)
        }
        assert list(found.values()) == [True] * count, found

    async def ready_nodes(self) -> list[str]:
        """Names of the nodes that are Ready."""
        nodes = await self.client.list(NODES)
        return sorted(node["metadata"]["name"] for node in nodes if _condition(node, "Ready"))

    async def leader(self) -> str:
        """The operator's pod that holds the lease."""
        lease = json.loads(await self.client.get(LEASES, "joulie-operator", NAMESPACE))
        return str(lease["spec"].get("holderIdentity", ""))

    async def create_pod(self, name: str, workload_class: str) -> None:
        """Create a pod of a class in the namespace `default`."""
        container = {"name": "main", "image": BUSYBOX_IMAGE, "imagePullPolicy": "Never"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {"joulie.io/workload-class": workload_class}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        await self.client.create(PODS, body, "default")

    async def events(self, pod: str) -> list[str]:
        """Messages of the events of a pod in the namespace `default`."""
        found = await self.client.list(EVENTS, "default")
        return [each.get("message", "") for each in found if each["involvedObject"]["name"] == pod]


def values() -> dict[str, Any]:
    """Values of the chart besides those of the directory `kind`: all nodes eco, and the machine as hardware."""
    paths = {"hostSysPath": str(_MACHINE / "sys"), "hostProcPath": str(_MACHINE / "proc")}
    return {
        "operator": {"env": {"STATIC_HP_FRAC": "0"}},
        "agent": {"env": {"RECONCILE_INTERVAL": "1s"}, "actuator": paths},
    }


def _condition(found: Mapping[str, Any], kind: str) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
