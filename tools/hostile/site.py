"""One cluster under attack: an API server, the services, their backends, 50 good objects of each kind, and a judge."""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
from tools.hostile.api import RESOURCES, Api, ForgedApi, RealApi
from tools.hostile.backends import PASSWORD, POISONED_BMC, USER, Backends, PoisonedBmc, PoisonedIpmi, serve_all_bmcs
from tools.hostile.documents import (
    AGENT_LABEL,
    GOOD,
    MODEL,
    NAMESPACE,
    POISONED_SECRET,
    SINKS,
    SYSTEM_NAMESPACE,
    WATTS,
    good_names,
    good_objects,
    secret,
)
from tools.hostile.services import Process, settings, start_all

from joulie_api.client import KubeClient
from joulie_api.errors import AlreadyExists, ApiError, NotFound
from joulie_api.reflector import Reflector
from joulie_api.resources import (
    LEASES,
    NODE_BMCS,
    NODE_HARDWARES,
    NODE_POWER_PROFILES,
    NODE_TWINS,
    NODES,
    TELEMETRY_PROFILES,
)
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_sim.bmc.serving import ServedBmc
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack
from joulie_testing.api import make_node, make_node_bmc, make_pod
from joulie_testing.api.devices import dra_definitions

#: Fifty BMCs share this process: on a busy machine it answers some only after several polls.
_SETTLE_S: Final = 300.0
_POLL_S: Final = 0.02
_WATCHED: Final = (NODES, NODE_HARDWARES, NODE_POWER_PROFILES, NODE_TWINS, TELEMETRY_PROFILES, NODE_BMCS)
#: Names of the NodeBMCs that answer with poison.
BAD_BMC, BAD_IPMI, BAD_SECRET = "bad-redfish", "bad-ipmi", "bad-secret"
_HOSTS: Final = ("127.0.0.1", "localhost")
FOREVER: Final = "2099-01-01T00:00:00Z"

Results = dict[str, Any]


def _decode(raw: bytes) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    return found


@dataclass(frozen=True, slots=True)
class Answers:
    """Servers that the services ask beside the API server, and clients that ask them."""

    backends: Backends
    bmcs: Mapping[str, ServedBmc]
    bmc: PoisonedBmc
    ipmi: PoisonedIpmi
    extender_port: int
    http: aiohttp.ClientSession


