"""The controller of sleeping nodes on the in-process API server, with servers that follow their NodeBMC.

Time is the test's: a pass takes ten seconds of it. `World.step` lets the servers do what they are asked for, waits
until the watches have seen it, and makes one pass.
"""

import asyncio
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.sleep_objects import controlled_by

from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.failures import Failures
from joulie_api.node_pods import ACTIVE_PODS
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_BMCS, NODES, PODS
from joulie_api.wire import decode_kind
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view
from joulie_core.kinds import NodeBMC
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.controller import SleepController, SleepParts
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.nodes import read_node
from joulie_operator.sleep.pods import read_pod
from joulie_operator.sleep.watches import SleepWatches
from joulie_operator.sleep.writer import SleepWriter
from joulie_testing.api import make_node, make_pod

PASS_S = 10.0
START_S = 1_800_000_000.0
#: Waits are short; the states are the same.
QUICK = {
    "idleSeconds": 20,
    "minAwakeSeconds": 0,
    "drainTimeoutSeconds": 60,
    "offTimeoutSeconds": 60,
    "bootTimeoutSeconds": 60,
    "backOffSeconds": 20,
    "bootAttempts": 2,
}
_ZONE = "topology.kubernetes.io/zone"


@dataclass
class Server:
    """One server and its BMC."""

    on: bool = True
    #: Passes that a boot or a shutdown takes.
    takes: int = 1
    ignores_off: bool = False
    never_boots: bool = False
    #: Powers on, and its kubelet does not come.
    hangs: bool = False
    unreachable: bool = False
    #: Its BMC answers, and takes no request.
    busy: bool = False
    due: int = 0
    #: A shutdown that was begun ends, whatever is requested since; meanwhile BMC and kubelet say that the server is on.
    shuts_down: bool = False
    boots: int = 0
    #: Pods that were on it when it was cut off.
    cut_under: list = field(default_factory=list)
    #: Each change of the desired power, with its time.
    requests: list = field(default_factory=list)

    def requested(self, power):
        """Return the times at which a power was requested."""
        return [at for at, desired in self.requests if desired == power]


