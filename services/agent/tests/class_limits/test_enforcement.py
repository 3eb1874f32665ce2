"""Limits by class that are set: requests to the actuator, step by step, and what is told of them."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import ErrorReply, GpuClassClocks
from joulie_agent.class_limits import enforcement as module
from joulie_agent.class_limits.before_start import LiftOutcome, StartLook
from joulie_agent.class_limits.enforcement import (
    HELD_BACK_S,
    LEASE_S,
    RECENT_S,
    RENEW_S,
    ClassLimitEnforcement,
    EnforcedGpu,
    EnforcementSources,
)
from joulie_agent.class_limits.metrics import enforcement_families
from joulie_agent.holders.answer import EXCHANGE_S
from joulie_agent.holders.follow import INTERVAL_S
from joulie_api.container_starts import LIFTED_FOR_S
from joulie_api.failures import Failures
from joulie_core.class_caps.enforced_limit import SETTLED_S, EnforcedReason
from joulie_core.class_caps.gpu_limits import GpuLimit, LimitReason
from joulie_core.class_caps.held_limit import HeldLimit
from joulie_core.demand import WorkloadClass
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import HeldDevice, Holder
from joulie_core.holders.records import HolderReason

LIMITED = HeldLimit(GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=1800), consents=True, running=True)
PERFORMANCE = HeldLimit(GpuLimit(LimitReason.NO_SLOWDOWN_ALLOWED))
REFUSED = HardwareFailure(Reason.NOT_PERMITTED, "insufficient permissions")


class Node:
    """What is set depends on this; a test changes it between two steps."""

    def __init__(self):
        self.found = {"GPU-a": LIMITED}
        self.holders = (Holder("ml", "serve", "main", WorkloadClass.PERFORMANCE),)
        self.is_known = self.controlled = True
        #: Of the GPUs, what the actuator refuses, and what it says instead of a report.
        self.refuses = frozenset()
        self.reply = None
        #: Sends instead of it.
        self.send_as = None
        self.defect = None
        self.sent = []
        self.in_force = {}
        self.now_s = 1000.0
        self.changes = 0
        self.registry = CollectorRegistry()
        self.enforcement = ClassLimitEnforcement(
            EnforcementSources(self.held, self.decide, lambda: self.controlled, self.send),
            self.changed,
            Failures(self.registry),
            clock=lambda: self.now_s,
        )

    def held(self, within_s):
        assert within_s == RECENT_S
        if not self.is_known:
            return None
        return [
            HeldDevice(uuid, 0, HeldAs.STANDARD, HolderReason.ALL_STANDARD, holders=self.holders) for uuid in self.found
        ]

    def decide(self, held):
        if self.defect is not None:
            raise self.defect
        return {each.uuid: self.found[each.uuid] for each in held}

    async def send(self, clocks_mhz, lease_s):
        assert lease_s == LEASE_S
        self.sent.append(dict(clocks_mhz))
        if self.send_as is not None:
            return await self.send_as(clocks_mhz)
        if self.reply is not None:
            return self.reply
        for uuid in {*self.in_force, *clocks_mhz} - self.refuses:
            self.in_force.pop(uuid, None)
            if uuid in clocks_mhz:
                self.in_force[uuid] = clocks_mhz[uuid]
        failures = dict.fromkeys(self.refuses & {*self.in_force, *clocks_mhz}, REFUSED)
        return GpuClassClocks(limits_mhz=dict(self.in_force), failures=failures)

    def changed(self):
        self.changes += 1

    async def step(self, elapsed_s=1.0):
        self.now_s += elapsed_s
        sent = len(self.sent)
        await self.enforcement.step()
        return self.sent[sent:]

    async def settle(self):
        await self.step()
        return await self.step(SETTLED_S)

    def series(self):
        return {
            (
                sample.name.removeprefix("joulie_class_limit_"),
                *sorted(set(sample.labels.values()) - {"n1"}),
            ): sample.value
            for family in enforcement_families("n1", self.enforcement)
            for sample in family.samples
        }


@pytest.fixture
def node():
    return Node()


async def test_the_first_step_lifts_what_an_earlier_agent_has_set(node):
    assert await node.step() == [{}]
    assert await node.step() == []


async def test_a_clock_is_set_once_it_is_wanted_and_then_renewed(node):
    assert await node.settle() == [{"GPU-a": 1800}]
    assert node.enforcement.gpus == {"GPU-a": EnforcedGpu(EnforcedReason.SET, 1800)}
    assert await node.step(RENEW_S - 0.1) == []
    assert await node.step(0.1) == [{"GPU-a": 1800}]


async def test_a_lift_does_not_put_off_the_renewal_of_the_other_limits(node):
    node.found = {"GPU-a": LIMITED, "GPU-b": LIMITED}
    await node.settle()
    node.found = {"GPU-a": PERFORMANCE, "GPU-b": LIMITED}
    assert await node.step(RENEW_S - 0.1) == [{"GPU-b": 1800}]
    assert await node.step(0.1) == [{"GPU-b": 1800}]
    assert await node.step(RENEW_S - 0.1) == []


async def test_a_clock_is_lifted_at_the_first_step_that_does_not_allow_it(node):
    await node.settle()
    node.found = {"GPU-a": PERFORMANCE}
    assert await node.step() == [{}]
    assert node.enforcement.gpus == {"GPU-a": EnforcedGpu(EnforcedReason.NO_LIMIT)}
    assert (node.enforcement.counts.lifts, node.enforcement.without_consent) == (1, 0)


@pytest.mark.parametrize("change", [{"is_known": False}, {"controlled": False}, {"found": {}}])
async def test_a_clock_is_lifted_where_holders_or_the_node_are_not_what_they_were(node, change):
    await node.settle()
    for name, value in change.items():
        setattr(node, name, value)
    assert await node.step() == [{}]
    assert node.enforcement.limited == 0


async def test_a_defect_of_the_decision_lifts_and_is_counted(node):
    await node.settle()
    node.defect = RuntimeError("a defect")
    assert await node.step() == [{}]
    assert node.registry.get_sample_value("joulie_internal_errors_total", {"work": "limits by class to be set"}) == 1


async def test_a_limit_that_cannot_be_lifted_names_gpu_and_pods_and_is_tried_again_each_step(node):
    await node.settle()
    node.found, node.refuses = {"GPU-a": PERFORMANCE}, frozenset({"GPU-a"})
    assert await node.step() == [{}]
    assert await node.step() == [{}]
    found = node.enforcement.gpus["GPU-a"]
    assert (found.reason, found.limit_mhz) == (EnforcedReason.NOT_LIFTED, 1800)
    assert "GPU GPU-a is still limited to 1800 MHz, held by pod ml/serve: insufficient permissions" in found.message
    series = node.series()
    assert (series["without_consent_gpus",], series["set_gpus",], series["failures_total", "lift"]) == (1, 1, 2)

    node.refuses = frozenset()
    assert await node.step() == [{}]
    assert node.enforcement.gpus["GPU-a"].reason is EnforcedReason.NO_LIMIT
    series = node.series()
    assert (series["lifts_total",], series["lift_seconds_total",], series["longest_lift_seconds",]) == (1, 2, 2)
    assert (series["without_consent_gpus",], series["set_gpus",]) == (0, 0)
    assert await node.step() == []


async def test_a_limit_left_by_an_earlier_agent_that_cannot_be_lifted_is_named(node):
    node.found, node.in_force, node.refuses = {}, {"GPU-b": 1500}, frozenset({"GPU-b"})
    await node.step()
    found = node.enforcement.gpus["GPU-b"]
    assert (found.reason, found.limit_mhz) == (EnforcedReason.NOT_LIFTED, 1500)
    assert "held by unknown" in found.message
    assert await node.step() == [{}]


async def test_a_limit_that_cannot_be_set_has_the_reason_and_is_tried_again_with_the_renewals(node):
    node.refuses = frozenset({"GPU-a"})
    await node.settle()
    assert node.enforcement.gpus["GPU-a"] == EnforcedGpu(EnforcedReason.NOT_SET, None, "insufficient permissions")
    assert node.series()["failures_total", "set"] == 1
    assert await node.step() == []
    assert await node.step(RENEW_S) == [{"GPU-a": 1800}]


@pytest.mark.parametrize(
    "reply",
    [
        HardwareFailure(Reason.UNREACHABLE, "gone"),
        ErrorReply(message="gone"),
        GpuClassClocks(limits_mhz={}, failures={}, failure=HardwareFailure(Reason.NO_JOURNAL, "gone")),
    ],
)
async def test_without_an_answer_a_limit_counts_as_set_and_the_request_is_sent_again(node, reply):
    await node.step()
    node.reply = reply
    assert await node.step(SETTLED_S) == [{"GPU-a": 1800}]
    assert node.enforcement.gpus["GPU-a"] == EnforcedGpu(EnforcedReason.NOT_SET, 1800, "gone")
    assert node.enforcement.limited == 1, "it may have been carried out"
    assert await node.step() == [{"GPU-a": 1800}]
    assert node.series()["failures_total", "set"] == 2
    node.found = {"GPU-a": PERFORMANCE}
    assert await node.step() == [{}]
    assert node.enforcement.gpus["GPU-a"].reason is EnforcedReason.NOT_LIFTED
    node.reply = None
    assert await node.step() == [{}]
    assert node.enforcement.gpus["GPU-a"].reason is EnforcedReason.NO_LIMIT


async def test_a_request_without_an_end_ends_with_its_deadline(node, monkeypatch):
    await node.settle()

    async def hang(_clocks_mhz):
        await asyncio.Event().wait()

    node.found = {"GPU-a": PERFORMANCE}
    node.send_as = hang
    monkeypatch.setattr(module, "DEADLINE_S", 0.01)
    await node.step()
    assert "no answer within 0.01 s" in node.enforcement.gpus["GPU-a"].message


async def test_only_changes_are_told(node):
    await node.settle()
    before = node.changes
    await node.step(RENEW_S)
    assert node.changes == before
    node.found = {"GPU-a": PERFORMANCE}
    await node.step()
    assert node.changes == before + 1


async def test_a_look_wakes_the_loop_and_without_looks_it_steps_by_itself(node, monkeypatch):
    answered = asyncio.Queue()

    async def answer(clocks_mhz):
        answered.put_nowait(dict(clocks_mhz))
        return REFUSED

    node.send_as = answer
    monkeypatch.setattr(module, "STEP_S", 1e6)
    async with asyncio.timeout(30):
        loop = asyncio.create_task(node.enforcement.run())
        assert await answered.get() == {}
        node.enforcement.wake()
        assert await answered.get() == {}
        monkeypatch.setattr(module, "STEP_S", 0.0)
        node.enforcement.wake()
        assert [await answered.get() for _ in range(3)] == [{}] * 3
        loop.cancel()


async def test_a_failure_without_a_message_is_told_by_its_reason(node):
    await node.step()
    node.reply = HardwareFailure(Reason.UNREACHABLE)
    await node.step(SETTLED_S)
    assert node.enforcement.gpus["GPU-a"].message == "Unreachable"


async def test_lifts_of_several_gpus_are_counted_one_by_one_with_the_longest(node):
    node.found = {"GPU-a": LIMITED, "GPU-b": LIMITED}
    assert await node.settle() == [{"GPU-a": 1800, "GPU-b": 1800}]
    assert node.enforcement.limited == 2
    node.found, node.refuses = {"GPU-a": PERFORMANCE, "GPU-b": PERFORMANCE}, frozenset({"GPU-b"})
    await node.step()
    assert (node.enforcement.counts.lifts, node.enforcement.without_consent) == (1, 1)
    node.refuses = frozenset()
    await node.step(4.0)
    counts = node.enforcement.counts
    assert (counts.lifts, counts.lift_s, counts.longest_lift_s, counts.failed_lifts) == (2, 4.0, 4.0, 1)
    assert node.enforcement.gpus["GPU-a"] == EnforcedGpu(EnforcedReason.NO_LIMIT, None, "")


async def test_the_time_of_the_request_is_part_of_a_lift(node):
    await node.settle()

    async def answer_late(_clocks_mhz):
        node.now_s += 0.5
        return GpuClassClocks(limits_mhz={}, failures={})

    node.found, node.send_as = {"GPU-a": PERFORMANCE}, answer_late
    await node.step()
    assert node.enforcement.counts.lift_s == 0.5


async def test_a_failing_gpu_is_logged_once_and_its_recovery_too(node):
    with capture_logs() as logs:
        node.refuses = frozenset({"GPU-a"})
        await node.settle()
        await node.step(RENEW_S)
        node.refuses = frozenset()
        await node.step(RENEW_S)
    events = [(each["event"], each.get("gpu"), each.get("problem")) for each in logs]
    assert events == [
        ("limit by class not as wanted", "GPU-a", "insufficient permissions"),
        ("limit by class as wanted again", "GPU-a", None),
    ]


async def test_a_failing_request_is_logged_once_and_its_recovery_too(node):
    with capture_logs() as logs:
        node.reply = HardwareFailure(Reason.UNREACHABLE, "gone")
        await node.settle()
        await node.step()
        node.reply = None
        await node.step()
    assert [(each["event"], each.get("cause"), each.get("gpu")) for each in logs] == [
        ("limit by class not as wanted", "Unreachable", None),
        ("limit by class as wanted again", None, None),
    ]


@pytest.mark.parametrize(("pods", "told"), [((), "no pod that is known"), (("a", "a", "b"), "pod ml/a, pod ml/b")])
async def test_pods_that_hold_a_stuck_gpu_are_named_once_each(node, pods, told):
    await node.settle()
    node.holders = tuple(Holder("ml", pod, f"c{number}") for number, pod in enumerate(pods))
    node.found, node.refuses = {"GPU-a": PERFORMANCE}, frozenset({"GPU-a"})
    await node.step()
    assert f"held by {told}: insufficient" in node.enforcement.gpus["GPU-a"].message


def test_the_promise_is_that_of_the_parts():
    # The lease ends a limit whose loop does not: two renewals may fail, and one request may take its whole deadline.
    assert LEASE_S > 2 * RENEW_S + module.STEP_S
    assert (LEASE_S, RENEW_S, RECENT_S) == (10.0, 3.0, 3.0)
    assert (module.STEP_S, module.DEADLINE_S, module.LIFTED_WITHIN_S) == (1.0, 5.0, 6.0)
    assert HELD_BACK_S > LIFTED_FOR_S, "the start hook lets containers start that long after a lift"
    assert RECENT_S > INTERVAL_S + EXCHANGE_S, "a look that takes its time is not an old one"


async def started(node, gpus, found=None):
    """Take the start of a container with these GPUs; `found`: the decisions by the kubelet's new answer."""
    node.found = node.found if found is None else found
    sent = len(node.sent)
    outcome = await node.enforcement.before_start(StartLook(node.held(RECENT_S), gpus))
    return outcome, node.sent[sent:]


