"""One node around the processes of an agent's pod: a kubelet that speaks gRPC, a container runtime that speaks NRI, an
API server that speaks HTTP, and the library of a GPU driver as a stub.

A standard pod that allows a slowdown holds a share of each GPU; performance pods come and go on another share.
"""

import asyncio
from contextlib import asynccontextmanager

from services.agent.tests.class_limits.agent_processes import AgentProcesses
from services.agent.tests.class_limits.stub_gpus import NVIDIA, StubGpus
from services.agent.tests.holders.scripted_kubelet import Kubelet, container
from services.agent.tests.holders.scripted_kubelet import pod as listed_pod

from joulie_agent.class_limits.enforcement import LEASE_S
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_core.class_caps.enforced_limit import NOT_LIFTED_EVENT
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime
from joulie_testing.api import FakeApiServer, make_node, make_pod

GPUS = 8
CONSENT = {MAX_SLOWDOWN: "10%"}


class NodeSite:
    """One node: what the kubelet lists, what the API server has, and what the runtime does.

    Args:
        directory: of its files.
        vendor: of its GPUs.
        count: of its GPUs.
        lease_s: of the limits, in seconds.
        apart: indices of GPUs whose standard pod allows no slowdown.
        parent: as of `AgentProcesses`.
    """

    def __init__(self, directory, *, vendor=NVIDIA, count=GPUS, lease_s=LEASE_S, apart=(), parent=None):
        self.gpus = StubGpus(directory, count, vendor=vendor)
        self.runtime, self.kubelet, self.api = FakeNriRuntime(), Kubelet(), FakeApiServer()
        self.count, self.lease_s = count, lease_s
        self._directory, self._apart, self._parent = directory, apart, parent
        self._listed = {}

    @asynccontextmanager
    async def running(self):
        kubelet, runtime = self._directory / "kubelet.sock", self._directory / "nri.sock"
        async with self.api, self.kubelet.running(kubelet), self.runtime.listening(runtime):
            self.api.put(make_node("n1"))
            for index in range(self.count):
                self.add(f"standard-{index}", index, {} if index in self._apart else CONSENT, phase="Running")
            self.processes = AgentProcesses(
                self._directory,
                self.gpus,
                node="n1",
                kubeconfig=self.api.kubeconfig(self._directory),
                kubelet=kubelet,
                runtime=runtime,
                lease_s=self.lease_s,
                parent=self._parent,
            )
            await self.processes.start()
            try:
                async with asyncio.timeout(60):
                    await self.runtime.registered()
                yield
            finally:
                await self.processes.stop()

    def add(self, name, index, annotations, *, phase="Pending"):
        """Let the kubelet admit a pod with a share of a GPU, as the API server then shows it."""
        resource = self.gpus.vendor.resource
        pod = make_pod(name, "ml", node="n1", annotations=annotations)
        pod["spec"]["containers"][0].setdefault("resources", {})["limits"] = {resource: "1"}
        # Longer ago than the resolution of the field.
        pod["status"] |= {"phase": phase, "startTime": "2026-01-01T00:00:00Z"}
        stored = self.api.put(pod)
        devices = [(resource, [f"GPU-{index}::{name}"])]
        self._list({**self._listed, name: listed_pod(name, container("main", devices=devices), namespace="ml")})
        return stored["metadata"]["uid"]

    def remove(self, name):
        """Let a pod end."""
        self._list({other: entry for other, entry in self._listed.items() if other != name})
        self.api.remove("Pod", name, "ml")
        self.runtime.pods.pop(name, None)

    def _list(self, listed):
        self._listed = listed
        self.kubelet.answer = b"".join(listed.values())

    async def start(self, name, index):
        """Admit a performance pod and create its container; return the clock that its GPU is held to then."""
        uid = self.add(name, index, {WORKLOAD_CLASS: "performance"})
        self.runtime.pods[name] = nri.PodSandbox(id=name, name=name, namespace="ml", uid=uid)
        await self.runtime.create_container(nri.Container(id=f"c-{name}", pod_sandbox_id=name, name="main"))
        return self.gpus.locks_mhz[index]

    async def are_limited(self):
        assert all(self.gpus.locks_mhz), self.gpus.locks_mhz

    def warned(self):
        """Return the pods that have an Event, and its text."""
        sent = [each.json() for each in self.api.requests if each.verb == "create" and "/events" in each.path]
        return [
            (each["involvedObject"]["name"], each["message"]) for each in sent if each["reason"] == NOT_LIFTED_EVENT
        ]
