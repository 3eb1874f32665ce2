"""Limits by class that are set, from holders to the drivers: the vendors' real packages over stubs of their libraries.

What the pods of a node truly hold is compared with the clocks that the stubs are held to, after each look of the agent.
"""

import asyncio
import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from joulie_actuator.client import ActuatorClient
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.backends.host import HostBackend
from joulie_agent.class_limits import enforcement as module
from joulie_agent.class_limits.enforcement import RENEW_S, ClassLimitEnforcement, EnforcementSources
from joulie_agent.class_limits.shadow import ShadowLimits, ShadowSources
from joulie_agent.holders.follow import HoldersFollower, HolderSources
from joulie_api.failures import Failures
from joulie_core.class_caps.enforced_limit import SETTLED_S, EnforcedReason
from joulie_core.class_caps.held_clock import LEAST_SAMPLES
from joulie_core.class_caps.held_limit import HolderPods
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.holders.held import NodePods
from joulie_core.holders.records import (
    ClaimedDevice,
    DeviceListing,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodePod,
    NoListing,
    PluginDevice,
    SliceDevice,
)
from joulie_testing.agent.scripted_host import INPUTS, capped_target, node_control

STANDARD, PERFORMANCE = WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE
FREE, HIGHEST_MHZ = 0, 1980
GPUS = ("GPU-0", "GPU-1", "GPU-2")
LOADED = {"clock_mhz": HIGHEST_MHZ, "activity_pct": 100}
ASKED_AT_S = 1000.0
#: Slowdowns by annotation, and the clocks that they come to.
CLOCKS_MHZ = {"10%": 1800, "25%": 1584, "50%": 1320}
SLICES = tuple(
    SliceDevice("gpu.nvidia.com", "n1", 1, f"{kind}-{index}", {attribute: uuid})
    for index, uuid in enumerate(GPUS)
    for kind, attribute in (("gpu", "uuid"), ("mig", "parentUUID"))
)


@dataclass(frozen=True)
class TruePod:
    """A pod of the node, what it truly holds, and what the kubelet and the API server say of it."""

    name: str
    gpus: tuple[int, ...] = ()
    workload_class: WorkloadClass | None = STANDARD
    slowdown: str | None = "10%"
    #: How its devices are named: `whole`, `share`, `claim`, `partition`, `elsewhere` or `unlisted`.
    listed_as: str = "whole"
    running: bool = True
    ended: bool = False
    #: Younger than the kubelet's answer; or not seen by the API server's watch.
    new: bool = False
    seen: bool = True
    #: The kubelet lists it twice.
    twice: bool = False

    @property
    def may_be_slowed(self) -> bool:
        return self.workload_class is STANDARD and self.slowdown in CLOCKS_MHZ and self.running

    @property
    def listed(self):
        devices, claimed = [], []
        for index in self.gpus:
            match self.listed_as:
                case "whole":
                    devices.append(PluginDevice("nvidia.com/gpu", GPUS[index]))
                case "share":
                    devices.append(PluginDevice("nvidia.com/gpu", f"{GPUS[index]}::{len(self.name)}"))
                case "elsewhere":
                    devices.append(PluginDevice("nvidia.com/gpu", "GPU-ffff"))
                case "claim":
                    claimed.append(ClaimedDevice("gpu.nvidia.com", "n1", f"gpu-{index}"))
                case "partition":
                    claimed.append(ClaimedDevice("gpu.nvidia.com", "n1", f"mig-{index}"))
                case "unlisted":
                    pass
        container = ListedContainer("main", tuple(devices), tuple(claimed), ("c",) if claimed else ())
        return (ListedPod("ml", self.name, (container,)),) * (2 if self.twice else 1)

    @property
    def known(self):
        by_claim = self.listed_as in ("claim", "partition")
        return NodePod(
            "ml",
            self.name,
            self.name,
            not self.ended,
            self.workload_class,
            ASKED_AT_S if self.new else 0.0,
            {} if by_claim or not self.gpus else {"NVIDIA": len(self.gpus)},
            ("c",) if by_claim and self.gpus else (),
            max_slowdown=self.slowdown,
            running=self.running and not self.ended,
        )


class NoNetwork:
    """Reaches nothing."""

    async def get(self, _target, _params=None):
        raise AssertionError("a host backend needs no network")


