"""Questions of the start hook, and what is lifted, answered and warned about."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from joulie_actuator.server import Admission
from joulie_agent.class_limits import starts as module
from joulie_agent.class_limits.before_start import LiftOutcome
from joulie_agent.class_limits.bound_pods import FIRST_LOOK_S, LOOKED_FOR_S, BoundPods
from joulie_agent.class_limits.metrics import start_families
from joulie_agent.class_limits.start_looks import LookSources, StartLooks
from joulie_agent.class_limits.starts import ContainerStarts
from joulie_api.container_starts import MOST_WAITING, HookState
from joulie_api.failures import Failures
from joulie_api.pod_events import PodEvent
from joulie_containers.start_hook.controller import AskOutcome, ControllerLink, listening
from joulie_core.class_caps.enforced_limit import NOT_LIFTED_EVENT
from joulie_core.demand import WorkloadClass
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import NodePods
from joulie_core.holders.records import (
    DeviceListing,
    DeviceUsers,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodeGpu,
    NodePod,
    NoListing,
    PluginDevice,
)

DEADLINE_S = 1.0
GPUS = (NodeGpu("GPU-a", "NVIDIA", 0), NodeGpu("GPU-b", "NVIDIA", 1))


def pod(name, units=1):
    requests = {"NVIDIA": units} if units else {}
    return NodePod("ml", name, f"uid-{name}", True, WorkloadClass.PERFORMANCE, 0.0, units=requests)


def listed(name, *uuids):
    devices = tuple(PluginDevice("nvidia.com/gpu", each) for each in uuids)
    return ListedPod("ml", name, (ListedContainer("main", devices),))


def wait_until(condition):
    """Wait for what a task of the loop will make true."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class FakeLoop:
    """Clock and timers of an event loop, in seconds after some time."""

    BEGUN_AT = 1000.0

    def __init__(self):
        self.now, self.timers = self.BEGUN_AT, []

    def time(self):
        return self.now

    def call_at(self, when, callback, *args):
        timer = asyncio.TimerHandle(when, callback, args, asyncio.get_running_loop())
        self.timers.append(timer)
        return timer

    def advance(self, until):
        """Let the time pass, and return when timers went off."""
        went_off, until = [], self.BEGUN_AT + until
        while due := [each for each in self.timers if not each.cancelled() and each.when() <= until]:
            first = min(due)
            self.timers.remove(first)
            self.now = first.when()
            went_off.append(round(self.now - self.BEGUN_AT, 3))
            first._run()
        self.now = until
        return went_off


