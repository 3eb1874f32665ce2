"""The agent as the chart installs it, on a real node whose hardware is a directory of files."""

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chart import CHART, Helm

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.resources import NODE_HARDWARES, PODS, TELEMETRY_PROFILES
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.real_node.node import RealNode
from joulie_sim.stack.stack import NAMESPACE
from joulie_testing.agent.fake_sysfs import FakeMachine

CONTROLLER, ACTUATOR, RESOURCE_MANAGER, NODE_AGENT = "controller", "actuator", "resource-manager", "node-agent"
HOLDERS = "holders"

# The least that the chart allows.
GRACE_S = 25

# Beside the roles of the same names that the operator's process runs with.
_RELEASE = "chart"
_SELECTOR = f"app.kubernetes.io/instance={_RELEASE},app.kubernetes.io/component=agent"
_HELM_TIMEOUT_S = 200
# Half of it is how long agents are asked before their nodes are looked at.
_HOOK_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class AgentRelease:
    """The chart's agent on one real node, and what can be seen of it from outside its containers."""

    helm: Helm
    node: RealNode
    machine: FakeMachine
    client: KubeClient
    # The container policy; None leaves the resource manager out.
    container_policy: str | None = None
    # Mode of the limits by class; empty is the chart's default.
    class_limits: str = ""

    async def install(self) -> None:
        """Install the chart without operator and extender."""
        command = ("install", _RELEASE, str(CHART), "--namespace", NAMESPACE, "--skip-crds", "--values", "-")
        await asyncio.to_thread(self.helm.run, *command, stdin=json.dumps(self._values()))

    async def uninstall(self, *options: str) -> str:
        """Uninstall the release and return Helm's output."""
        command = ("uninstall", _RELEASE, "--namespace", NAMESPACE, "--timeout", f"{_HELM_TIMEOUT_S - 20}s", *options)
        return await asyncio.to_thread(self.helm.run, *command, timeout_s=_HELM_TIMEOUT_S)

    @property
    def limits_watts(self) -> list[float]:
        """The long-term limits of the machine's packages, as the hardware has them."""
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    async def pods(self) -> list[dict[str, Any]]:
        """The agent's pods, ending ones included."""
        return await self.client.list(PODS, NAMESPACE, label_selector=_SELECTOR)

    async def pod(self) -> dict[str, Any]:
        """The one pod of the agent; AssertionError unless all its containers are ready."""
        found = await self.pods()
        assert len(found) == 1, [pod["metadata"]["name"] for pod in found]
        conditions = {each["type"]: each["status"] for each in found[0]["status"].get("conditions", ())}
        assert conditions.get("Ready") == "True", json.dumps(found[0]["status"].get("containerStatuses"), indent=1)
        return found[0]

    async def status(self, container: str) -> dict[str, Any]:
        """A container's status in the one pod that is ready."""
        return next(each for each in (await self.pod())["status"]["containerStatuses"] if each["name"] == container)

    async def process(self, container: str) -> "Inside":
        """The process of a container."""
        (pid,) = self.node.container_pids((await self.status(container))["containerID"])
        return Inside(pid)

    async def logs(self, container: str) -> str:
        """What a container wrote, over all its runs that are kept."""
        name = (await self.pods())[0]["metadata"]["name"]
        return await asyncio.to_thread(self.node.logs, NAMESPACE, name, container)

    async def hardware(self) -> dict[str, Any]:
        """`status` of the node's NodeHardware; AssertionError where it has none."""
        return await self._status(NODE_HARDWARES)

    async def report(self) -> dict[str, Any]:
        """The agent's report about CPU controls; AssertionError where there is none."""
        control = (await self._status(TELEMETRY_PROFILES)).get("control", {})
        assert "cpu" in control, "no report of CPU controls"
        return control["cpu"]

    async def _status(self, resource: Any) -> dict[str, Any]:
        try:
            return json.loads(await self.client.get(resource, self.node.name))["status"]
        except (NotFound, KeyError) as error:
            raise AssertionError(f"no status of {resource.kind} {self.node.name}") from error

    def _values(self) -> dict[str, Any]:
        server = urlsplit(self.node.cluster.server)
        # There are no service addresses: a pod on the host's network finds the API server where it listens.
        api = [
            {"name": "KUBERNETES_SERVICE_HOST", "value": server.hostname},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
        ]
        here = {HOSTNAME_LABEL: self.node.name}
        resource_manager = {
            "enabled": self.container_policy is not None,
            "policy": self.container_policy or "topology-aware",
            "metricsPort": free_port(),
            "nodeAgent": {"metricsPort": free_port(), "extraEnv": api},
        }
        return {
            "operator": {"enabled": False},
            "extender": {"enabled": False},
            "containers": {"image": {"pullPolicy": "Never"}},
            "agent": {
                "image": {"pullPolicy": "Never"},
                "env": {"RECONCILE_INTERVAL": "1s"},
                "extraEnv": api,
                "hostNetwork": True,
                "metricsHost": LOOPBACK,
                "metricsPort": free_port(),
                "daemonset": {"nodeSelector": here},
                "terminationGracePeriodSeconds": GRACE_S,
                "resourceManager": resource_manager,
                "holders": {"enabled": True, "metricsPort": free_port()},
                "classLimits": {"mode": self.class_limits},
                "actuator": {
                    "hostSysPath": str(self.machine.sys),
                    "hostProcPath": str(self.machine.proc),
                    "hostStatePath": str(self.machine.sys.parent / "state"),
                },
            },
            "uninstall": {"nodeSelector": here, "extraEnv": api, "timeoutSeconds": _HOOK_TIMEOUT_S},
        }


@dataclass(frozen=True, slots=True)
class Inside:
    """A process in a container, as the kernel describes it."""

    pid: int

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, from outside, where nothing keeps one from a container's first process."""
        os.kill(self.pid, number)

    def fields(self) -> dict[str, str]:
        """Fields of /proc/PID/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def mount_points(self) -> dict[str, str]:
        """Options of each mount point that it sees."""
        lines = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        return {line.split()[4]: line.split()[5] for line in lines}

    def sockets(self, *families: str) -> set[str]:
        """Sockets that it has open, of these tables of /proc/PID/net, by inode."""
        opened = {
            link for each in Path(f"/proc/{self.pid}/fd").iterdir() if (link := _link(each)).startswith("socket:")
        }
        mine = {link.removeprefix("socket:[").removesuffix("]") for link in opened}
        known: set[str] = set()
        for family in families:
            known |= {
                word
                for line in Path(f"/proc/{self.pid}/net/{family}").read_text().splitlines()
                for word in line.split()
            }
        return mine & known

    def can_see(self, path: str) -> bool:
        """Whether a path exists in its container."""
        return Path(f"/proc/{self.pid}/root{path}").exists()


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except FileNotFoundError:
        return ""
