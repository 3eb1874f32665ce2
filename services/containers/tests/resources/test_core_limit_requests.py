"""What the actuator is asked about the cores, when, and what counts as in force by its answers."""

import asyncio

import pytest
from structlog.testing import capture_logs

from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit, FailedCores
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import SetCoreLimits
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CoreLimitsReport, ErrorReply
from joulie_containers.resources import core_limit_enforcement
from joulie_containers.resources.core_limit_enforcement import LIFT_S, CoreLimitCounts, CoreLimitEnforcement
from joulie_containers.resources.core_limits import CoreLimitState
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.core_limits import CoreLimit, CoreLimitReason
from joulie_core.class_caps.enforced_limit import DEADLINE_S, LEASE_S, RENEW_S, SETTLED_S
from joulie_core.containers.idset import EMPTY, Cpus

A, B = Cpus.parse("0,4"), Cpus.parse("1,5")
KHZ = 2_800_000
TENTH, QUARTER, HALF = AllowedSlowdown.TENTH, AllowedSlowdown.QUARTER, AllowedSlowdown.HALF
GONE = HardwareFailure(Reason.UNREACHABLE, "gone")


class Placements:
    """Takes the place of `CoreLimits`: what is decided, and what the placements of the moment allow."""

    def __init__(self):
        self.steps, self.on_step = [], lambda: None
        self.decide({})

    def decide(self, khz, allowed=QUARTER):
        limits = (CoreLimit(each, 1, CoreLimitReason.FREQUENCY_LIMITED, limit_khz=of) for each, of in khz.items())
        self.state = CoreLimitState(tuple(limits))
        self.allow(dict.fromkeys(khz, allowed))

    def allow(self, allowed):
        self.now = allowed

    def allowed(self):
        return self.now

    async def step(self, now_s, limited):
        self.steps.append((now_s, set(limited)))
        self.on_step()


class Actuator:
    """Records requests; answers with `answer`, when it may."""

    def __init__(self):
        self.requests, self.answer = [], CoreLimitsReport()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def execute(self, request):
        self.requests.append(request)
        await self.may_answer.wait()
        return self.answer

    @property
    def asked(self):
        """All limits that were asked, request by request."""
        return [{each.cpus: each.max_khz for each in request.limits} for request in self.requests]


class Bench:
    def __init__(self):
        self.now_s, self.known = 1_000.0, True
        self.placements, self.actuator = Placements(), Actuator()
        #: What was not lifted in time, each time.
        self.late = []
        self.enforcement = CoreLimitEnforcement(
            self.actuator, self.placements, lambda: self.known, on_late=self.late.append, clock=lambda: self.now_s
        )

    async def step(self, after_s=0.0):
        """Look once; return what was asked in it."""
        self.now_s += after_s
        before = len(self.actuator.requests)
        await self.enforcement.step()
        return self.actuator.asked[before:]

    async def settle(self):
        before = len(self.actuator.requests)
        await self.enforcement.settle()
        return self.actuator.asked[before:]

    async def limit(self, khz, allowed=QUARTER):
        """Let limits be in force."""
        self.placements.decide(khz, allowed)
        await self.step()
        await self.step(SETTLED_S)
        return self


@pytest.fixture
def bench():
    return Bench()


def failed(cpus, message="no"):
    return FailedCores(cpus=cpus, failure=HardwareFailure(Reason.IO_ERROR, message))


def in_force(bench):
    return {str(group): khz for group, khz in bench.enforcement.limited.items()}


# --- setting ----------------------------------------------------------------------------------------------------------


async def test_limits_are_asked_with_their_lease_once_the_decision_has_been_the_same_for_a_while(bench):
    bench.placements.decide({A: KHZ, B: KHZ + 1})
    assert await bench.step() == [{}]
    assert await bench.step(SETTLED_S - 0.1) == []
    assert await bench.step(0.1) == [{"0,4": KHZ, "1,5": KHZ + 1}]
    assert bench.actuator.requests[-1] == SetCoreLimits(
        limits=(CoreFrequencyLimit(cpus="0,4", max_khz=KHZ), CoreFrequencyLimit(cpus="1,5", max_khz=KHZ + 1)),
        lease_s=LEASE_S,
    )
    assert bench.enforcement.limited == {A: KHZ, B: KHZ + 1}
    assert bench.enforcement.counts == CoreLimitCounts(lifts=0, late=0)
    # Each look is told the time, and the groups whose ceiling is the limit itself.
    await bench.step(1.0)
    assert bench.placements.steps == [
        (1_000.0, set()),
        (1_004.9, set()),
        (1_005.0, set()),
        (1_006.0, {A, B}),
    ]