class World:
    def __init__(self, api, client, watches):
        self.api = api
        self.now = START_S
        self.servers = {}
        self.events = []
        #: Pods that no version can be read of.
        self.unread = set()
        self.registry = CollectorRegistry()
        self._client = client
        self.watches = watches
        self._moved = asyncio.Event()
        for each in watches.all:
            each.subscribe(lambda *_: self._moved.set())
        self._inventory = Inventory.load()
        self.writes = FencedWriter(client, "joulie-operator")
        self.controller = self.restart()

    def restart(self):
        """Start the controller anew: nothing but the API server remembers."""
        self.registry = CollectorRegistry()
        parts = SleepParts(
            watches=self.watches,
            writer=SleepWriter(self._client, self.writes),
            metrics=SleepMetrics(self.registry),
            hardware=self._hardware,
            managed=lambda: [NodeName(name) for name in self.servers],
            record_event=self.events.append,
            failures=Failures(self.registry),
            wall=lambda: self.now,
        )
        self.controller = SleepController(parts, interval_s=PASS_S)
        return self.controller

    def _hardware(self, name):
        seen = self.watches.seen().nodes.get(name)
        return resolve_view(seen.node, None, self._inventory) if seen and name in self.servers else None

    def add(self, name, *, zone="a", proven=True, bmc=True, **node):
        self.servers[name] = Server()
        node = {"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 64, **node}
        self.api.put(make_node(name, labels={_ZONE: zone, "pool": "sleepy", **node.pop("labels", {})}, **node))
        if not bmc:
            return
        spec = {
            "nodeName": name,
            "protocol": "redfish",
            "address": "https://10.0.0.1",
            "credentialsSecretRef": {"name": "bmc"},
            "powerOff": "Allowed",
        }
        self.api.put({"apiVersion": "joulie.io/v1alpha1", "kind": "NodeBMC", "metadata": {"name": name}, "spec": spec})
        self._report(name, proven=proven)

    def policy(self, name="all", mode="Act", **spec):
        body = {"nodeSelector": {"pool": "sleepy"}, "mode": mode, "minAwake": {"count": 1, "spare": 0}} | QUICK | spec
        self.api.put(
            {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeSleepPolicy", "metadata": {"name": name}, "spec": body}
        )

    def pod(self, name, node=None, *, owner="ReplicaSet", cpu=None, unschedulable=False, revision=None, **pod):
        made = make_pod(name, node=node, cpu=cpu, **pod)
        if owner:
            made["metadata"]["ownerReferences"] = [controlled_by(owner, f"{name}-owner")]
        if unschedulable:
            made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        self.api.put(made)

    def state(self, name):
        return self.api.get("Node", name)["metadata"].get("labels", {}).get("joulie.io/sleep-state", "awake")

    def states(self):
        return {name: self.state(name) for name in self.servers}

    def in_state(self, state):
        return sorted(name for name, each in self.states().items() if each == state)

    def desired(self, name):
        return self.api.get("NodeBMC", name)["spec"].get("desiredPower", "Unmanaged")

    def tainted(self, name):
        taints = self.api.get("Node", name)["spec"].get("taints", ())
        return any(taint["key"] == "joulie.io/asleep" for taint in taints)

    def status(self, name="all"):
        return self.api.get("NodeSleepPolicy", name).get("status", {})

    async def step(self, passes=1):
        for _ in range(passes):
            for name in self.servers:
                self._follow(name)
            self.now += PASS_S
            await self.seen()
            await self.controller.step()
            for name, server in self.servers.items():
                self._note(name, server)

    def _note(self, name, server):
        bmc = self.api.get("NodeBMC", name)
        desired = self.desired(name) if bmc else "Unmanaged"
        if desired != (server.requests[-1][1] if server.requests else "Unmanaged"):
            server.requests.append((self.now, desired))

    async def until(self, condition, *, passes=60):
        """Step until a condition holds; return the passes it took."""
        for number in range(passes):
            if condition():
                return number
            await self.step()
        assert condition(), f"not after {passes} passes: {self.states()}, {self.status()}"
        return passes

    async def until_seen(self, condition):
        """Wait until a condition of what is watched holds."""
        while not condition(self.watches.seen()):
            self._moved.clear()
            await self._moved.wait()

    async def seen(self):
        """Wait until the watches have all that the API server has."""

        def versions(kind, objects):
            return {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in self.api.objects(kind)
            } == {each.name: each.resource_version for each in objects}

        def caught_up():
            now = self.watches.seen()
            return (
                versions("Node", [each.node for each in now.nodes.values()])
                and versions("NodeBMC", [each.metadata for each in now.bmcs.values()])
                and versions("NodeSleepPolicy", [each.metadata for each in now.policies.values()])
                and self._pods() == sorted((each.name, each.node, each.unschedulable) for each in now.pods.values())
                and len(self.api.objects("DaemonSet")) == len(now.daemon_sets)
            )

        async with asyncio.timeout(10):
            while not caught_up():
                self._moved.clear()
                await self._moved.wait()

    def _pods(self):
        return sorted(
            (
                pod["metadata"]["name"],
                pod["spec"].get("nodeName"),
                any(each["reason"] == "Unschedulable" for each in pod["status"].get("conditions", ())),
            )
            for pod in self.api.objects("Pod")
            if pod["metadata"]["name"] not in self.unread
        )

    def _follow(self, name):
        """Let a server do what its NodeBMC asks for, and have its BMC report."""
        server = self.servers[name]
        if self.api.get("NodeBMC", name) is None or server.unreachable:
            return
        wanted = "Off" if server.shuts_down else self.desired(name)
        stuck = server.ignores_off if wanted == "Off" else server.never_boots or server.busy
        server.shuts_down = wanted == "Off" and server.on and not stuck
        if wanted == "Unmanaged" or (wanted == "On") is server.on or stuck:
            server.due = 0
        elif server.due < server.takes:
            server.due += 1
        else:
            server.due, server.on, server.shuts_down = 0, wanted == "On", False
            if server.on:
                server.boots += 1
                self.api.patch("Node", name, {"status": {"nodeInfo": {"bootID": f"boot-{server.boots}"}}})
            else:
                server.cut_under = [
                    pod["metadata"]["name"]
                    for pod in self.api.objects("Pod")
                    if pod["spec"].get("nodeName") == name
                    and pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet"
                ]
            self.ready(name, "True" if server.on and not server.hangs else "Unknown")
        self._report(name)

    def _report(self, name, *, proven=None):
        server = self.servers[name]
        before = self.api.get("NodeBMC", name).get("status", {})
        known = {each["type"]: each["status"] for each in before.get("conditions", ())}
        # The operator's, which the service leaves alone.
        others = [each for each in before.get("conditions", ()) if each["type"] == "LeftOff"]
        bmc = self.api.get("NodeBMC", name)
        power = {"type": "PowerAsDesired", "status": "False", "reason": "Changing"}
        if not server.busy:
            power["observedGeneration"] = bmc["metadata"]["generation"]
        wake = known.get("WakeProven", "Unknown") if proven is None else ("True" if proven else "Unknown")
        status = {
            "powerState": "On" if server.on else "Off",
            "powerWatts": 180 if server.on else 12,
            "sampledAt": rfc3339(self.now + PASS_S, "seconds"),
            "bootSeconds": 20,
            "conditions": [
                {"type": "Reachable", "status": "True"},
                {"type": "WakeProven", "status": wake},
                power,
                *others,
            ],
        }
        self.api.patch("NodeBMC", name, {"status": status})

    def ready(self, name, status):
        """Let the condition Ready of a Node be `status`."""
        self.api.patch("Node", name, {"status": {"conditions": [{"type": "Ready", "status": status}]}})

    def cut(self, name):
        """Let a server lose its power."""
        self.servers[name].on = False
        self.ready(name, "Unknown")

    def hide(self, name, reason="Unreachable"):
        """Let the BMC stop answering, and the service say so; a reason of "" stops the service too."""
        self.servers[name].unreachable = True
        if not reason:
            return
        reachable = {"type": "Reachable", "status": "False", "reason": reason}
        conditions = [reachable, {"type": "WakeProven", "status": "True"}]
        self.api.patch("NodeBMC", name, {"status": {"powerState": "Unknown", "conditions": conditions}})

    def show(self, name):
        """Let the BMC answer again."""
        self.servers[name].unreachable = False


@pytest.fixture
async def world(fake_api, tmp_path):
    async with await KubeClient.connect(
        kubeconfig=str(fake_api.kubeconfig(tmp_path)), user_agent="joulie-operator"
    ) as client:
        nodes, bmcs = Reflector(client, NODES, read_node), Reflector(client, NODE_BMCS, decode_kind(NodeBMC))
        pods = Reflector(client, PODS, read_pod, field_selector=ACTIVE_PODS)
        watches = SleepWatches(client, nodes, pods, bmcs)
        tasks = [asyncio.create_task(each.run()) for each in watches.all]
        try:
            async with asyncio.timeout(10):
                for each in watches.all:
                    await each.wait_synced()
            yield World(fake_api, client, watches)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