async def test_the_limit_of_a_starting_containers_gpu_is_lifted_and_those_of_others_stay(node):
    node.found = {"GPU-a": LIMITED, "GPU-b": LIMITED}
    await node.settle()
    outcome, sent = await started(node, frozenset({"GPU-a"}), {"GPU-a": PERFORMANCE, "GPU-b": LIMITED})
    assert (outcome, sent) == (LiftOutcome(frozenset({"GPU-a"})), [{"GPU-b": 1800}])
    assert node.in_force == {"GPU-b": 1800}


async def test_a_limit_that_all_holders_allow_stays_when_a_container_of_theirs_starts(node):
    await node.settle()
    assert await started(node, frozenset({"GPU-a"})) == (LiftOutcome(), [])
    assert await node.step(RENEW_S) == [{"GPU-a": 1800}]


async def test_where_the_gpus_are_not_certain_all_limits_are_lifted(node):
    node.found = {"GPU-a": LIMITED, "GPU-b": LIMITED}
    await node.settle()
    assert await started(node, None) == (LiftOutcome(frozenset({"GPU-a", "GPU-b"})), [{}])


async def test_a_gpu_of_the_pod_that_nothing_is_known_of_is_held_back(node):
    assert (await started(node, frozenset({"GPU-b"})))[0] == LiftOutcome()
    node.found = {"GPU-b": LIMITED}
    await node.step(SETTLED_S)
    await node.step(HELD_BACK_S - SETTLED_S - 0.1)
    assert node.in_force == {}


