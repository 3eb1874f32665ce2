"""Hand-overs of GPUs by all processes of an agent's pod: actuator, holders, start hook and agent.

Around them are the drivers' library as a stub, a kubelet that speaks gRPC, a container runtime that speaks NRI and an
API server that speaks HTTP. A standard pod holds a share of each GPU, performance pods come and go on another. Compared
are the clocks that the driver holds the GPUs to when the runtime goes on to start a container.
"""

import asyncio
import random
import statistics
import time
from contextlib import asynccontextmanager

import pytest
from services.agent.tests.class_limits.agent_processes import ACTUATOR, AGENT, HOLDERS, START_HOOK, AgentProcesses
from services.agent.tests.class_limits.stub_gpus import RESOURCE, StubGpus
from services.agent.tests.holders.scripted_kubelet import Kubelet, container
from services.agent.tests.holders.scripted_kubelet import pod as listed_pod
from tests.e2e.waiting import eventually

from joulie_agent.class_limits.enforcement import LEASE_S
from joulie_agent.class_limits.starts import NOT_LIFTED
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime
from joulie_testing.api import FakeApiServer, make_node, make_pod

GPUS = 8
#: Of the driver, and of machines that are busy with other tests.
SLACK_S = 10.0


class Site:
    """One node: what the kubelet lists, what the API server has, and what the runtime does."""

    def __init__(self, directory):
        self.gpus = StubGpus(directory, GPUS)
        self.runtime, self.kubelet, self.api = FakeNriRuntime(), Kubelet(), FakeApiServer()
        self._directory = directory
        self._listed = {}

    @asynccontextmanager
    async def running(self):
        kubelet, runtime = self._directory / "kubelet.sock", self._directory / "nri.sock"
        async with self.api, self.kubelet.running(kubelet), self.runtime.listening(runtime):
            self.api.put(make_node("n1"))
            for index in range(GPUS):
                self.add(f"standard-{index}", index, {MAX_SLOWDOWN: "10%"}, phase="Running")
            self.processes = AgentProcesses(
                self._directory,
                self.gpus,
                node="n1",
                kubeconfig=self.api.kubeconfig(self._directory),
                kubelet=kubelet,
                runtime=runtime,
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
        pod = make_pod(name, "ml", node="n1", annotations=annotations)
        pod["spec"]["containers"][0].setdefault("resources", {})["limits"] = {RESOURCE: "1"}
        # Longer ago than the resolution of the field.
        pod["status"] |= {"phase": phase, "startTime": "2026-01-01T00:00:00Z"}
        stored = self.api.put(pod)
        devices = [(RESOURCE, [f"GPU-{index}::{name}"])]
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

    async def are_free(self):
        assert not any(self.gpus.locks_mhz), self.gpus.locks_mhz

    def warned(self):
        """Return the pods that have an Event, and its text."""
        sent = [each.json() for each in self.api.requests if each.verb == "create" and "/events" in each.path]
        return [(each["involvedObject"]["name"], each["message"]) for each in sent if each["reason"] == NOT_LIFTED]


@pytest.fixture
async def site(tmp_path):
    site = Site(tmp_path)
    async with site.running():
        yield site


async def hand_over(site, rounds):
    """Start a performance pod on each limited GPU, round by round; return the clocks at their starts."""
    locks = []
    for number in range(rounds):
        await eventually(site.are_limited, within_s=60)
        names = [f"performance-{number}-{index}" for index in range(GPUS)]
        locks += [await site.start(name, index) for index, name in enumerate(names)]
        for name in names:
            site.remove(name)
    return locks


async def _hand_overs_are_free_of_limits(site, rounds):
    locks = await hand_over(site, rounds)
    waits = sorted(site.processes.waits_ms("performance"))
    p50, p99 = statistics.median(waits), waits[int(0.99 * len(waits))]
    print(
        f"{len(locks)} hand-overs, {sum(map(bool, locks))} under the limit of another pod; "
        f"a container waited {p50:.1f} ms (p50), {p99:.1f} ms (p99), {waits[-1]:.1f} ms at most"
    )
    hook, agent = await site.processes.series(START_HOOK), await site.processes.series(AGENT)
    assert locks == [0] * (rounds * GPUS)
    assert hook['joulie_start_hook_containers_total{outcome="answered"}'] == len(waits) == len(locks)
    assert agent['joulie_class_limit_limited_starts_total{node="n1"}'] == 0
    assert site.warned() == []


async def test_no_performance_container_starts_under_the_limit_of_another_pod(site):
    await _hand_overs_are_free_of_limits(site, rounds=3)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_none_of_three_hundred_does(site):
    await _hand_overs_are_free_of_limits(site, rounds=38)


async def test_a_driver_that_hangs_delays_a_start_by_the_deadline_and_the_pod_has_an_event(site):
    await eventually(site.are_limited, within_s=60)
    site.gpus.hang(0, on_set=True)
    begun = time.monotonic()
    assert await site.start("stuck", 0) > 0
    assert 1.0 <= time.monotonic() - begun < 2.0

    async def warned():
        assert [name for name, _ in site.warned()] == ["stuck"]

    await eventually(warned, within_s=30)
    site.gpus.hang(0, on_set=False)

    async def freed():
        assert site.gpus.locks_mhz[0] == 0

    await eventually(freed, within_s=30)


@pytest.mark.parametrize("name", [AGENT, HOLDERS, ACTUATOR])
async def test_after_a_kill_at_a_random_point_the_originals_are_back_within_the_lease(site, name):
    seed = random.randrange(1 << 30)
    process = site.processes.running[name]
    await eventually(site.are_limited, within_s=60)
    await asyncio.sleep(random.Random(seed).uniform(0.0, 1.0))
    process.kill()
    await process.wait()
    killed_at = time.monotonic()
    if name == ACTUATOR:
        # Nothing else may write to the hardware: a new one restores first.
        await process.start()
    await eventually(site.are_free, within_s=LEASE_S + SLACK_S)
    print(f"{name}, seed {seed}: free {time.monotonic() - killed_at:.1f} s after kill -9")
