"""The servers of a demo's nodes: a simulated BMC each, and a kubelet that runs while its server is on."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from joulie_api.client import KubeClient
from joulie_api.resources import NODE_BMCS, SECRETS
from joulie_devcluster.control_plane.node_pool import wait_nodes_schedulable
from joulie_sim.bmc.kubelet import set_kubelet
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import ServedBmc, serve_bmcs
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.sleeping.settings import SERVERS
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import NAMESPACE, JoulieStack

_USER, _PASSWORD = "root", "calvin"  # the login of simulated BMCs
_FOLLOW_S: Final = 0.05
_POLL_S: Final = 0.5
_PROOF_S: Final = 120.0


class SleepingServers:
    """The servers by node name; `wall_power` has what each draws."""

    def __init__(self, wall_power: WallPower, *, scale: TimeScale, clock: Callable[[], float]) -> None:
        self.wall_power = wall_power
        profiles = {
            name: replace(
                PROFILES["openbmc"],
                power_on_s=scale.clock_s(SERVERS.boots_in_s(gpus=wall_power.has_gpus(name))),
                graceful_off_s=scale.clock_s(SERVERS.off_s),
            )
            for name in wall_power.names
        }
        self.servers = {
            name: SimulatedServer(
                profile,
                clock=clock,
                demand_watts=wall_power.idle_watts(name),
                standby_watts=SERVERS.off_watts,
                boot_watts=SERVERS.boot_over_idle * wall_power.idle_watts(name),
            )
            for name, profile in profiles.items()
        }
        self._bmcs = {
            name: SimulatedBmc(profiles[name], server, user=_USER, password=_PASSWORD)
            for name, server in self.servers.items()
        }

    @asynccontextmanager
    async def running(self, stack: JoulieStack, client: KubeClient, directory: Path) -> AsyncIterator[None]:
        """Run servers, BMCs, kubelets and the out-of-band service while the context lasts.

        It begins when every server was powered off and on. The BMCs' certificates are written to `directory`.

        Raises:
            DemoError: that takes longer than two minutes.
            StartError: the service, or a node after that, is not ready in time.
            KubeError: a request failed; all of these also in groups.
        """
        async with serve_bmcs(self._bmcs, directory) as served, asyncio.TaskGroup() as group:
            await stack.start(Service.OUTOFBAND)
            await self._register(client, served)
            following = group.create_task(self._follow(client))
            try:
                await self._prove(client)
                yield
            finally:
                following.cancel()

    @property
    def power_offs(self) -> int:
        """Times that a server was powered off since all of them were for the first time."""
        return sum(server.resets.count("GracefulShutdown") for server in self.servers.values())

    async def _register(self, client: KubeClient, served: Mapping[str, ServedBmc]) -> None:
        """Create the Secret and the NodeBMCs."""
        ca = next(iter(served.values())).ca.read_text()
        addresses = " ".join(bmc.address for bmc in served.values())
        entries = {"username": _USER, "password": _PASSWORD, "addresses": addresses, "ca.crt": ca}
        await _put_secret(client, "bmc", entries)
        async with asyncio.TaskGroup() as group:
            for name, bmc in served.items():
                spec = {
                    "nodeName": name,
                    "protocol": "redfish",
                    "address": bmc.address,
                    "credentialsSecretRef": {"name": "bmc"},
                    "powerOff": "Allowed",
                }
                body = {"apiVersion": NODE_BMCS.api_version, "kind": "NodeBMC", "metadata": {"name": name}}
                group.create_task(client.create(NODE_BMCS, {**body, "spec": spec}))

    async def _follow(self, client: KubeClient) -> NoReturn:
        """Run the kubelets of the servers that are on, until cancelled."""
        runs = dict.fromkeys(self.servers, True)
        while True:
            async with asyncio.TaskGroup() as group:
                for name, server in self.servers.items():
                    on = server.power_state == "On"
                    if on is not runs[name]:
                        runs[name] = on
                        boot_id = f"boot-{len(server.resets)}"
                        group.create_task(set_kubelet(client, name, runs=on, boot_id=boot_id))
            await asyncio.sleep(_FOLLOW_S)

    async def _prove(self, client: KubeClient) -> None:
        """Power every server off and on again, as a person does before nodes may sleep."""
        try:
            async with asyncio.timeout(_PROOF_S):
                await self._desire(client, "Off")
                await _until(client, lambda status: status.get("powerState") == "Off")
                await self._desire(client, "On")
                await _until(client, _is_proved)
                await self._desire(client, None)
        except TimeoutError:
            raise DemoError(f"not all servers were powered off and on within {_PROOF_S:.0f} s") from None
        await wait_nodes_schedulable(client, list(self.servers), timeout_s=_PROOF_S)
        for server in self.servers.values():
            server.resets.clear()

    async def _desire(self, client: KubeClient, power: str | None) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self.servers:
                group.create_task(client.merge_patch(NODE_BMCS, name, {"spec": {"desiredPower": power}}))


def _is_proved(status: Mapping[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return status.get("powerState") == "On" and conditions.get("WakeProven") == "True"


async def _until(client: KubeClient, holds: Callable[[Mapping[str, Any]], bool]) -> None:
    """Wait until the status of every NodeBMC is as it shall be."""
    while not all(holds(bmc.get("status", {})) for bmc in await client.list(NODE_BMCS)):  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)


async def _put_secret(client: KubeClient, name: str, data: Mapping[str, str]) -> None:
    encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    await client.create(SECRETS, body, NAMESPACE)
