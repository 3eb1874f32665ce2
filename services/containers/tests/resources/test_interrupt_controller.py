"""What the resource manager sends to the actuator about interrupts."""

import asyncio

import pytest
from structlog.testing import capture_logs

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.protocol import SetInterrupts
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuClassesReport, ErrorReply, InterruptsReport
from joulie_containers.resources.interrupts import InterruptController
from joulie_core.containers.idset import IdSet
from joulie_core.containers.interrupts import NO_INTERRUPTS, InterruptClaim, InterruptPlacement

LEASE_S = 60.0
WANTED = InterruptPlacement(
    claims=(InterruptClaim(("eth0-*", "24"), IdSet([2, 3])),), sinks=IdSet([0]), isolated=IdSet.parse("2-7")
)

pytestmark = pytest.mark.looptime


class Actuator:
    def __init__(self):
        self.requests = asyncio.Queue()
        self.reply = InterruptsReport(moved=3)

    async def next(self):
        """The next request, of the next hours."""
        async with asyncio.timeout(10_000):
            return await self.requests.get()

    async def execute(self, request):
        self.requests.put_nowait(request)
        return self.reply


@pytest.fixture
def actuator():
    return Actuator()


@pytest.fixture
async def controller(actuator):
    controller = InterruptController(actuator, lease_s=LEASE_S)
    controller.define(("*",))
    task = asyncio.create_task(controller.run())
    yield controller
    task.cancel()


async def test_what_the_policy_wants_is_sent_and_renewed_before_the_lease_ends(controller, actuator):
    loop = asyncio.get_running_loop()
    controller.assign(WANTED)
    first = await actuator.next()
    assert first == SetInterrupts(
        controllable=("*",),
        claims=(InterruptClaims(patterns=("eth0-*", "24"), cpus="2-3"),),
        sinks="0",
        isolated="2-7",
        lease_s=LEASE_S,
    )
    start = loop.time()
    assert await actuator.next() == first
    assert loop.time() - start == pytest.approx(LEASE_S / 3)
    assert (controller.report.moved, controller.problem) == (3, None)


async def test_a_change_is_sent_at_once_and_what_is_equal_is_not(controller, actuator):
    controller.assign(WANTED)
    await actuator.next()
    controller.assign(WANTED)
    controller.define(("*",))
    start = asyncio.get_running_loop().time()
    controller.define(("eth*",))
    assert (await actuator.next()).controllable == ("eth*",)
    controller.assign(InterruptPlacement(isolated=IdSet([1])))
    assert (await actuator.next()).isolated == "1"
    assert asyncio.get_running_loop().time() == start


async def test_nothing_is_sent_until_something_is_wanted_and_its_end_is_sent_once(controller, actuator):
    await asyncio.sleep(1000)
    assert controller.report == InterruptsReport()
    controller.assign(WANTED)
    await actuator.next()
    controller.assign(NO_INTERRUPTS)
    request = await actuator.next()
    assert (request.claims, request.sinks, request.isolated) == ((), "", "")
    await asyncio.sleep(1000)
    assert actuator.requests.empty()


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (HardwareFailure(Reason.UNREACHABLE, "no actuator"), "no actuator"),
        (ErrorReply(message="stopping"), "stopping"),
        (InterruptsReport(failure=HardwareFailure(Reason.NO_JOURNAL, "no journal")), "no journal"),
    ],
)
async def test_a_request_that_fails_is_repeated_also_where_nothing_is_wanted_any_more(
    controller, actuator, reply, problem
):
    actuator.reply = reply
    controller.assign(WANTED)
    with capture_logs() as logs:
        await actuator.next()
        await actuator.next()
    assert [(line["event"], line["log_level"]) for line in logs] == [("interrupts not moved", "warning")]
    assert problem in controller.problem
    assert controller.report.moved == 0
    controller.assign(NO_INTERRUPTS)
    await actuator.next()
    actuator.reply = InterruptsReport()
    await actuator.next()
    await asyncio.sleep(0.1)
    assert controller.problem is None
    await asyncio.sleep(1000)
    assert actuator.requests.empty()


async def test_what_does_not_move_is_a_problem_until_it_does(controller, actuator):
    actuator.reply = InterruptsReport(moved=1, fixed=4, failed=2, left_out=9, message="Overruled: 24: no room")
    controller.assign(WANTED)
    await actuator.next()
    await asyncio.sleep(0.1)
    assert controller.problem == (
        "2 of them: Overruled: 24: no room; the kernel does not let 4 of them move; "
        "9 of them are more than are looked at"
    )
    actuator.reply = InterruptsReport(moved=7)
    await actuator.next()
    await asyncio.sleep(0.1)
    assert controller.problem is None


async def test_without_an_actuator_that_is_a_problem_where_something_is_wanted():
    controller = InterruptController(None, lease_s=LEASE_S)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    assert controller.problem is None
    controller.assign(WANTED)
    await asyncio.sleep(1)
    assert controller.problem == "unavailable: ACTUATOR_SOCKET is not set"
    task.cancel()


async def test_interrupts_that_the_kernel_holds_are_the_whole_problem_where_no_other_failed(controller, actuator):
    actuator.reply = InterruptsReport(fixed=1)
    controller.assign(WANTED)
    await actuator.next()
    await asyncio.sleep(0.1)
    assert controller.problem == "the kernel does not let 1 of them move"


async def test_a_reply_to_something_else_is_a_failure_and_the_request_is_repeated(controller, actuator):
    loop = asyncio.get_running_loop()
    controller.assign(WANTED)
    await actuator.next()
    await asyncio.sleep(0.1)
    actuator.reply = CpuClassesReport(classes={})
    controller.define(("eth*",))
    request = await actuator.next()
    start = loop.time()
    await asyncio.sleep(0.1)
    assert controller.problem == "unexpected reply CpuClassesReport"
    assert controller.report == InterruptsReport()
    assert await actuator.next() == request
    assert loop.time() - start == pytest.approx(2.0)


async def test_what_is_wanted_is_what_was_assigned_last(controller, actuator):
    assert controller.wanted == NO_INTERRUPTS
    controller.assign(WANTED)
    assert controller.wanted == WANTED
