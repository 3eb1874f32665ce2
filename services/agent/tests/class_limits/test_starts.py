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
from joulie_agent.class_limits.metrics import start_families
from joulie_agent.class_limits.starts import NOT_LIFTED, ContainerStarts, StartSources
from joulie_api.container_starts import HookState
from joulie_api.failures import Failures
from joulie_api.pod_events import PodEvent
from joulie_containers.start_hook.controller import AskOutcome, ControllerLink, listening
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
        sources = StartSources(self._list, lambda: self.pods, lambda: GPUS, lambda: self.users, self.warnings.append)
        self.registry = CollectorRegistry()
        self.starts = ContainerStarts(str(self.path), sources, self._changed, Failures(self.registry))
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
        task = asyncio.create_task(self.starts.run(self._lift))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def followed(self):
        async with self.hook(), self.running():
            async with asyncio.timeout(10):
                await self.changed.wait()
            yield

    def ask(self, name, uid=None):
        return asyncio.create_task(self.link.ask("ml", name, uid or f"uid-{name}"))


@pytest.fixture
async def node(tmp_path):
    return Node(tmp_path)


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
        await asyncio.to_thread(wait_until, lambda: len(node.starts._waiting) == 2)
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
    assert node.warnings == [PodEvent("ml", "serve", "uid-serve", NOT_LIFTED, message)]
    series = [sample.value for family in start_families("n1", node.starts) for sample in family.samples]
    assert series[-1] == 1


async def test_a_limit_that_is_lifted_after_the_deadline_is_an_event_too(node):
    node.outcome = LiftOutcome(lifted=frozenset({"GPU-a"}))
    async with node.followed():
        node.lifted.clear()
        assert await node.ask("serve") is AskOutcome.LATE
        node.lifted.set()
        await asyncio.to_thread(wait_until, lambda: node.warnings)
    assert "its limit was lifted after the container was started" in node.warnings[0].message


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
        node.defect = None
        assert await node.ask("serve") is AskOutcome.ANSWERED


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