class Agent:
    """The parts of one agent that limit by class, look by look."""

    def __init__(self, node):
        self._client = ActuatorClient(node.environment["ACTUATOR_SOCKET"])
        host = HostBackend(self._client, Inventory.load(), lease_s=60)
        self._control = node_control(BackendFactory(NoNetwork(), lambda _node: host))
        self.listing, self._pods = NoListing(HolderReason.NO_READER), None
        self._follower = HoldersFollower(
            HolderSources(self._list, lambda: self._pods, host.node_gpus), changed=lambda: None
        )
        self._shadow = ShadowLimits(
            ShadowSources(self._follower.current, self._holder_pods, host.gpu_clocks), Inventory.load()
        )
        self.now_s = 1000.0
        self.enforcement = ClassLimitEnforcement(
            EnforcementSources(self._follower.recent, self._shadow.decide, lambda: True, host.set_class_clocks),
            lambda: None,
            Failures(CollectorRegistry()),
            clock=lambda: self.now_s,
        )

    async def _list(self):
        return self.listing

    def _holder_pods(self):
        found = self._follower.pods()
        return found and HolderPods(found.pods, {"ml": {}}.get)

    async def measure(self):
        """Make passes until the held clocks are known."""
        for _ in range(LEAST_SAMPLES + 1):
            await self.make_pass()

    async def make_pass(self, target=None):
        self.now_s += 20.0
        await self._follower.look()
        tick = await self._control.tick(replace(INPUTS, target=target, now=self.now_s))
        self._shadow.step(tick.gpu_reading, tick.gpu, tick.hardware.status, self.now_s)
        return tick

    async def look(self, pods, listing=None, elapsed_s=1.0):
        """Look once, with these pods; the kubelet answers truly, or as given."""
        self.now_s += elapsed_s
        truly = DeviceListing(tuple(each for pod in pods for each in pod.listed), ASKED_AT_S)
        self.listing = truly if listing is None else listing
        self._pods = NodePods({pod.known.key: pod.known for pod in pods if pod.seen}, SLICES)
        await self._follower.look()
        await self.enforcement.step()

    async def settle(self, pods):
        """Look until what can be limited is."""
        await self.look(pods)
        await self.look(pods, elapsed_s=SETTLED_S)

    async def close(self):
        await self._client.close()


def start(make_gpu_node, hardware, folder):
    for uuid in GPUS:
        hardware.state.add(uuid, "NVIDIA H100 80GB HBM3", **LOADED)
    node = make_gpu_node(folder)
    node.start()
    return node


@pytest.fixture
def node(make_gpu_node, hardware, nvml_folder):
    return start(make_gpu_node, hardware, nvml_folder)


@pytest.fixture
async def agent(node):
    made = Agent(node)
    await made.measure()
    yield made
    await made.close()


def locks(node):
    return [node.state.gpus[index].lock_mhz for index in range(len(GPUS))]


def wrongly_limited(node, pods):
    """Return the GPUs that are limited although what truly holds them does not allow it."""
    holders = [[pod for pod in pods if index in pod.gpus and not pod.ended] for index in range(len(GPUS))]
    return [
        index
        for index, lock_mhz in enumerate(locks(node))
        if lock_mhz != FREE
        and not (
            holders[index]
            and all(pod.may_be_slowed for pod in holders[index])
            and lock_mhz >= max(CLOCKS_MHZ[pod.slowdown] for pod in holders[index])
        )
    ]


@pytest.mark.parametrize("vendor", ["nvml", "amdsmi"])
async def test_a_gpu_of_pods_that_consent_is_limited_to_the_clock_that_shadow_computes(
    request, make_gpu_node, hardware, vendor
):
    node = start(make_gpu_node, hardware, request.getfixturevalue(f"{vendor}_folder"))
    agent = Agent(node)
    await agent.measure()
    pods = [TruePod("a", (0,), slowdown="25%"), TruePod("b", (1,), slowdown=None)]
    try:
        await agent.look(pods)
        assert locks(node) == [FREE] * 3
        await agent.look(pods, elapsed_s=SETTLED_S)
        assert locks(node) == [1584, FREE, FREE]
        reasons = {uuid: each.reason for uuid, each in agent.enforcement.gpus.items()}
        assert reasons == {
            "GPU-0": EnforcedReason.SET,
            "GPU-1": EnforcedReason.NO_LIMIT,
            "GPU-2": EnforcedReason.NO_LIMIT,
        }
        await agent.look([])
        assert locks(node) == [FREE] * 3
    finally:
        await agent.close()