async def test_a_late_look_that_shows_the_earlier_pod_does_not_set_the_limit_again(node):
    await node.settle()
    await started(node, frozenset({"GPU-a"}), {"GPU-a": PERFORMANCE})
    # The kubelet's answers are late: each look shows what was before the start.
    node.found = {"GPU-a": LIMITED}
    sent = []
    for _ in range(round(HELD_BACK_S + SETTLED_S) - 1):
        sent += await node.step()
    assert (sent, node.in_force) == ([], {})
    # From here on none does, and the decision has been the same for a while.
    await node.step()
    assert await node.step(SETTLED_S) == [{"GPU-a": 1800}]


async def test_a_start_resets_the_time_of_a_decision_that_is_about_to_count(node):
    await node.step()
    await node.step(SETTLED_S - 0.1)
    assert await started(node, frozenset({"GPU-a"}), {"GPU-a": PERFORMANCE}) == (LiftOutcome(), [])
    node.found = {"GPU-a": LIMITED}
    await node.step(0.2)
    assert (node.in_force, node.enforcement.gpus["GPU-a"].reason) == ({}, EnforcedReason.NOT_SETTLED)


async def test_a_limit_that_cannot_be_lifted_before_a_start_is_named_and_tried_again(node):
    await node.settle()
    node.refuses = frozenset({"GPU-a"})
    outcome, _ = await started(node, frozenset({"GPU-a"}), {"GPU-a": PERFORMANCE})
    assert outcome.lifted == frozenset()
    assert outcome.left == {
        "GPU-a": "GPU GPU-a is still limited to 1800 MHz, held by pod ml/serve: insufficient permissions"
    }
    node.refuses = frozenset()
    assert await node.step() == [{}]
    assert node.in_force == {}


