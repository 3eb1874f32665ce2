import asyncio

import pytest
from structlog.testing import capture_logs

from joulie_actuator.cpu_class_protocol import (
    ClassControl,
    CpuClassControls,
    CpuClassState,
    Governor,
    UnmetControl,
)
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import SetCpuClasses
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuClassesReport, ErrorReply
from joulie_containers.resources.cpu_classes import CpuClassController
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.kinds.cpu_class import BUILTIN_CPU_CLASSES, CpuClassSpec

LEASE_S = 60.0


class Actuator:
    def __init__(self):
        self.requests = asyncio.Queue()
        self.failure = None
        #: By class.
        self.unmet = {}

    async def sent(self):
        """The next request; fails where none comes within a lease, so that a test ends."""
        async with asyncio.timeout(LEASE_S):
            return await self.requests.get()

    async def execute(self, request):
        self.requests.put_nowait(request)
        if self.failure is not None:
            return self.failure
        states = {
            name: CpuClassState(cpus=controls.cpus, ceiling_khz=None, floor_khz=None, unmet=self.unmet.get(name, ()))
            for name, controls in request.classes.items()
        }
        return CpuClassesReport(classes=states)


@pytest.fixture
def actuator():
    return Actuator()


@pytest.fixture
async def controller(actuator):
    controller = CpuClassController(actuator, lease_s=LEASE_S)
    controller.define(BUILTIN_CPU_CLASSES)
    task = asyncio.create_task(controller.run())
    yield controller
    task.cancel()


pytestmark = pytest.mark.looptime


async def test_classes_are_sent_with_their_controls(controller, actuator):
    controller.define({"fast": CpuClassSpec(name="fast", minFreq="2GHz", maxFreq="turbo", disabledCstates=["C6"])})
    controller.assign({"fast": Cpus.parse("0-3"), "none": EMPTY})
    request = await actuator.sent()
    assert request.lease_s == LEASE_S
    (controls,) = request.classes.values()
    assert (controls.cpus, controls.min_khz, controls.max_khz) == ("0-3", 2_000_000, "turbo")
    assert controls.disabled_idle_states == ("C6",)
    await asyncio.sleep(0)
    assert controller.in_force["fast"].cpus == "0-3"
    assert controller.problem is None


async def test_every_control_of_a_class_is_sent_and_those_it_does_not_set_have_their_originals(controller, actuator):
    spec = CpuClassSpec(
        name="fast",
        minFreq="2GHz",
        maxFreq="base",
        energyPerformancePreference="balance_power",
        freqGovernor="powersave",
        disabledCstates=["C6", "C1E"],
        uncoreMinFreq="1GHz",
        uncoreMaxFreq="1500MHz",
        turboPriority=7,
        throttleOrder="eco",
    )
    controller.define({"fast": spec, "bare": CpuClassSpec(name="bare")})
    controller.assign({"fast": Cpus.parse("0-3"), "bare": Cpus([5])})
    assert await actuator.sent() == SetCpuClasses(
        classes={
            "fast": CpuClassControls(
                cpus="0-3",
                min_khz=2_000_000,
                max_khz="base",
                epp="balance_power",
                governor=Governor.POWERSAVE,
                disabled_idle_states=("C6", "C1E"),
                uncore_min_khz=1_000_000,
                uncore_max_khz=1_500_000,
                turbo_priority=7,
                throttle_order=ThrottleOrder.ECO,
            ),
            "bare": CpuClassControls(cpus="5"),
        },
        lease_s=LEASE_S,
    )


async def test_before_a_configuration_and_a_report_nothing_is_defined_and_in_force(actuator):
    controller = CpuClassController(actuator, lease_s=LEASE_S)
    assert (controller.in_force, controller.shortfall) == ({}, None)
    controller.define({})
    controller.assign({"eco": Cpus([1])})
    task = asyncio.create_task(controller.run())
    assert (await actuator.sent()).classes == {}
    await asyncio.sleep(0)
    assert controller.problem == "the configuration does not define the class eco"
    task.cancel()


async def test_an_answer_of_another_kind_is_a_failure(controller, actuator):
    actuator.failure = object()
    controller.assign({"eco": Cpus([1])})
    await actuator.sent()
    await asyncio.sleep(0)
    assert controller.problem == "unexpected reply object"


async def test_classes_that_may_be_in_force_are_ended_until_that_succeeds(controller, actuator):
    actuator.failure = ErrorReply(message="not reached")
    controller.assign({"eco": Cpus([1])})
    await actuator.sent()
    controller.assign({})
    start = asyncio.get_running_loop().time()
    assert [(await actuator.sent()).classes for _ in range(3)] == [{}, {}, {}]
    assert asyncio.get_running_loop().time() - start == pytest.approx(2 * 2.0), "each retry after two seconds"
    actuator.failure = None
    await actuator.sent()
    await asyncio.sleep(1000)
    assert actuator.requests.empty()


async def test_a_failure_and_its_end_are_logged_once(controller, actuator):
    actuator.failure = ErrorReply(message="not reached")
    with capture_logs() as logs:
        controller.assign({"eco": Cpus([1])})
        await asyncio.sleep(LEASE_S)
        actuator.failure = None
        await asyncio.sleep(LEASE_S)
    assert [(line["event"], line.get("problem")) for line in logs] == [
        ("CPU classes not applied", "not reached"),
        ("CPU classes applied", None),
    ]