A = TruePod("a", (0,))
LIFTS = {
    "a performance pod instead": [TruePod("b", (0,), PERFORMANCE, "50%")],
    "a performance pod besides": [replace(A, listed_as="share"), TruePod("b", (0,), PERFORMANCE, listed_as="share")],
    "a pod without consent besides": [
        replace(A, listed_as="share"),
        TruePod("b", (0,), slowdown=None, listed_as="share"),
    ],
    "a pod that does not run besides": [
        replace(A, listed_as="share"),
        TruePod("b", (0,), running=False, listed_as="claim"),
    ],
    "an unknown class": [replace(A, workload_class=None)],
    "no consent any more": [replace(A, slowdown=None)],
    "0 % now": [replace(A, slowdown="0%")],
    "a value that cannot be read": [replace(A, slowdown="a lot")],
    "a free GPU": [],
    "a pod that has ended": [replace(A, ended=True)],
    "a pod that is younger than the answer": [replace(A, new=True)],
    "a pod that the API server does not have": [replace(A, seen=False)],
    "two pods of one name": [replace(A, twice=True)],
    "a partition of it": [replace(A, listed_as="share"), TruePod("b", (0,), PERFORMANCE, listed_as="partition")],
    "a pod whose device is not listed": [
        replace(A, listed_as="share"),
        TruePod("b", (0,), PERFORMANCE, listed_as="unlisted"),
    ],
    "a standard pod without consent whose device is not listed": [
        replace(A, listed_as="share"),
        TruePod("b", (0,), slowdown=None, listed_as="unlisted"),
    ],
    "a device that is found nowhere": [
        replace(A, listed_as="share"),
        TruePod("b", (0,), PERFORMANCE, listed_as="elsewhere"),
    ],
}


@pytest.mark.parametrize("pods", LIFTS.values(), ids=LIFTS.keys())
async def test_a_limit_is_lifted_by_the_look_that_shows(node, agent, pods):
    await agent.settle([A])
    assert locks(node)[0] == 1800
    await agent.look(pods)
    assert locks(node) == [FREE] * 3
    await agent.settle(pods)
    assert locks(node) == [FREE] * 3


@pytest.mark.parametrize(
    "reason",
    [HolderReason.NO_READER, HolderReason.KUBELET_LATE, HolderReason.ANSWER_OLD, HolderReason.ANSWER_MALFORMED],
)
async def test_a_limit_is_lifted_where_holders_cannot_be_read(node, agent, reason):
    await agent.settle([A])
    await agent.look([A], NoListing(reason))
    assert locks(node) == [FREE] * 3


async def test_three_hundred_hand_overs_leave_no_pod_limited_after_the_look_that_saw_it(node, agent):
    chance = random.Random(54)
    limited = lifted = 0
    for number in range(300):
        pods = [
            TruePod(
                f"{'p' * index}-{number}",
                (index,),
                chance.choice([STANDARD, STANDARD, STANDARD, PERFORMANCE, None]),
                chance.choice([*CLOCKS_MHZ, None, "0%"]),
                chance.choice(["whole", "share", "claim", "partition"]),
                running=chance.random() < 0.9,
            )
            for index in range(len(GPUS))
            if chance.random() < 0.8
        ]
        before = locks(node)
        await agent.look(pods)
        assert wrongly_limited(node, pods) == []
        lifted += sum(old != FREE and new == FREE for old, new in zip(before, locks(node), strict=True))
        await agent.look(pods, elapsed_s=SETTLED_S)
        assert wrongly_limited(node, pods) == []
        limited += sum(each != FREE for each in locks(node))
    assert min(limited, lifted) > 100, "the hand-overs are of limited GPUs"
    assert agent.enforcement.without_consent == 0
    assert agent.enforcement.counts.lifts >= lifted


