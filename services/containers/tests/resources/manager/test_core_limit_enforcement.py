"""Limits of cores by class are set late, and lifted before the runtime gets an answer that gives the cores away."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from services.containers.tests.resources.manager.manager_bench import GROUP, LONGEST_WAIT_S, balloons, set_config

from joulie_actuator.cpu_class_protocol import FailedCores
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CoreLimitsReport
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resources import core_limit_enforcement
from joulie_containers.resources.core_limit_enforcement import LEASE_S, RENEW_S, SETTLED_S
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.pod_consent import TOLD_FOR_S
from joulie_core.containers.idset import Cpus
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS

CONSENT = {WORKLOAD_CLASS: "standard", MAX_SLOWDOWN: "25%"}
PERFORMANCE = {WORKLOAD_CLASS: "performance"}
#: 3.5 GHz over 1.25.
LIMIT_KHZ = 2_800_000
OWN = {**GROUP, "preferNewBalloons": True}


class Actuator:
    """Records what is asked; answers when it may."""

    def __init__(self):
        self.asked = []
        self.failed = ()
        self.failure = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def execute(self, request):
        self.asked.append((request.lease_s, {each.cpus: each.max_khz for each in request.limits}))
        await self.may_answer.wait()
        return self.failure or CoreLimitsReport(failed=self.failed)

    @property
    def limits(self):
        return self.asked[-1][1]


class Bench:
    def __init__(self, managers, manager, actuator, now):
        self.managers, self.manager, self.actuator, self.now = managers, manager, actuator, now
        self.enforcement = manager.core_enforcement

    @property
    def node(self):
        return self.managers.node

    async def add(self, name, annotations):
        await self.node.runtime.run_pod(self.node.pod(name, annotations=annotations))
        await self.node.add(self.node.container(name, pod=name, milli=2000))
        return str(Cpus.parse(self.managers.cpus()[name]))

    async def tell(self, **allowed):
        """Tell of each pod what it allows by its Namespace, or by the class "performance"."""
        pods = [
            pb.PodConsent(
                namespace="default",
                pod=name,
                pod_uid=self.node.pod(name).uid,
                allowed=each,
                source="class" if each == "0%" else "namespace",
                consents=each != "0%",
            )
            for name, each in allowed.items()
        ]
        await self.manager.set_pod_consents(pb.SetPodConsentsRequest(node_name="n1", pods=pods))

    async def step(self, after_s=1.0):
        self.now.s += after_s
        await self.enforcement.step()

    async def settled(self):
        """Look twice, as long apart as a decision has to be the same."""
        await self.step()
        await self.step(SETTLED_S)


class Now:
    def __init__(self):
        self.s = time.monotonic()


@pytest.fixture
def start(managers):
    """Start a manager whose steps are made by the test."""
    now = Now()

    @asynccontextmanager
    async def start(recorder=None):
        actuator = Actuator()
        async with managers.started(core_actuator=actuator, recorder=recorder) as manager:
            await set_config(manager, balloons(balloonTypes=[OWN]))
            manager.core_enforcement._clock = manager.pod_consents._clock = lambda: now.s
            yield Bench(managers, manager, actuator, now)

    return start


async def test_a_limit_is_set_after_the_decision_has_been_the_same_for_a_while_and_renewed(start):
    async with start() as bench:
        cpus = await bench.add("slow", CONSENT)
        await bench.step()
        assert bench.actuator.limits == {}
        await bench.step(SETTLED_S - 0.1)
        assert bench.actuator.limits == {}
        await bench.step(0.1)
        assert bench.actuator.asked[-1] == (LEASE_S, dict.fromkeys(map(str, Cpus.parse(cpus)), LIMIT_KHZ))
        asked = len(bench.actuator.asked)
        await bench.step(RENEW_S - 0.1)
        assert len(bench.actuator.asked) == asked
        await bench.step(0.1)
        assert len(bench.actuator.asked) == asked + 1
        assert bench.enforcement.limited == dict.fromkeys(map(Cpus.parse, bench.actuator.limits), LIMIT_KHZ)


async def test_what_a_predecessor_may_have_set_is_lifted_before_the_first_answer(start):
    async with start() as bench:
        # That of the listing of the containers that run.
        assert bench.actuator.asked == [(LEASE_S, {})]
        await bench.add("fast", PERFORMANCE)
        assert len(bench.actuator.asked) == 1


async def test_a_performance_container_is_created_only_after_the_limit_of_its_cores_is_lifted(start):
    async with start() as bench:
        before = await bench.add("slow", CONSENT)
        await bench.settled()
        assert bench.actuator.limits
        # Its end is answered at once, and the cores are limited until the actuator has answered.
        bench.actuator.may_answer.clear()
        asked = len(bench.actuator.asked)
        ending = asyncio.create_task(bench.node.runtime.stop_container("slow"))
        await bench.managers.until(lambda: len(bench.actuator.asked) > asked)
        assert not ending.done()
        assert bench.actuator.limits == {}
        bench.actuator.may_answer.set()
        await ending
        assert bench.enforcement.limited == {}
        assert await bench.add("fast", PERFORMANCE) == before
        assert bench.enforcement.counts.lifts == 2
        assert bench.enforcement.counts.late == 0


async def test_a_driver_that_hangs_delays_an_answer_until_the_deadline_and_lifting_is_tried_again(start, monkeypatch):
    async with start() as bench:
        await bench.add("slow", CONSENT)
        await bench.settled()
        limited = bench.actuator.limits
        bench.actuator.may_answer.clear()
        with monkeypatch.context() as short:
            short.setattr(core_limit_enforcement, "LIFT_S", 0.05)
            async with asyncio.timeout(LONGEST_WAIT_S):
                await bench.node.runtime.stop_container("slow")
        assert bench.enforcement.counts.late > 0
        assert {str(group) for group in bench.enforcement.limited} == limited.keys()
        assert str(bench.enforcement.without_consent) == str(Cpus.parse(",".join(limited)))
        bench.actuator.may_answer.set()
        await bench.step()
        assert bench.enforcement.limited == {}
        assert not bench.enforcement.without_consent


class Recorder:
    """Takes the place of the node agent."""

    def __init__(self):
        self.events = []

    async def record_events(self, events):
        self.events += events


async def test_the_pod_that_joins_limited_cores_while_the_driver_hangs_has_an_event(start, monkeypatch):
    recorder = Recorder()
    async with start(recorder) as bench:
        # One balloon has room for both.
        await set_config(bench.manager, balloons(balloonTypes=[GROUP]))
        await bench.add("slow", CONSENT)
        await bench.settled()
        assert bench.enforcement.limited
        bench.actuator.may_answer.clear()
        monkeypatch.setattr(core_limit_enforcement, "LIFT_S", 0.05)
        await bench.add("fast", PERFORMANCE)
        await bench.managers.until(lambda: recorder.events)
        bench.actuator.may_answer.set()
    assert {(each.namespace, each.pod, each.reason) for each in recorder.events} == {
        ("default", "fast", "ClassLimitNotLifted")
    }


async def test_a_limit_that_is_not_lifted_stays_known_and_is_tried_again_at_each_step(start):
    async with start() as bench:
        await bench.add("slow", CONSENT)
        await bench.settled()
        first = min(bench.actuator.limits)
        bench.actuator.failed = (FailedCores(cpus=first, failure=HardwareFailure(Reason.IO_ERROR, "no")),)
        await bench.node.runtime.stop_container("slow")
        assert {str(group) for group in bench.enforcement.limited} == {first}
        asked = len(bench.actuator.asked)
        await bench.step()
        await bench.step()
        assert [each for _, each in bench.actuator.asked[asked:]] == [{}, {}]
        bench.actuator.failed = ()
        await bench.step()
        assert bench.enforcement.limited == {}


async def test_without_an_answer_of_the_actuator_a_limit_may_be_in_force(start):
    async with start() as bench:
        await bench.add("slow", CONSENT)
        await bench.step()
        bench.actuator.failure = HardwareFailure(Reason.UNREACHABLE, "gone")
        await bench.step(SETTLED_S)
        assert len(bench.enforcement.limited) == 2
        bench.actuator.failure = None
        await bench.node.runtime.stop_container("slow")
        assert bench.actuator.limits == {}
        assert bench.enforcement.limited == {}


@pytest.mark.parametrize("annotations", [PERFORMANCE, {}, {**CONSENT, MAX_SLOWDOWN: "0%"}])
async def test_no_other_container_is_limited(start, annotations):
    async with start() as bench:
        await bench.add("other", annotations)
        await bench.settled()
        await bench.settled()
        assert bench.actuator.limits == {}


async def test_a_limit_is_lifted_where_less_is_allowed_than_when_it_was_set(start, monkeypatch):
    async with start() as bench:
        await bench.add("slow", CONSENT)
        await bench.settled()
        groups = [*bench.enforcement.limited]
        allowed = {groups[0]: AllowedSlowdown.TENTH, groups[1]: AllowedSlowdown.HALF}
        monkeypatch.setattr(bench.manager.core_limits, "allowed", lambda: allowed)
        await bench.enforcement.settle()
        assert [*bench.enforcement.limited] == [groups[1]]


async def test_limits_stay_while_another_container_comes(start):
    async with start() as bench:
        await bench.add("slow", CONSENT)
        await bench.settled()
        asked = len(bench.actuator.asked)
        await bench.add("fast", PERFORMANCE)
        assert len(bench.actuator.asked) == asked
        assert len(bench.enforcement.limited) == 2


async def test_all_limits_are_lifted_while_a_container_may_run_anywhere_or_the_runtime_does_not_ask(start):
    async with start() as bench:
        await bench.add("slow", CONSENT)
        await bench.settled()
        bench.manager.pipeline._late.add("late")
        bench.manager.pipeline._waiting.add("late")
        await bench.enforcement.settle()
        assert bench.enforcement.limited == {}
        bench.manager.pipeline._waiting.clear()
        await bench.settled()
        assert len(bench.enforcement.limited) == 2
        await bench.node.runtime.disconnect()
        await bench.managers.until(lambda: not bench.manager.connection.state.registered)
        await bench.step()
        assert bench.enforcement.limited == {}


async def test_a_pod_without_annotations_is_limited_only_once_its_namespaces_consent_is_told(start):
    async with start() as bench:
        cpus = await bench.add("slow", {})
        await bench.settled()
        assert bench.actuator.limits == {}
        await bench.tell(slow="50%")
        await bench.settled()
        # 3.5 GHz over 1.5.
        assert bench.actuator.limits == dict.fromkeys(map(str, Cpus.parse(cpus)), 2_400_000)


@pytest.mark.parametrize("told", [{"slow": "0%"}, {}, {"slow": "10%"}])
async def test_a_limit_is_lifted_with_the_next_step_after_less_is_told(start, told):
    async with start() as bench:
        await bench.add("slow", {})
        await bench.tell(slow="25%")
        await bench.settled()
        assert len(bench.enforcement.limited) == 2
        await bench.tell(**told)
        await bench.step(0.1)
        assert bench.actuator.limits == {}
        assert bench.enforcement.limited == {}


async def test_a_limit_by_what_was_told_ends_when_it_is_not_told_again_and_one_by_the_pods_own_word_stays(start):
    async with start() as bench:
        await bench.add("by-namespace", {})
        await bench.add("own", CONSENT)
        await bench.tell(**{"by-namespace": "25%", "own": "25%"})
        await bench.settled()
        assert len(bench.enforcement.limited) == 4
        before_s = bench.now.s
        await bench.tell(**{"by-namespace": "25%", "own": "25%"})
        await bench.step(TOLD_FOR_S - 0.1)
        assert len(bench.enforcement.limited) == 4
        await bench.step(0.1)
        assert bench.now.s == pytest.approx(before_s + TOLD_FOR_S)
        assert len(bench.enforcement.limited) == 2
        assert {
            holder for each in bench.manager.core_limits.state.limits if each.limit_khz for holder in each.holders
        } == {"default/own/own"}


async def test_a_pod_that_is_a_performance_pod_by_its_constraints_is_not_limited_whatever_it_says(start):
    async with start() as bench:
        await bench.add("fast", CONSENT)
        await bench.settled()
        assert len(bench.enforcement.limited) == 2
        await bench.tell(fast="0%")
        await bench.settled()
        assert bench.enforcement.limited == {}
        # Also while the node agent is gone.
        await bench.step(TOLD_FOR_S)
        await bench.settled()
        assert bench.enforcement.limited == {}


async def test_the_default_of_the_cluster_is_shown_and_not_set_where_it_is_no_consent(start):
    async with start() as bench:
        cpus = await bench.add("slow", {})
        told = pb.PodConsent(
            namespace="default", pod="slow", pod_uid=bench.node.pod("slow").uid, allowed="25%", source="cluster"
        )
        await bench.manager.set_pod_consents(pb.SetPodConsentsRequest(node_name="n1", pods=[told]))
        await bench.settled()
        assert bench.actuator.limits == {}
        shown = {str(each.cpus): each for each in bench.manager.core_limits.state.limits if each.limit_khz}
        assert shown.keys() == {str(each) for each in Cpus.parse(cpus)}
        assert {(each.limit_khz, each.consents) for each in shown.values()} == {(LIMIT_KHZ, False)}
