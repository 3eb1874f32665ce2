"""The uninstall hook's program on a running system: with the chart's own account, against a real API server."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.chart import CHART, NAMESPACE, RESOURCES, Helm, Manifest, account_token, containers, env_of, find
from tests.e2e.sleep_site import SleepSite, sleep_site
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_POWER_PROFILES, NODES, PODS
from joulie_devcluster.fixtures import Starter

pytestmark = pytest.mark.e2e


class Hook:
    """The hook's objects, made as Helm makes them, and its program, run as its Jobs run it."""

    def __init__(self, system: System | SleepSite, manifests: list[Manifest], tmp_path: Path) -> None:
        self.system = system
        self.manifests = manifests
        self.tmp_path = tmp_path

    async def create(self, *kinds: str, name: str) -> None:
        for manifest in self.manifests:
            if manifest["kind"] in kinds and manifest["metadata"]["name"] == name:
                resource = RESOURCES[manifest["kind"]]
                await self.system.view.client.create(resource, manifest, NAMESPACE if resource.namespaced else None)

    async def run(self, command: str) -> str:
        """Return the output of the program; raise AssertionError if it fails."""
        cluster = self.system.stack.cluster
        (self.tmp_path / "token").write_text(await account_token(self.system.view.client, "joulie-restore"))
        shutil.copy(cluster.ca_path, self.tmp_path / "ca.crt")
        server = urlsplit(cluster.server)
        job = find(self.manifests, "Job", f"joulie-restore-{command}")
        env = {key: value for key, value in env_of(containers(job)[command]).items() if value is not None}
        env |= {
            "PATH": os.environ["PATH"],
            "POD_NAMESPACE": NAMESPACE,
            "ACCOUNT_DIR": str(self.tmp_path),
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "TIMEOUT_SECONDS": "60",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(CHART / "files" / "restore.py"),
            command,
            env=env,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode()


_RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


async def test_an_uninstall_lifts_every_cap_before_the_agents_end(system: System, helm: Helm, tmp_path: Path):
    hook = Hook(system, helm.render({}), tmp_path)
    client = system.view.client
    nodes = await system.view.objects(NODES)
    await eventually(lambda: _some_are_capped(system), within_s=60)
    await hook.create("ServiceAccount", "DaemonSet", name="joulie-agent")
    for kind in _RIGHTS:
        await hook.create(kind, name="joulie-restore")
    # The operator is no Deployment here; its pods would end like this.
    await system.operator.stop()

    output = await hook.run("withdraw")
    assert "deleting agents joulie-agent" in output
    assert await system.view.objects(NODE_POWER_PROFILES) == {}
    assert await _capped(system) == set()
    assert await client.list(RESOURCES["DaemonSet"], NAMESPACE) == []
    assert await client.list(PODS, NAMESPACE, label_selector="app.kubernetes.io/component=agent") == []

    await hook.create("DaemonSet", name="joulie-restore")
    assert await hook.run("verify") == f"joulie-restore: done on {len(nodes)} of {len(nodes)} nodes\n"


async def test_an_uninstall_wakes_the_nodes_that_sleep(start_cluster: Starter, helm: Helm, tmp_path: Path):
    async with sleep_site(start_cluster, tmp_path / "bmc") as site:
        hook = Hook(site, helm.render({"operator": {"sleep": {"enabled": True}}}), tmp_path)
        for kind in _RIGHTS:
            await hook.create(kind, name="joulie-restore")
        await site.prove()
        await site.put_policy()
        await site.reaches("asleep")

        assert await hook.run("wake") == "no node sleeps\n"
        labelled, tainted, _, ready = await site.marks()
        assert (labelled, tainted, ready) == (False, False, True)
        assert site.machine.server.power_state == "On"


async def _some_are_capped(system: System) -> None:
    assert set(await system.view.objects(NODE_POWER_PROFILES))
    assert await _capped(system)


async def _capped(system: System) -> set[str]:
    """Nodes that the simulator holds below their maximum."""
    found = set()
    for node in await system.view.profiles():
        controls, hardware = (await system.view.simulated(node))["controls"], await system.hardware(node)
        limits = [(controls["capWatts"], hardware["cpu"]["capRange"]["maxWattsPerSocket"])]
        if hardware.get("gpu", {}).get("present"):
            limits.append((controls["capWattsPerGpu"], hardware["gpu"]["capRangePerGpu"]["maxWatts"]))
        if controls["throttlePct"] or any(cap is not None and cap < most for cap, most in limits):
            found.add(node)
    return found