true_pods = st.lists(
    st.builds(
        TruePod,
        st.sampled_from("abcd"),
        st.sampled_from([(), (0,), (1,), (0, 1)]),
        st.sampled_from([STANDARD, STANDARD, PERFORMANCE, None]),
        st.sampled_from(["10%", "50%", None, "0%", "5%"]),
        st.sampled_from(["whole", "share", "claim", "partition", "elsewhere", "unlisted"]),
        running=st.booleans(),
        ended=st.booleans(),
        new=st.booleans(),
        seen=st.booleans(),
        twice=st.booleans(),
    ),
    max_size=4,
    unique_by=lambda each: each.name,
)
events = st.lists(
    st.tuples(
        true_pods,
        st.sampled_from([None, None, None, NoListing(HolderReason.KUBELET_LATE), DeviceListing((), ASKED_AT_S)]),
        st.sampled_from([1.0, SETTLED_S]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=events)
def test_no_id_and_no_event_leaves_a_pod_limited_that_does_not_allow_it(node, steps):
    async def play():
        agent = Agent(node)
        await agent.measure()
        try:
            for pods, listing, elapsed_s in steps:
                await agent.settle([A, TruePod("b", (1,), slowdown="50%")])
                assert locks(node) == [1800, 1320, FREE]
                await agent.look(pods, listing, elapsed_s)
                assert wrongly_limited(node, pods) == []
                await agent.look(pods, listing, SETTLED_S)
                assert wrongly_limited(node, pods) == []
        finally:
            await agent.look([])
            await agent.close()

    asyncio.run(play())


async def test_the_next_agent_lifts_first_what_a_killed_one_has_set(node, agent):
    await agent.settle([A])
    await agent.close()
    following = Agent(node)
    await following.look([A])
    assert locks(node) == [FREE] * 3
    await following.measure()
    await following.settle([A])
    assert locks(node) == [1800, FREE, FREE]
    await following.close()


async def test_a_killed_agent_leaves_no_limit_after_its_lease(node, agent, monkeypatch):
    monkeypatch.setattr(module, "LEASE_S", 0.5)
    await agent.settle([A])
    await agent.close()
    assert locks(node) == [1800, FREE, FREE]
    node.wait_until(lambda: locks(node) == [FREE] * 3)


async def test_the_loop_of_a_cap_takes_no_limit_of_a_class_for_its_own_and_the_lower_is_in_force(node, agent):
    await agent.settle([A])
    # A GPU that draws more than its cap, whatever its power limit says.
    node.state.gpus[0].power_mw = 600_000
    for _ in range(2):
        await agent.make_pass(capped_target())
        await agent.settle([A])
    assert locks(node)[0] == 1386, "1980 MHz less 30 %, and not 1800 MHz less 30 %"
    await agent.look([TruePod("b", (0,), PERFORMANCE)])
    assert locks(node)[0] == 1386, "the cap holds the node, whatever the class"
    await agent.settle([A])
    await agent.make_pass()
    assert locks(node)[0] == 1800, "a profile that is gone restores its own limits only"


async def test_a_killed_actuator_leaves_no_limit_and_the_next_has_it_again(node, agent):
    await agent.settle([A])
    node.processes[-1].kill()
    node.processes[-1].wait()
    await agent.look([TruePod("b", (0,), PERFORMANCE)])
    found = agent.enforcement.gpus["GPU-0"]
    assert found.reason is EnforcedReason.NOT_LIFTED
    assert "pod ml/b" in found.message
    node.start()
    node.wait_until(lambda: locks(node) == [FREE] * 3)
    await agent.look([TruePod("b", (0,), PERFORMANCE)])
    assert agent.enforcement.gpus["GPU-0"].reason is EnforcedReason.NO_LIMIT
    await agent.settle([A])
    assert locks(node) == [1800, FREE, FREE]


async def test_a_driver_that_refuses_to_lift_is_asked_again_and_named(node, agent):
    await agent.settle([A])
    node.state.may_set = 0
    for _ in range(3):
        await agent.look([TruePod("b", (0,), PERFORMANCE)])
    assert agent.enforcement.counts.failed_lifts == 3
    assert agent.enforcement.without_consent == 1
    assert "GPU GPU-0 is still limited to 1800 MHz, held by pod ml/b" in agent.enforcement.gpus["GPU-0"].message
    node.state.may_set = 1
    await agent.look([TruePod("b", (0,), PERFORMANCE)])
    assert (locks(node), agent.enforcement.without_consent) == ([FREE] * 3, 0)


async def test_a_renewal_sets_again_what_a_reload_of_the_driver_has_ended(node, agent):
    await agent.settle([A])
    node.state.reload_driver()
    assert locks(node) == [FREE] * 3
    await agent.look([A], elapsed_s=RENEW_S)
    assert locks(node) == [1800, FREE, FREE]


async def test_only_what_changes_is_written_and_nothing_without_limits(node, agent):
    await agent.look([])
    before = node.state.sets
    for _ in range(5):
        await agent.look([TruePod("b", (0,), PERFORMANCE)])
    assert node.state.sets == before
    await agent.settle([A])
    assert node.state.sets == before + 1


async def test_the_held_clock_is_not_measured_under_a_limit_by_class(node, agent):
    await agent.settle([A])
    node.state.gpus[0].clock_mhz = 1800
    for _ in range(2 * LEAST_SAMPLES):
        await agent.make_pass()
    await agent.settle([A])
    assert locks(node)[0] == 1800, "1800 MHz / 1.1 would be 1637 MHz"