async def test_the_lease_is_renewed_before_it_ends(controller, actuator):
    controller.assign({"eco": Cpus([1])})
    loop = asyncio.get_running_loop()
    first = await actuator.sent()
    start = loop.time()
    assert await actuator.sent() == first
    assert loop.time() - start == pytest.approx(LEASE_S / 3)


async def test_a_change_is_sent_at_once_and_an_equal_assignment_is_not(controller, actuator):
    controller.assign({"eco": Cpus([1])})
    await actuator.sent()
    controller.assign({"eco": Cpus([1])})
    controller.assign({"eco": Cpus([2])})
    start = asyncio.get_running_loop().time()
    assert (await actuator.sent()).classes["eco"].cpus == "2"
    assert asyncio.get_running_loop().time() == start


async def test_without_classes_nothing_is_sent_until_there_were_some(controller, actuator):
    await asyncio.sleep(1000)
    assert actuator.requests.empty()
    controller.assign({"eco": Cpus([1])})
    await actuator.sent()
    controller.assign({})
    assert (await actuator.sent()).classes == {}
    await asyncio.sleep(1000)
    assert actuator.requests.empty()


@pytest.mark.parametrize(
    "failure",
    [
        HardwareFailure(Reason.UNREACHABLE, "not reached"),
        ErrorReply(message="not reached"),
        CpuClassesReport(classes={}, failure=HardwareFailure(Reason.NOT_PERMITTED, "not reached")),
    ],
)
async def test_a_failure_is_reported_and_repeated(controller, actuator, failure):
    actuator.failure = failure
    controller.assign({"eco": Cpus([1])})
    await actuator.sent()
    await actuator.sent()
    assert controller.problem == "not reached"
    actuator.failure = None
    await actuator.sent()
    await asyncio.sleep(0)
    assert controller.problem is None


async def test_a_class_that_is_not_defined_is_reported_and_the_others_are_sent(controller, actuator):
    controller.assign({"eco": Cpus([1]), "ghost": Cpus([2])})
    assert (await actuator.sent()).classes.keys() == {"eco"}
    await asyncio.sleep(0)
    assert "ghost" in controller.problem


async def test_an_uncore_frequency_by_name_is_reported(controller, actuator):
    controller.define({"fast": CpuClassSpec(name="fast", uncoreMinFreq="1GHz", uncoreMaxFreq="base")})
    controller.assign({"fast": Cpus([1]), "ghost": Cpus([2])})
    (controls,) = (await actuator.sent()).classes.values()
    assert (controls.uncore_min_khz, controls.uncore_max_khz) == (1_000_000, None)
    await asyncio.sleep(0)
    assert controller.problem == (
        "the configuration does not define the class ghost; "
        "uncoreMaxFreq of the class fast has no number: the uncore has no such frequency"
    )


async def test_without_an_actuator_classes_are_stated_as_unavailable():
    controller = CpuClassController(None, lease_s=LEASE_S)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    assert controller.problem is None
    controller.define(BUILTIN_CPU_CLASSES)
    controller.assign({"eco": Cpus([1])})
    await asyncio.sleep(1)
    task.cancel()
    assert controller.problem == "unavailable: ACTUATOR_SOCKET is not set"


EPP = UnmetControl(control=ClassControl.EPP, reason=Reason.NOT_FOUND, message="no such file", cpus="0-1")


async def test_what_the_hardware_cannot_serve_is_logged_once_and_shown_until_it_is_served(controller, actuator):
    actuator.unmet = {"eco": (EPP,)}
    with capture_logs() as logs:
        controller.assign({"eco": Cpus.parse("0-3"), "standard": Cpus.parse("4-7")})
        await asyncio.sleep(2 * LEASE_S)
    assert controller.problem is None
    assert controller.shortfalls == {"eco": "epp: no such file (CPUs 0-1)"}
    assert controller.shortfall == "class eco: epp: no such file (CPUs 0-1)"
    assert [(line["event"], line["cpu_class"], line["problem"]) for line in logs] == [
        ("CPU class not in force", "eco", "epp: no such file (CPUs 0-1)")
    ]
    actuator.unmet = {}
    with capture_logs() as logs:
        await asyncio.sleep(LEASE_S)
    assert controller.shortfall is None
    assert [(line["event"], line["cpu_class"]) for line in logs] == [("CPU class in force", "eco")]


async def test_why_no_class_is_applied_and_what_each_lacks_are_one_line(controller, actuator):
    controller.in_force = {
        name: CpuClassState(cpus="0", ceiling_khz=None, floor_khz=None, unmet=(EPP, EPP)) for name in ("b", "a")
    }
    each = "epp: no such file (CPUs 0-1); epp: no such file (CPUs 0-1)"
    assert controller.shortfall == f"class a: {each}; class b: {each}"
    actuator.failure = HardwareFailure(Reason.NOT_FOUND, "actuator away")
    controller.assign({"eco": Cpus.parse("0-3")})
    await actuator.sent()
    await asyncio.sleep(0)
    assert controller.shortfall == "actuator away"