async def test_a_group_without_a_limit_or_without_consent_is_not_limited(bench):
    bench.placements.decide({A: None, B: KHZ})
    bench.placements.allow({A: QUARTER})
    await bench.step()
    assert await bench.step(SETTLED_S) == []
    assert in_force(bench) == {}


@pytest.mark.parametrize("change", [({A: KHZ + 1}, QUARTER), ({A: KHZ}, HALF), ({}, QUARTER)], ids=str)
async def test_a_decision_that_changes_has_to_be_the_same_for_as_long_again(bench, change):
    bench.placements.decide({A: KHZ})
    await bench.step()
    bench.placements.decide(*change)
    await bench.step(SETTLED_S - 1)
    bench.placements.decide({A: KHZ + 1}, HALF)
    assert await bench.step(1.0) == []
    assert await bench.step(SETTLED_S) == [{"0,4": KHZ + 1}]


async def test_limits_are_renewed_in_time_and_nothing_is_where_there_are_none(bench):
    await bench.limit({A: KHZ})
    assert await bench.step(RENEW_S - 0.1) == []
    assert await bench.step(0.1) == [{"0,4": KHZ}]
    assert await bench.step(RENEW_S - 0.1) == []
    bench.placements.decide({})
    assert await bench.step() == [{}]
    assert await bench.step(RENEW_S) == []


async def test_a_limit_that_is_not_wanted_any_more_is_lifted_and_counted(bench):
    await bench.limit({A: KHZ, B: KHZ})
    bench.placements.decide({A: KHZ})
    assert await bench.step() == [{"0,4": KHZ}]
    assert (in_force(bench), bench.enforcement.counts.lifts) == ({"0,4": KHZ}, 1)


async def test_all_is_lifted_while_the_containers_of_the_node_are_not_known(bench):
    await bench.limit({A: KHZ})
    bench.known = False
    assert bench.enforcement.without_consent == A
    assert await bench.step() == [{}]
    assert bench.enforcement.without_consent == EMPTY


async def test_it_looks_until_it_is_cancelled(bench, monkeypatch):
    monkeypatch.setattr(core_limit_enforcement, "STEP_S", 0.001)
    seen = asyncio.Event()
    bench.placements.on_step = lambda: len(bench.placements.steps) == 3 and seen.set()
    running = asyncio.create_task(bench.enforcement.run())
    async with asyncio.timeout(30.0):
        await seen.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


# --- lifting before an answer to the runtime --------------------------------------------------------------------------


async def test_what_a_predecessor_may_have_set_is_lifted_once(bench):
    assert await bench.settle() == [{}]
    assert await bench.settle() == []
    assert bench.enforcement.counts == CoreLimitCounts()


async def test_what_a_predecessor_may_have_set_ends_with_its_lease(bench):
    bench.actuator.answer = GONE
    bench.now_s += LEASE_S - 0.1
    assert await bench.settle() == [{}]
    assert await bench.settle() == [{}]
    assert bench.enforcement.counts.late == 2
    bench.now_s += 0.1
    assert await bench.settle() == []
    assert bench.enforcement.counts.late == 2
    # On which cores is not known.
    assert bench.late == [{}, {}]


async def test_the_clock_is_one_that_does_not_go_back_unless_another_is_given(bench):
    found = CoreLimitEnforcement(bench.actuator, bench.placements, lambda: True)
    await found.settle()
    await found.settle()
    assert bench.actuator.asked == [{}]


async def test_only_what_the_placements_of_the_moment_do_not_allow_is_lifted(bench):
    await bench.limit({A: KHZ, B: KHZ})
    for allowed in ({A: QUARTER, B: QUARTER}, {A: HALF, B: QUARTER}):
        bench.placements.allow(allowed)
        assert await bench.settle() == []
    bench.placements.allow({A: TENTH, B: QUARTER})
    assert bench.enforcement.without_consent == A
    assert await bench.settle() == [{"1,5": KHZ}]
    bench.placements.allow({})
    assert bench.enforcement.without_consent == B
    assert await bench.settle() == [{}]
    assert (in_force(bench), bench.enforcement.counts) == ({}, CoreLimitCounts(lifts=2))
    assert bench.late == []


async def test_of_limits_that_are_not_lifted_in_time_only_those_are_told_that_nothing_allows(bench):
    await bench.limit({A: KHZ, B: KHZ}, HALF)
    bench.placements.allow({B: HALF})
    bench.actuator.answer = GONE
    assert await bench.settle() == [{"1,5": KHZ}]
    assert bench.late == [{A: HALF}]


