"""Limits by class in Shadow, over random holders: the agent's passes and the actuator, over the real pynvml and a stub.

Nothing reaches the driver that sets anything: neither a count of its setters rises, nor does a value change.
"""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulie_actuator.client import ActuatorClient
from joulie_actuator.protocol import SetGpuClocks
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.backends.host import HostBackend
from joulie_agent.class_limits.shadow import ShadowLimits, ShadowSources
from joulie_agent.holders.follow import HoldersFollower, HolderSources
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.gpu_limits import LimitReason
from joulie_core.class_caps.held_clock import LEAST_SAMPLES
from joulie_core.class_caps.held_limit import HolderPods
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.holders.held import NodePods
from joulie_core.holders.records import (
    DeviceListing,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodePod,
    NoListing,
    PluginDevice,
)
from joulie_core.labels import MAX_SLOWDOWN
from joulie_testing.agent.scripted_host import INPUTS, node_control

GPUS = ("GPU-0", "GPU-1")
#: Limits that an administrator has set, so that a restore would show as well.
FOUND_MW, LOCKED_MHZ = 650_000, 1500
LOADED = {"clock_mhz": 1980, "activity_pct": 100}


class NoNetwork:
    """Reaches nothing."""

    async def get(self, _target, _params=None):
        raise AssertionError("a host backend needs no network")


@pytest.fixture
def gpu_node(make_gpu_node, hardware, nvml_folder):
    for uuid in GPUS:
        hardware.state.add(uuid, "NVIDIA H100 80GB HBM3", limit_mw=FOUND_MW, lock_mhz=LOCKED_MHZ, **LOADED)
    node = make_gpu_node(nvml_folder)
    node.start()
    return node


class Agent:
    """One agent, pass by pass, and what it is told of holders."""

    def __init__(self, node):
        self._state = node.state
        self._client = ActuatorClient(node.environment["ACTUATOR_SOCKET"])
        host = HostBackend(self._client, Inventory.load(), lease_s=60)
        self._control = node_control(BackendFactory(NoNetwork(), lambda _node: host))
        self._namespaces = {"ml": {}}
        self._listing = NoListing(HolderReason.NO_READER)
        self._pods = None
        self._follower = HoldersFollower(
            HolderSources(self._list, lambda: self._pods, host.node_gpus), changed=lambda: None
        )
        self._shadow = ShadowLimits(
            ShadowSources(self._follower.current, self._holder_pods, host.gpu_clocks), Inventory.load()
        )
        self._now_s = 1000.0

    async def _list(self):
        return self._listing

    def _holder_pods(self):
        found = self._follower.pods()
        return found and HolderPods(found.pods, self._namespaces.get)

    async def take(self, listing, pods, namespaces, load):
        """Make one pass; return the reason for the limit of each GPU, or for none."""
        self._listing, self._pods, self._namespaces = listing, pods, namespaces
        for index in range(len(GPUS)):
            for name, value in load.items():
                setattr(self._state.gpus[index], name, value)
        self._now_s += 20.0
        await self._follower.look()
        tick = await self._control.tick(replace(INPUTS, target=None, now=self._now_s))
        state = self._shadow.step(tick.gpu_reading, tick.gpu, tick.hardware.status, self._now_s)
        return [each.held.limit.reason for each in (state.limits or {}).values()]

    async def close(self):
        await self._client.close()


async def passes(node, steps):
    agent = Agent(node)
    try:
        return [await agent.take(*step) for step in steps]
    finally:
        await agent.close()


def untouched(node):
    gpus = [node.state.gpus[index] for index in range(len(GPUS))]
    return node.state.sets, [(each.limit_mw, each.lock_mhz) for each in gpus]


AS_FOUND = (0, [(FOUND_MW, LOCKED_MHZ)] * len(GPUS))


def pod(name, workload_class, slowdown):
    return NodePod("ml", name, name, True, workload_class, 0.0, {"NVIDIA": 1}, max_slowdown=slowdown)


def listed(name, *uuids):
    devices = tuple(PluginDevice("nvidia.com/gpu", f"{uuid}::0") for uuid in uuids)
    return ListedPod("ml", name, (ListedContainer("main", devices),))


def test_a_gpu_that_would_be_limited_is_not_and_the_stub_counts_what_is_set(gpu_node):
    pods = NodePods({"ml/a": pod("a", WorkloadClass.STANDARD, "25%")})
    step = (DeviceListing((listed("a", GPUS[0]),), 1000.0), pods, {"ml": {}}, LOADED)

    reasons = asyncio.run(passes(gpu_node, [step] * (LEAST_SAMPLES + 2)))

    assert reasons[-1] == [LimitReason.CLOCK_LIMITED, LimitReason.FREE]
    assert untouched(gpu_node) == AS_FOUND
    gpu_node.request(SetGpuClocks(clocks_mhz={GPUS[0]: 1200}, lease_s=60))
    assert gpu_node.state.sets == 1


slowdowns = st.sampled_from([None, *AllowedSlowdown, "5%"])
pods_of_a_node = st.lists(
    st.builds(pod, st.sampled_from("abc"), st.sampled_from([None, *WorkloadClass]), slowdowns),
    max_size=3,
    unique_by=lambda each: each.name,
)
answers = st.one_of(
    st.just(NoListing(HolderReason.KUBELET_LATE)),
    st.lists(st.builds(listed, st.sampled_from("abcd"), st.sampled_from([*GPUS, "GPU-elsewhere"])), max_size=3).map(
        lambda pods: DeviceListing(tuple(pods), 1000.0)
    ),
)
loads = st.fixed_dictionaries(
    {"clock_mhz": st.sampled_from([210, 1500, 1980]), "activity_pct": st.sampled_from([0, 60, 100])}
)
steps_of_passes = st.lists(
    st.tuples(
        answers,
        st.one_of(st.none(), pods_of_a_node.map(lambda pods: NodePods({each.key: each for each in pods}))),
        st.sampled_from([{}, {"ml": {}}, {"ml": {MAX_SLOWDOWN: "50%"}}]),
        loads,
    ),
    min_size=1,
    max_size=6,
)
#: Before the random passes, so that the held clocks are known.
MEASURED = (DeviceListing((), 1000.0), NodePods({}), {}, LOADED)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps_of_passes)
def test_no_sequence_of_holders_sets_anything(gpu_node, steps):
    asyncio.run(passes(gpu_node, [*[MEASURED] * LEAST_SAMPLES, *steps]))
    assert untouched(gpu_node) == AS_FOUND
