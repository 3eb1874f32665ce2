"""Everything of a campaign, connected: servers and their BMCs, the cluster, the API server, and both services."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tools.sleep_campaign.api import BmcNetwork, CampaignApi
from tools.sleep_campaign.cluster import CampaignCluster, Workload
from tools.sleep_campaign.journal import Journal
from tools.sleep_campaign.observer import SleepObserver
from tools.sleep_campaign.pods import PodTemplate, volume_objects
from tools.sleep_campaign.servers import CampaignServer, ServerHooks, ServerTimes
from tools.sleep_campaign.services import NAMESPACE, CampaignService, make_services
from tools.sleep_campaign.virtual_time import START_S

from joulie_core.timestamps import rfc3339
from joulie_devcluster.control_plane.pki import Authority
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_testing.api import make_node_bmc
from joulie_testing.api.request_log import Request

_USER, _PASSWORD = "root", "calvin"
_ZONE: Final = "topology.kubernetes.io/zone"
POLICY: Final = "sleepy"
_POLICY_SPEC: Final[dict[str, Any]] = {
    "nodeSelector": {"pool": "sleepy"},
    "mode": "Act",
    "minAwake": {"count": 2, "spare": 1},
    "maxAsleepPercent": 50,
    "idleSeconds": 120,
    "minAwakeSeconds": 60,
    "consolidation": {"mode": "Act", "belowPercent": 40},
    "drainTimeoutSeconds": 300,
    "offTimeoutSeconds": 300,
    "bootTimeoutSeconds": 900,
    "backOffSeconds": 120,
    "rates": {"poweringOff": 8, "waking": 40},
}
_TICK_S: Final = 2.0
_DAEMON_SET: Final = PodTemplate("every-node", "DaemonSet", 0.1)


@dataclass(frozen=True, slots=True)
class SiteSize:
    """Size and speed of a site."""

    nodes: int = 40
    times: ServerTimes = field(default_factory=ServerTimes)


class CampaignSite:
    """One site; `bmcs` are the addresses of BMCs by node."""

    def __init__(self, seed: str, size: SiteSize) -> None:
        loop = asyncio.get_running_loop()
        self.journal = Journal(loop.time)
        self.api = CampaignApi()
        self.network = BmcNetwork(Random(f"{seed} network"))
        self.cluster = CampaignCluster(self.api, Random(f"{seed} cluster"), self.journal)
        self.operator, self.outofband = make_services(self.api, self.network, self.journal, {})
        self.bmcs: dict[str, str] = {}
        self._power_offs: list[asyncio.Future[str]] = []
        self.observer = SleepObserver(self.cluster, self.api, self.services, self.journal)
        hooks = ServerHooks(
            asked_off=self.observer.asked_off,
            shuts_down=self.cluster.shuts_down,
            pods_ended=self.cluster.pods_ended,
            went_off=self._went_off,
            came_up=self.cluster.came_up,
        )
        for number in range(size.nodes):
            self._add(f"n{number:02}", number, Random(f"{seed} server {number}"), size.times, hooks)
        self._put_secret(Authority.create("campaign").pair.cert_pem.decode())
        self.cluster.workloads[_DAEMON_SET.app] = Workload(_DAEMON_SET, size.nodes)
        self.api.put(_daemon_set())
        self.put_policy()
        self.api.on_write = self._note_write

    @property
    def services(self) -> tuple[CampaignService, CampaignService]:
        """Both services."""
        return self.operator, self.outofband

    def put_policy(self, **changes: Any) -> None:
        """Write the policy, which selects all nodes."""
        meta = {"name": POLICY}
        spec = _POLICY_SPEC | changes
        self.api.put({"apiVersion": "joulie.io/v1alpha1", "kind": "NodeSleepPolicy", "metadata": meta, "spec": spec})

    def put_bmc(self, name: str) -> None:
        """Write a NodeBMC whose wake path is proved."""
        secret = {"credentialsSecretRef": {"name": "bmcs"}}
        spec = {"protocol": "redfish", "address": self.bmcs[name], **secret, "powerOff": "Allowed"}
        proof = {
            "type": "WakeProven",
            "status": "True",
            "reason": "Woken",
            "message": "",
            "lastTransitionTime": rfc3339(START_S, "seconds"),
        }
        status = {"conditions": [proof], "bootSeconds": round(self.cluster.servers[name].boot_s, 1)}
        self.api.put(make_node_bmc(name, spec=spec, status=status))

    def volume_objects(self, template: PodTemplate) -> list[dict[str, Any]]:
        """Return the claim and the volume of a workload, as far as the API server has such kinds."""
        return [each for each in volume_objects(template) if self.api.serves(each["kind"])]

    async def next_power_off(self) -> str:
        """Wait until the power-off of a node is requested, and return its name; the server is on then."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._power_offs.append(future)
        return await future

    async def ticks(self) -> None:
        """Have the cluster work, and the observer look, until cancelled."""
        while True:
            self.cluster.tick()
            self.observer.look()
            await asyncio.sleep(_TICK_S)

    def _add(self, name: str, number: int, dice: Random, times: ServerTimes, hooks: ServerHooks) -> None:
        server = CampaignServer(name, dice, times, self.journal, hooks)
        self.cluster.add_server(server, {"pool": "sleepy", _ZONE: f"zone-{number % 2}"})
        bmc = SimulatedBmc(PROFILES["plain"], server, user=_USER, password=_PASSWORD)  # type: ignore[arg-type]
        self.bmcs[name] = f"https://10.0.0.{number + 1}"
        self.network.add(self.bmcs[name], bmc.application(), server.note_asked)
        self.put_bmc(name)

    def _put_secret(self, certificate: str) -> None:
        """Write the credentials of all BMCs, which all addresses of the network get."""
        entries = {"username": _USER, "password": _PASSWORD, "addresses": "https://10.0.0.0/24", "ca.crt": certificate}
        data = {key: b64encode(text.encode()).decode() for key, text in entries.items()}
        meta = {"name": "bmcs", "namespace": NAMESPACE}
        self.api.put({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})

    def _went_off(self, server: CampaignServer) -> None:
        self.observer.power_goes(server)
        self.cluster.went_off(server)

    def _note_write(self, request: Request) -> None:
        if request.kind in {"Node", "NodeBMC"} and not request.subresource:
            body = request.json() or {}
            meta = body.get("metadata", {})
            shown = {**meta.get("labels", {}), **meta.get("annotations", {}), **body.get("spec", {})}
            self.journal.note(request.name, f"{request.kind}: {shown}")
            if shown.get("desiredPower") == "Off":
                for each in self._power_offs:
                    if not each.done():
                        each.set_result(request.name)
                self._power_offs.clear()


def _daemon_set() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _DAEMON_SET.app, "namespace": "default", "generation": 1},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1},
    }


@asynccontextmanager
async def run_site(seed: str, size: SiteSize) -> AsyncIterator[CampaignSite]:
    """Run a site with both services."""
    site = CampaignSite(seed, size)
    async with site.api:
        for service in site.services:
            service.start()
        ticking = asyncio.get_running_loop().create_task(site.ticks(), name="ticks")
        try:
            yield site
        finally:
            ticking.cancel()
            await asyncio.wait({ticking})
            for service in site.services:
                await service.kill()