class Node:
    """The real start hook's socket, and scripted answers of kubelet, API server and actuator."""

    def __init__(self, directory):
        self.path = directory / "start-hook.sock"
        self.link = ControllerLink(DEADLINE_S)
        self.listing = DeviceListing((listed("serve", "GPU-a"), listed("other", "GPU-b")), time.time())
        self.pods = NodePods({each.key: each for each in (pod("serve"), pod("other"), pod("web", 0))})
        self.users = None
        self.outcome = LiftOutcome()
        self.looks, self.warnings, self.states = [], [], []
        #: Until it is set, the actuator does not answer.
        self.lifted = asyncio.Event()
        self.lifted.set()
        self.lifting = asyncio.Event()
        self.defect = None
        self.asked = 0
        sources = LookSources(self._list, lambda: self.pods, lambda: GPUS, lambda: self.users)
        self.registry = CollectorRegistry()
        self.looks_at = StartLooks(sources, Failures(self.registry))
        self.loop = FakeLoop()
        self.bound = BoundPods(self.looks_at, self.loop)
        self.starts = ContainerStarts(str(self.path), self.looks_at, self.bound, self.warnings.append, self._changed)
        self.changed = asyncio.Event()

    async def _list(self):
        self.asked += 1
        return self.listing

    async def _lift(self, look):
        self.looks.append(look)
        self.lifting.set()
        if self.defect is not None:
            raise self.defect
        await self.lifted.wait()
        return self.outcome

    def _changed(self):
        self.states.append(self.starts.waits_s)
        self.changed.set()

    @asynccontextmanager
    async def hook(self):
        """Run the start hook, which the runtime asks."""
        self.link.tell(HookState(registered=True, deadline_s=DEADLINE_S))
        async with listening(self.link, self.path, Admission(os.geteuid(), os.getegid())):
            yield

    @asynccontextmanager
    async def running(self):
        tasks = [asyncio.create_task(self.starts.run()), asyncio.create_task(self.looks_at.run(self._lift))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def followed(self):
        async with self.hook(), self.running():
            async with asyncio.timeout(10):
                await self.changed.wait()
            yield

    def see(self, name, **changed):
        """Let the API server show that a pod was bound to the node."""
        new = replace(pod(name), started_at_s=None, cgroup_uid=f"uid-{name}", **changed)
        self.pods = NodePods({**self.pods.pods, new.key: new})
        self.bound.pod_changed(new.key, None, new)

    async def look_at(self, at_s):
        """Let the time pass, and wait for the looks that this begins."""
        asked = self.asked
        if self.loop.advance(at_s):
            await asyncio.to_thread(wait_until, lambda: self.asked > asked)
            for _ in range(5):
                await asyncio.sleep(0)

    def defects(self):
        work = {"work": "limits lifted before a start"}
        return self.registry.get_sample_value("joulie_internal_errors_total", work) or 0

    def ask(self, name, uid=None):
        return asyncio.create_task(self.link.ask("ml", name, uid or f"uid-{name}"))


@pytest.fixture
async def node(tmp_path):
    node = Node(tmp_path)
    yield node
    assert node.defects() == (node.defect is not None)


async def test_a_question_is_answered_after_the_limits_of_the_pods_gpus_are_lifted(node):
    async with node.followed():
        node.lifted.clear()
        asked = node.ask("serve")
        await node.lifting.wait()
        assert not asked.done()
        node.lifted.set()
        assert await asked is AskOutcome.ANSWERED
    (look,) = node.looks
    assert look.gpus == {"GPU-a"}
    assert [(each.uuid, each.held_as) for each in look.held] == [
        ("GPU-a", HeldAs.PERFORMANCE),
        ("GPU-b", HeldAs.PERFORMANCE),
    ]
    assert (node.warnings, node.starts.limited_starts) == ([], 0)


async def test_a_gpu_that_a_process_outside_of_pods_uses_is_no_standard_pods_before_a_start(node):
    standard = [replace(each, workload_class=WorkloadClass.STANDARD) for each in node.pods.pods.values()]
    node.pods = NodePods({each.key: each for each in standard})
    node.users = {"GPU-a": DeviceUsers(), "GPU-b": DeviceUsers(outside_pid=7)}
    async with node.followed():
        assert await node.ask("serve") is AskOutcome.ANSWERED
    assert [each.held_as for each in node.looks[0].held] == [HeldAs.STANDARD, HeldAs.OUTSIDE]


async def test_a_pod_without_gpus_starts_at_once_and_the_kubelet_is_not_asked(node):
    async with node.followed():
        node.lifted.clear()
        slow = node.ask("serve")
        await node.lifting.wait()
        assert await node.ask("web") is AskOutcome.ANSWERED
        assert node.asked == 1
        node.lifted.set()
        await slow


@pytest.mark.parametrize("uid", ["another", "uid-web"])
async def test_a_pod_that_the_api_server_does_not_have_may_have_any_gpu(node, uid):
    node.pods = NodePods({pod("serve").key: pod("serve")})
    async with node.followed():
        await node.ask("serve", uid)
    assert node.looks[0].gpus is None


async def test_without_an_answer_of_the_kubelet_any_gpu_may_be_the_pods(node):
    node.listing = NoListing(HolderReason.KUBELET_LATE)
    async with node.followed():
        await node.ask("serve")
    assert node.looks[0].gpus is None
    assert {each.held_as for each in node.looks[0].held} == {HeldAs.UNKNOWN}


async def test_questions_during_a_look_share_the_next_one(node):
    async with node.followed():
        node.lifted.clear()
        first = node.ask("serve")
        await node.lifting.wait()
        more = [node.ask("other"), node.ask("serve")]
        await asyncio.to_thread(wait_until, lambda: node.looks_at.waiting == 2)
        node.lifted.set()
        assert set(await asyncio.gather(first, *more)) == {AskOutcome.ANSWERED}
    assert [each.gpus for each in node.looks] == [{"GPU-a"}, {"GPU-a", "GPU-b"}]
    assert node.asked == 2


async def test_a_limit_that_is_left_is_an_event_of_the_pod_alone_that_has_the_gpu(node):
    stuck = "GPU GPU-a is still limited to 1800 MHz, held by pod ml/serve: insufficient permissions"
    node.outcome = LiftOutcome(left={"GPU-a": stuck})
    async with node.followed():
        assert await node.ask("serve") is AskOutcome.ANSWERED
        assert await node.ask("other") is AskOutcome.ANSWERED
    message = f"A container was started while its GPU, GPU-a, was limited by class: {stuck}"
    assert node.warnings == [PodEvent("ml", "serve", "uid-serve", NOT_LIFTED_EVENT, message)]
    series = [sample.value for family in start_families("n1", node.starts) for sample in family.samples]
    assert series[-1] == 1


@pytest.mark.parametrize(
    ("listing", "which", "more"),
    [
        (None, "its GPU, GPU-a,", ""),
        (NoListing(HolderReason.KUBELET_LATE), "a GPU that may be its, GPU-a,", "; 1 more"),
    ],
)
async def test_of_limits_that_are_lifted_late_the_event_names_those_that_may_be_its_pods(node, listing, which, more):
    node.listing, node.outcome = listing or node.listing, LiftOutcome(lifted=frozenset({"GPU-a", "GPU-b"}))
    async with node.followed():
        node.lifted.clear()
        assert await node.ask("serve") is AskOutcome.LATE
        node.lifted.set()
        await asyncio.to_thread(wait_until, lambda: node.warnings)
    message = f"A container was started while {which} was limited by class: its limit was lifted after"
    assert [each.message for each in node.warnings] == [f"{message} the container was started{more}"]


async def test_what_was_lifted_in_time_is_no_event(node):
    node.outcome = LiftOutcome(lifted=frozenset({"GPU-a"}))
    async with node.followed():
        await node.ask("serve")
    assert node.warnings == []


@pytest.mark.parametrize(("left", "lifted"), [({}, True), ({"GPU-a": "stuck"}, False), ({"GPU-b": "stuck"}, True)])
async def test_a_pod_whose_sandbox_was_made_learns_whether_its_limits_are_lifted_and_has_no_event(left, lifted, node):
    node.outcome = LiftOutcome(left=left)
    async with node.followed():
        assert await node.link.lift_early("ml", "serve", "uid-serve") is lifted
    assert [each.gpus for each in node.looks] == [{"GPU-a"}]
    assert (node.warnings, node.starts.limited_starts) == ([], 0)


@pytest.mark.parametrize(("left", "lifted"), [({}, True), ({"GPU-b": "stuck"}, False)])
async def test_a_pod_that_may_have_any_gpu_has_its_limits_lifted_with_all_of_them(left, lifted, node):
    node.listing, node.outcome = NoListing(HolderReason.KUBELET_LATE), LiftOutcome(left=left)
    async with node.followed():
        assert await node.link.lift_early("ml", "serve", "uid-serve") is lifted


async def test_a_pod_without_gpus_has_no_limit_to_be_lifted(node):
    async with node.followed():
        assert await node.link.lift_early("ml", "web", "uid-web")
    assert node.asked == 0


async def test_an_early_lift_that_comes_late_is_none_and_no_event(node):
    node.outcome = LiftOutcome(lifted=frozenset({"GPU-a"}))
    async with node.followed():
        node.lifted.clear()
        assert not await node.link.lift_early("ml", "serve", "uid-serve")
        node.lifted.set()
        assert await node.ask("other") is AskOutcome.ANSWERED
    assert node.warnings == []


async def test_a_defect_ends_nothing_and_the_next_question_is_answered(node):
    node.defect = ArithmeticError("a defect")
    async with node.followed():
        assert await node.ask("serve") is AskOutcome.LATE
        assert node.defects() == 1
        repaired, node.defect = node.defect, None
        assert await node.ask("serve") is AskOutcome.ANSWERED
    node.defect = repaired


async def test_how_long_containers_wait_is_known_while_the_runtime_asks_alone(node, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_S", 0.01)

    async def until(waits_s):
        await asyncio.to_thread(wait_until, lambda: node.starts.waits_s == waits_s)

    async with node.running():
        assert node.starts.waits_s is None
        async with node.hook():
            await until(DEADLINE_S)
            node.link.tell(HookState(registered=False, deadline_s=DEADLINE_S))
            await until(None)
            node.link.tell(HookState(registered=True, deadline_s=DEADLINE_S))
            await until(DEADLINE_S)
            node.link._writer.close()
            await until(None)
            await until(DEADLINE_S)
    assert node.states[0] == DEADLINE_S


@pytest.mark.parametrize("line", [b"{}\n", b"\xff\n", b'{"type":"start","number":1}\n', b"x" * 100_000 + b"\n"])
async def test_a_start_hook_that_sends_no_message_is_connected_again(node, line, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_S", 0.01)
    connected = asyncio.Queue()

    async def serve(reader, writer):
        connected.put_nowait(None)
        writer.write(line)
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(serve, node.path), node.running(), asyncio.timeout(10):
        await connected.get()
        await connected.get()
    assert node.starts.waits_s is None


async def test_a_pod_that_was_bound_has_its_limits_lifted_as_soon_as_the_kubelet_lists_its_gpus(node):
    full, node.listing = node.listing, DeviceListing((listed("other", "GPU-b"),), time.time())
    async with node.followed():
        node.see("serve")
        await node.look_at(FIRST_LOOK_S)
        # Without its GPUs nothing is lifted for it, and no limit of the others changes.
        assert (node.asked, node.looks) == (1, [])
        node.listing = full
        await node.look_at(3 * FIRST_LOOK_S)
        (look,) = node.looks
        assert look.gpus == {"GPU-a"}
        # No further look, and both questions about it are answered at once.
        node.lifted.clear()
        node.loop.advance(2.0)
        assert await node.link.lift_early("ml", "serve", "uid-serve")
        assert await node.ask("serve") is AskOutcome.ANSWERED
        assert node.asked == 2
        node.lifted.set()
        # An answer counts for 5 s.
        node.loop.advance(3 * FIRST_LOOK_S + 5.0)
        assert await node.ask("serve") is AskOutcome.ANSWERED
        assert node.asked == 3
    assert node.warnings == []


@pytest.mark.parametrize("uid", ["uid-serve", "uid-of-an-earlier-one"])
async def test_what_was_lifted_ahead_counts_for_that_very_pod(node, uid):
    async with node.followed():
        node.see("serve")
        await node.look_at(FIRST_LOOK_S)
        await node.ask("serve", uid)
    assert node.asked == (1 if uid == "uid-serve" else 2)


async def test_a_limit_that_could_not_be_lifted_ahead_is_asked_about_again(node):
    node.outcome = LiftOutcome(left={"GPU-a": "stuck"})
    async with node.followed():
        node.see("serve")
        await node.look_at(FIRST_LOOK_S)
        node.loop.advance(2.0)
        assert (node.asked, node.warnings) == (1, [])
        assert await node.ask("serve") is AskOutcome.ANSWERED
    assert (node.asked, len(node.warnings)) == (2, 1)


async def test_a_pod_that_the_kubelet_does_not_list_is_looked_at_for_two_seconds_less_and_less_often(node):
    node.listing = NoListing(HolderReason.KUBELET_LATE)
    async with node.followed():
        node.see("serve")
        assert node.loop.advance(60.0) == [0.03, 0.09, 0.21, 0.45, 0.93, 1.89, 3.81]
        await asyncio.to_thread(wait_until, lambda: node.asked)
        assert node.loop.advance(60 + LOOKED_FOR_S) == []
    assert node.looks == []


async def test_a_pod_that_is_seen_later_is_looked_at_as_soon_and_no_look_is_put_off(node):
    node.see("serve")
    node.loop.advance(0.5)
    node.see("other")
    assert node.loop.advance(0.62) == [0.53, 0.59]
    # The look at 0.71 is due sooner than the first one of this pod.
    node.loop.advance(0.7)
    node.see("serve-2")
    assert node.loop.advance(0.75) == [0.71]


@pytest.mark.parametrize("changed", [{"active": False}, {"units": {}}], ids=["ended", "without GPUs"])
async def test_a_pod_that_gets_no_gpu_is_not_looked_at(node, changed):
    node.see("serve", **changed)
    assert node.loop.advance(10.0) == []


async def test_a_pod_that_the_kubelet_accepted_before_is_not_looked_at(node):
    node.bound.pod_changed("ml/serve", None, pod("serve"))
    assert node.loop.advance(10.0) == []


async def test_a_pod_is_looked_at_when_it_is_new_and_not_at_each_change_or_its_end(node):
    bound = replace(pod("serve"), started_at_s=None)
    node.bound.pod_changed(bound.key, bound, bound)
    node.bound.pod_changed(bound.key, bound, None)
    assert node.loop.advance(10.0) == []
    node.bound.pod_changed(bound.key, bound, replace(bound, uid="another"))
    assert node.loop.advance(10.03) == [10.03]


@pytest.mark.parametrize("may", [{"claims": ("gpu",)}, {"unreadable": True}])
async def test_a_pod_that_may_have_gpus_is_looked_at(node, may):
    node.see("serve", units={}, **may)
    assert node.loop.advance(0.03) == [0.03]


async def test_of_many_pods_that_are_bound_at_once_some_are_looked_at(node):
    for number in range(2 * MOST_WAITING):
        node.see(f"pod-{number}")
    node.loop.advance(FIRST_LOOK_S)
    assert len(node.looks_at._ahead) == MOST_WAITING


async def test_looks_ahead_are_not_in_the_way_of_questions(node):
    async with node.followed():
        node.lifted.clear()
        first = node.ask("other")
        await node.lifting.wait()
        for number in range(2 * MOST_WAITING):
            node.see(f"pod-{number}")
        node.loop.advance(FIRST_LOOK_S)
        asked = node.ask("serve")
        await asyncio.to_thread(wait_until, lambda: node.looks_at.waiting == 1)
        node.lifted.set()
        assert (await first, await asked) == (AskOutcome.ANSWERED, AskOutcome.ANSWERED)
    assert node.looks[-1].gpus == {"GPU-a"}