async def test_without_an_answer_of_the_actuator_a_limit_of_an_earlier_agent_is_not_known_to_be_lifted(node):
    node.reply = HardwareFailure(Reason.UNREACHABLE, "gone")
    outcome, sent = await started(node, frozenset({"GPU-a"}), {"GPU-a": PERFORMANCE})
    assert (list(outcome.left), sent) == (["GPU-a"], [{}])


async def test_a_defect_of_the_decision_lifts_before_a_start(node):
    await node.settle()
    node.defect = ArithmeticError("a defect")
    outcome, sent = await started(node, frozenset({"GPU-a"}))
    assert (outcome, sent) == (LiftOutcome(frozenset({"GPU-a"})), [{}])


async def test_a_start_waits_for_the_request_of_a_step_and_has_the_last_word(node):
    await node.step()
    sending, go = asyncio.Event(), asyncio.Event()

    async def hold(clocks_mhz):
        if clocks_mhz:
            sending.set()
            await go.wait()
        node.in_force = dict(clocks_mhz)
        return GpuClassClocks(limits_mhz=dict(clocks_mhz), failures={})

    node.send_as = hold
    step = asyncio.create_task(node.step(SETTLED_S))
    await sending.wait()
    start = asyncio.create_task(started(node, frozenset({"GPU-a"}), {"GPU-a": PERFORMANCE}))
    await asyncio.sleep(0)
    assert not start.done()
    go.set()
    outcome, _ = await start
    await step
    assert (outcome, node.in_force, node.sent[-1]) == (LiftOutcome(frozenset({"GPU-a"})), {}, {})