class Site:
    """See the module."""

    def __init__(self, api: Api, client: KubeClient, processes: Mapping[Service, Process], answers: Answers) -> None:
        self.api = api
        self.client = client
        self.processes = processes
        self.backends = answers.backends
        self.bmcs = answers.bmcs
        self.bmc = answers.bmc
        self.ipmi = answers.ipmi
        self.extender = f"http://{LOOPBACK}:{answers.extender_port}"
        self.http = answers.http
        self.baseline: dict[str, Results] = {}
        self._stores = {each.kind: Reflector(client, each, _decode) for each in _WATCHED}

    # --- the good ones ----------------------------------------------------------------------------------------------

    async def fill(self) -> None:
        """Create the good objects."""
        ca = self.bmcs[POISONED_BMC].ca.read_bytes()
        approved = " ".join(f"{scheme}://{host}" for scheme in ("https", "ipmi") for host in _HOSTS)
        entries = {
            "username": USER.encode(),
            "password": PASSWORD.encode(),
            "ca.crt": ca,
            "addresses": approved.encode(),
        }
        objects = [secret("bmc", {key: b64encode(value).decode() for key, value in entries.items()}), *good_objects()]
        access = {"credentialsSecretRef": {"name": "bmc"}, "powerOff": "Never"}
        objects += [make_node_bmc(each, spec={**access, "address": self.bmcs[each].address}) for each in good_names()]
        objects.append(make_node_bmc(BAD_BMC, spec={**access, "address": self.bmcs[POISONED_BMC].address}))
        of_poison = {"credentialsSecretRef": {"name": POISONED_SECRET}, "address": self.bmcs[good_names()[0]].address}
        objects.append(make_node_bmc(BAD_SECRET, spec=of_poison))
        objects.append(make_node_bmc(BAD_IPMI, spec={"protocol": "ipmi", "address": self._ipmi_address("127.0.0.1")}))
        for each in objects:
            await self._create(each)

    def _ipmi_address(self, host: str) -> str:
        return f"ipmi://{host}:{self.ipmi.port}"

    async def _create(self, body: dict[str, Any]) -> None:
        resource = RESOURCES[body["kind"]]
        deadline = time.monotonic() + 30
        while True:
            try:
                await self.client.create(resource, body, body["metadata"].get("namespace"))
            except AlreadyExists:
                return
            except ApiError as error:
                # The namespace's service account comes a moment after it.
                if time.monotonic() > deadline or error.status not in {403, 404, 500}:
                    raise
                await asyncio.sleep(0.2)
            else:
                return

    # --- what is published ------------------------------------------------------------------------------------------

    async def results(self) -> dict[str, Results]:
        """Return what is published for each good node, by the service that publishes it."""
        stores = {kind: reflector.store for kind, reflector in self._stores.items()}
        found: dict[str, Results] = {}
        scores = await self._scores(good_names())
        for name in good_names():
            node, profile, twin = (stores[kind].get(name) or {} for kind in ("Node", "NodePowerProfile", "NodeTwin"))
            hardware, report = (stores[kind].get(name) or {} for kind in ("NodeHardware", "TelemetryProfile"))
            bmc, status = stores["NodeBMC"].get(name) or {}, twin.get("status", {})
            power = status.get("powerMeasurement", {})
            facts = {key: value for key, value in hardware.get("status", {}).items() if key != "updatedAt"}
            control = report.get("status", {}).get("control", {}).get("cpu", {})
            found[name] = {
                "operator": {
                    "profile": profile.get("spec"),
                    "label": node.get("metadata", {}).get("labels", {}).get("joulie.io/power-profile"),
                    "class": status.get("schedulableClass"),
                    "watts": [
                        power.get(key) for key in ("source", "measuredNodePowerW", "nodeCappedPowerW", "nodeTdpW")
                    ],
                },
                "agent": {
                    "hardware": facts,
                    "control": [control.get(key) for key in ("result", "backend", "requestedWatts")],
                    "cap": self.backends.caps.get(name),
                },
                "extender": scores.get(name),
                "outofband": {
                    "power": [bmc.get("status", {}).get(key) for key in ("powerState", "powerWatts")],
                    "conditions": {
                        each["type"]: each["status"] for each in bmc.get("status", {}).get("conditions", ())
                    },
                    "limit": self.bmcs[name].bmc.server.limit_watts,
                },
            }
        return found

    async def _scores(self, names: list[str]) -> dict[str, Any]:
        pod = make_pod("judged", NAMESPACE, cpu=2, workload_class="performance")
        body = {"Pod": pod, "Nodes": None, "NodeNames": names}
        found: dict[str, list[Any]] = {name: [] for name in names}
        try:
            async with self.http.post(f"{self.extender}/filter", json=body) as answer:
                filtered = await answer.json()
                for name in names:
                    found[name].append(name in (filtered.get("NodeNames") or filtered.get("nodenames") or ()))
            async with self.http.post(f"{self.extender}/prioritize", json=body) as answer:
                for each in await answer.json():
                    found[each.get("Host", each.get("host"))].append(each.get("Score", each.get("score")))
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return {}
        return found

    async def settle(self) -> None:
        """Wait until every good node has all results and they stay the same, and keep them as the baseline."""
        deadline, before = time.monotonic() + _SETTLE_S, None
        while True:
            now = await self.results()
            missing = self._missing(now)
            if not missing and now == before:
                self.baseline = now
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"no steady state: {missing[:3]} {_difference(before or {}, now)}")
            before = now
            await asyncio.sleep(3)

    @staticmethod
    def _missing(now: Mapping[str, Results]) -> list[str]:
        return [
            f"{name}: {each}"
            for name, each in now.items()
            if each["operator"]["profile"] is None
            or each["operator"]["class"] != "eco"
            or each["operator"]["watts"][1] is None
            or each["agent"]["control"][0] != "applied"
            or each["agent"]["cap"] is None
            or not each["extender"]
            or each["outofband"]["conditions"].get("Reachable") != "True"
        ]

    async def differences(self, *, within_s: float) -> list[tuple[str, str]]:
        """Return what is not as in the baseline after some time, by service."""
        deadline = time.monotonic() + within_s
        while True:
            dead = {each.name for each in self.processes.values() if not each.alive}
            found = [each for each in _difference(self.baseline, await self.results()) if each[0] not in dead]
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(_POLL_S * 5)

    # --- reactions --------------------------------------------------------------------------------------------------

    async def touch(self, number: int, *, within_s: float) -> list[tuple[str, str]]:
        """Change good objects, and return which services do not react.

        A node is reserved and released: the operator removes and publishes its target, the agent lifts and sets its
        cap, the extender lets a performance pod onto it and filters it again. The cap of a BMC is changed.
        """
        name, failures = f"good-{number % GOOD}", list[tuple[str, str]]()
        watts = 300.0 + number % 97
        self.baseline[name]["outofband"]["limit"] = watts
        self.baseline[name]["outofband"]["conditions"]["Capped"] = "True"
        cap = {"spec": {"cap": {"watts": watts, "expiresAt": FOREVER}}}
        await self.client.merge_patch(NODE_BMCS, name, cap)
        await self._reserve(name, "true")
        expected = {
            "operator": lambda: self._stores["NodePowerProfile"].store.get(name) is None,
            "agent": lambda: self.backends.caps.get(name) == WATTS,
            "extender": lambda: self._lets_in(name),
        }
        failures += await self._wait(expected, "does not react to a node that is reserved", within_s)
        await self._reserve(name, None)
        expected = {
            "operator": lambda: self._stores["NodePowerProfile"].store.get(name) is not None,
            "agent": lambda: self.backends.caps.get(name) == self.baseline[name]["agent"]["cap"],
            "outofband": lambda: self.bmcs[name].bmc.server.limit_watts == watts,
            "extender": lambda: self._refuses(name),
        }
        return failures + await self._wait(expected, "does not react to a node that is released, or to a cap", within_s)

    async def _lets_in(self, name: str) -> bool:
        """Return whether the extender lets a performance pod onto a node."""
        return (await self._scores([name])).get(name, [False])[0] is True

    async def _refuses(self, name: str) -> bool:
        return (await self._scores([name])).get(name, [True])[0] is False

    async def _reserve(self, name: str, value: str | None) -> None:
        await self.client.merge_patch(NODES, name, {"metadata": {"labels": {"joulie.io/reserved": value}}})

    async def _wait(self, expected: Mapping[str, Any], what: str, within_s: float) -> list[tuple[str, str]]:
        deadline = time.monotonic() + within_s
        left = dict(expected)
        while left and time.monotonic() < deadline:
            # One that has ended is found by itself.
            alive = {each.name for each in self.processes.values() if each.alive}
            for service, holds in list(left.items()):
                if service in alive:
                    held = holds()
                    if not (await held if isinstance(held, Awaitable) else held):
                        continue
                del left[service]
            await asyncio.sleep(_POLL_S)
        return [(service, what) for service in left]

    async def visit_bmcs(self, number: int) -> None:
        """Have the out-of-band service connect to the poisoned BMCs anew."""
        host = _HOSTS[number % 2]
        redfish, other = (self.bmcs[name].address.replace(_HOSTS[0], host) for name in (POISONED_BMC, good_names()[0]))
        for name, address in ((BAD_BMC, redfish), (BAD_SECRET, other), (BAD_IPMI, self._ipmi_address(host))):
            await self.client.merge_patch(NODE_BMCS, name, {"spec": {"address": address}})

    async def free_lease(self, service: Service) -> None:
        """Delete the Lease of a service, if it has one."""
        with suppress(NotFound):
            await self.client.delete(LEASES, service.value, SYSTEM_NAMESPACE)

    async def run_watches(self) -> None:
        """Follow what is published until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._stores.values():
                group.create_task(each.run())


def _difference(before: Mapping[str, Results], now: Mapping[str, Results]) -> list[tuple[str, str]]:
    return [
        (service, f"{name}: {json.dumps(before[name][service])[:400]} became {json.dumps(now[name][service])[:400]}")
        for name in before
        for service in before[name]
        if before[name][service] != now[name][service]
    ]


@asynccontextmanager
async def run_site(directory: Path, *, real: bool, without: Mapping[str, str] | None = None) -> AsyncIterator[Site]:
    """Start everything, and wait until the good ones are served.

    Args:
        directory: of logs and certificates.
        real: on a real API server; else on the one in this process.
        without: bulkhead to be patched away, by service.
    """
    async with AsyncExitStack() as stack:
        api, client, kubeconfig = await stack.enter_async_context(_real() if real else _forged(directory))
        answers = await stack.enter_async_context(_answers(directory))
        processes = {
            service: Process(
                service,
                {**own, "KUBECONFIG": kubeconfig[service]},
                directory,
                without=(without or {}).get(service.removeprefix("joulie-"), ""),
            )
            for service, own in settings(answers.backends.url, answers.extender_port).items()
        }
        site = Site(api, client, processes, answers)
        await site.fill()
        for each in processes.values():
            stack.push_async_callback(each.stop)
        await start_all(processes)
        watches = asyncio.create_task(site.run_watches())
        try:
            await site.settle()
            yield site
        finally:
            watches.cancel()
            await asyncio.gather(watches, return_exceptions=True)


@asynccontextmanager
async def _answers(directory: Path) -> AsyncIterator[Answers]:
    async with AsyncExitStack() as stack:
        backends = Backends()
        await backends.start()
        stack.push_async_callback(backends.stop)
        bmcs, poisoned = await stack.enter_async_context(serve_all_bmcs(directory))
        loop = asyncio.get_running_loop()
        transport, ipmi = await loop.create_datagram_endpoint(PoisonedIpmi, local_addr=(LOOPBACK, 0))
        stack.callback(transport.close)
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)))
        yield Answers(backends, bmcs, poisoned, ipmi, free_port(), http)


@asynccontextmanager
async def _forged(directory: Path) -> AsyncIterator[tuple[Api, KubeClient, dict[Service, str]]]:
    async with ForgedApi() as api:
        api.put_all(dra_definitions())
        labels = {AGENT_LABEL: "true"}
        api.put_all(make_node(name, cpu=384, cpu_model=MODEL, cpu_sockets=2, labels=labels) for name in good_names())
        for name, more in zip(SINKS, ({}, labels), strict=True):
            api.put(make_node(name, cpu=384, gpus=1, cpu_model=MODEL, labels={"joulie.io/rack": "poisoned", **more}))
        path = str(api.kubeconfig(directory))
        async with await KubeClient.connect(kubeconfig=path, user_agent="hostile") as client:
            yield api, client, dict.fromkeys(Service, path)


@asynccontextmanager
async def _real() -> AsyncIterator[tuple[Api, KubeClient, dict[Service, str]]]:
    cpu = CpuClass(model=MODEL, cores=192)
    labels = {AGENT_LABEL: "true"}
    nodes = (
        NodeClass(name="good", count=GOOD, cpu=cpu, labels=labels),
        NodeClass(name="sink", count=len(SINKS), cpu=cpu, racks=("poisoned",)),
    )
    cluster = DevCluster(ClusterConfig(nodes=nodes, extender=False))
    await cluster.up()
    try:
        await JoulieStack(cluster).install()
        async with await cluster.client(user_agent="hostile") as client:
            await client.merge_patch(NODES, SINKS[1], {"metadata": {"labels": labels}})
            users = {service: str(cluster.issue_kubeconfig(service.user)) for service in Service}
            yield RealApi(client), client, users
    finally:
        await cluster.down()