async def test_an_answer_waits_no_longer_than_a_deadline_and_the_limit_counts_on(bench, monkeypatch):
    assert LIFT_S == 0.5
    await bench.limit({A: KHZ})
    bench.placements.allow({})
    bench.actuator.may_answer.clear()
    monkeypatch.setattr(core_limit_enforcement, "LIFT_S", 0.01)
    with capture_logs() as logs:
        assert await bench.settle() == [{}]
    assert [(each["event"], each["waited_s"], each["log_level"]) for each in logs if "waited_s" in each] == [
        ("a container may have got cores before their limit was lifted", 0.01, "warning")
    ]
    assert (in_force(bench), bench.enforcement.without_consent) == ({"0,4": KHZ}, A)
    assert bench.enforcement.counts == CoreLimitCounts(lifts=0, late=1)
    assert bench.late == [{A: QUARTER}]
    bench.actuator.may_answer.set()
    # It is tried again without waiting for another container.
    bench.placements.decide({})
    assert await bench.step() == [{}]
    assert (in_force(bench), bench.enforcement.counts.lifts) == ({}, 1)


async def test_an_answer_waits_for_a_request_that_is_on_its_way_and_no_longer(bench, monkeypatch):
    await bench.limit({A: KHZ})
    bench.actuator.may_answer.clear()
    bench.placements.decide({})
    lifting = asyncio.create_task(bench.enforcement.step())
    await asyncio.sleep(0)
    monkeypatch.setattr(core_limit_enforcement, "LIFT_S", 0.01)
    assert await bench.settle() == []
    assert bench.enforcement.counts.late == 1
    monkeypatch.setattr(core_limit_enforcement, "LIFT_S", 30.0)
    waiting = asyncio.create_task(bench.settle())
    await asyncio.sleep(0)
    bench.actuator.may_answer.set()
    # The other request has lifted it.
    assert (await waiting, await lifting) == ([], None)
    assert (in_force(bench), bench.enforcement.counts.late) == ({}, 1)


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (GONE, "gone"),
        (ErrorReply(message="not understood"), "not understood"),
        (CoreLimitsReport(failure=HardwareFailure(Reason.IO_ERROR, "no driver")), "no driver"),
        (None, "unexpected reply NoneType"),
    ],
)
async def test_without_an_outcome_a_limit_may_be_in_force_and_all_is_asked_again(bench, answer, problem):
    bench.placements.decide({A: KHZ})
    await bench.step()
    bench.actuator.answer = answer
    with capture_logs() as logs:
        assert await bench.step(SETTLED_S) == [{"0,4": KHZ}]
    assert [(each["event"], each["problem"]) for each in logs] == [("limits of cores not set or lifted", problem)]
    assert in_force(bench) == {"0,4": KHZ}
    assert await bench.step() == [{"0,4": KHZ}]
    bench.actuator.answer = CoreLimitsReport()
    bench.placements.decide({})
    with capture_logs() as logs:
        assert await bench.step() == [{}]
    assert [each["event"] for each in logs] == ["limits of cores as wanted"]
    assert in_force(bench) == {}


async def test_cores_whose_limit_is_not_lifted_stay_limited_and_are_tried_again(bench):
    await bench.limit({A: KHZ, B: KHZ})
    bench.actuator.answer = CoreLimitsReport(failed=(failed("0"), failed("7", "gone")))
    bench.placements.decide({})
    with capture_logs() as logs:
        assert await bench.step() == [{}]
    assert [each["problem"] for each in logs] == ["CPUs 0: no; CPUs 7: gone"]
    assert (in_force(bench), bench.enforcement.counts.lifts) == ({"0,4": KHZ}, 1)
    assert await bench.step() == [{}]
    bench.actuator.answer = CoreLimitsReport()
    assert await bench.step() == [{}]
    assert (in_force(bench), bench.enforcement.counts.lifts) == ({}, 2)
    assert await bench.step() == []


async def test_an_actuator_that_hangs_is_left_after_a_deadline(bench, monkeypatch):
    assert DEADLINE_S == core_limit_enforcement.DEADLINE_S
    monkeypatch.setattr(core_limit_enforcement, "DEADLINE_S", 0.02)
    bench.actuator.may_answer.clear()
    with capture_logs() as logs:
        assert await bench.step() == [{}]
    assert [each["problem"] for each in logs] == ["no answer within 0.02 s"]


async def test_what_was_in_force_counts_with_what_is_asked_until_there_is_an_answer(bench):
    await bench.limit({A: KHZ})
    bench.actuator.answer = GONE
    await bench.limit({B: KHZ})
    assert in_force(bench) == {"0,4": KHZ, "1,5": KHZ}
