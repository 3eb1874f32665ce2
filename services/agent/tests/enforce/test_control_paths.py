"""What is in force at two backends while modes, targets, routes, faults and agents change in any intent.

The whole of `NodeControl` with the real HTTP backend code acts on two models of a backend. They know what is in force;
the agent only knows what it was told.
"""

import asyncio
import json
from dataclasses import dataclass, field

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import Unavailable
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.backends.refusing import RefusingBackend
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.enforce.node import Inputs, NodeControl
from joulie_agent.enforce.places import announced
from joulie_core.control.dvfs import DvfsSettings
from joulie_core.control.telemetry_route import Route
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_power_profile import CpuTarget, NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import (
    ControlReports,
    ControlType,
    CpuControl,
    GpuControl,
    HttpEndpoint,
    SourceType,
    TelemetrySource,
)
from joulie_core.names import NodeName
from joulie_core.node import Node

TOP_WATTS = 250.0
NODE = Node(name=NodeName("n1"), labels={})
#: What a request meets: done; declined; failed; lost on the way there; lost on the way back.
OK, BLOCKED = "ok", "blocked"
ANSWERS = [OK, OK, BLOCKED, "error", "lost", "lost-landed"]
CAP, THROTTLE = "rapl.set_power_cap_watts", "dvfs.set_throttle_pct"
WATTS, PCT = {"package_power_cap_watts": 100}, {"package_power_cap_pct_of_max": 60}
INVENTORY = Inventory.load()


@dataclass
class HttpPlace:
    """One backend.

    It declines no control that it carried out without the agent learning of it: a request that was lost and is declined
    when it is repeated counts as never carried out, see `joulie_agent.backends.base.is_released`.
    """

    tells_range: bool
    cap_watts: float = TOP_WATTS
    throttle_pct: float = 0.0
    watts: float | None = 300.0
    answers: dict = field(default_factory=lambda: {CAP: OK, THROTTLE: OK})
    #: Actions that were carried out last by a request whose answer was lost.
    unconfirmed: set = field(default_factory=set)

    @property
    def capped(self):
        return self.cap_watts < TOP_WATTS

    @property
    def quiet(self):
        return set(self.answers.values()) <= {OK, BLOCKED}

    def tell(self):
        cpu = {"sockets": 2}
        if self.watts is not None:
            cpu["packagePowerWatts"] = self.watts
        if self.tells_range:
            cpu["capRange"] = {"minWattsPerSocket": 50, "maxWattsPerSocket": TOP_WATTS}
        return json.dumps({"cpu": cpu}).encode()

    def carry_out(self, body):
        answer = self.answers[body["action"]]
        if answer == BLOCKED and body["action"] in self.unconfirmed:
            answer = "error"
        if answer == "lost-landed":
            self.unconfirmed.add(body["action"])
        elif answer == OK:
            self.unconfirmed.discard(body["action"])
        if answer in {OK, "lost-landed"}:
            if body["action"] == CAP:
                self.cap_watts = body["capWatts"]
            else:
                self.throttle_pct = body["throttlePct"]
        match answer:
            case "lost" | "lost-landed":
                return Unavailable(Reason.TIMEOUT, "no answer")
            case "error":
                return json.dumps({"result": "error", "message": "failed"}).encode()
            case "blocked":
                return json.dumps({"result": "blocked", "message": "declined"}).encode()
        state = {"capWatts": self.cap_watts} if body["action"] == CAP else {"throttlePct": self.throttle_pct}
        return json.dumps({"result": "applied", "message": "", "state": state}).encode()


@dataclass
class Transport:
    places: dict

    async def get(self, target, params=None):
        return self.places[target.url.split("/")[2]].tell()

    async def post(self, target, body):
        return self.places[target.url.split("/")[2]].carry_out(body)


def route_to(place, mode, source):
    """Controls at a place, or turned off; readings always from somewhere."""
    http = HttpEndpoint(endpoint=f"http://{source}")
    control = CpuControl(type=ControlType.NONE, mode=mode)
    if place is not None:
        control = CpuControl(type=ControlType.HTTP, mode=mode, http=HttpEndpoint(endpoint=f"http://{place}"))
    readings = TelemetrySource(type=SourceType.HTTP, http=http)
    return Route(
        cpu_source=readings, gpu_source=readings, cpu_control=control, gpu_control=GpuControl(type=ControlType.NONE)
    )


class Paths(RuleBasedStateMachine):
    """One node; place `a` tells its range and `b` does not."""

    def __init__(self):
        super().__init__()
        self.places = {"a": HttpPlace(tells_range=True), "b": HttpPlace(tells_range=False)}
        self.factory = BackendFactory(
            Transport(self.places), lambda _node: RefusingBackend(Reason.NO_HOST_INTERFACE, "none")
        )
        self.place, self.mode, self.target = "a", "auto", WATTS
        self.now = 0.0
        self.reports = None
        self.loop = asyncio.new_event_loop()
        self.start()

    def teardown(self):
        try:
            self.quiet_ticks()
        finally:
            self.loop.close()

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def start(self):
        self.control = NodeControl(
            NODE,
            self.reports,
            factory=self.factory,
            discoverer=Discoverer(INVENTORY),
            dvfs=DvfsSettings(),
        )

    @rule(
        mode=st.sampled_from(["auto", "rapl", "dvfs"]),
        place=st.sampled_from(["a", "a", "b", None]),
        wanted=st.sampled_from([WATTS, PCT, None]),
    )
    def restart(self, mode, place, wanted):
        self.start()
        self.place, self.mode, self.target = place, mode, wanted
        self.tick()

    @rule(
        mode=st.sampled_from(["rapl", "dvfs"]),
        place=st.sampled_from(["a", "b", None]),
        wanted=st.sampled_from([WATTS, PCT, None]),
    )
    def end_before_the_report(self, mode, place, wanted):
        """The agent acts and ends before it has reported; the next one finds what was published before."""
        self.place, self.mode, self.target = place, mode, wanted
        self.act()
        self.start()

    @rule(
        mode=st.sampled_from(["auto", "rapl", "dvfs"]),
        place=st.sampled_from(["a", "a", "a", "b", None]),
        wanted=st.sampled_from([WATTS, PCT, WATTS, None]),
        ticks=st.integers(1, 3),
    )
    def change(self, mode, place, wanted, ticks):
        self.mode, self.place, self.target = mode, place, wanted
        for _ in range(ticks):
            self.tick()

    @rule(mode=st.sampled_from(["auto", "rapl", "dvfs"]))
    def change_mode(self, mode):
        self.mode = mode
        self.tick()

    @rule(wanted=st.sampled_from([WATTS, PCT, None]))
    def change_target(self, wanted):
        self.target = wanted
        self.tick()

    @rule(place=st.sampled_from("ab"), cap=st.sampled_from(ANSWERS), throttle=st.sampled_from(ANSWERS))
    def change_answers(self, place, cap, throttle):
        self.places[place].answers = {CAP: cap, THROTTLE: throttle}
        self.tick()

    @rule(place=st.sampled_from("ab"), watts=st.sampled_from([None, 120.0, 600.0]))
    def change_power(self, place, watts):
        self.places[place].watts = watts

    def tick(self):
        tick = self.act()
        self.reports = ControlReports(cpu=tick.cpu, gpu=tick.gpu)
        self.check_report(tick.cpu)

    def act(self):
        self.now += 20.0
        target = None
        if self.target is not None:
            cpu = CpuTarget(**self.target)
            target = NodePowerProfileSpec(node_name="n1", profile="eco", draining=False, cpu=cpu)
        inputs = Inputs(
            node=NODE,
            route=route_to(self.place, self.mode, self.place or "a"),
            target=target,
            lost=False,
            published=None,
            now=self.now,
        )
        self.reports = announced(self.reports, NODE.name, inputs.route, target) or self.reports
        return self.run(self.control.tick(inputs))

    @rule(ticks=st.integers(1, 20))
    def follow(self, ticks):
        self.now += 2.0 * ticks
        self.run(self.control.follow(self.now))

    @rule()
    def quiet_ticks(self):
        """Once nothing fails any longer, only the owner's control is in force."""
        for place in self.places.values():
            place.answers = dict.fromkeys(place.answers, OK)
        for _ in range(3):
            self.tick()
        owned = self.owner()
        for name, place in self.places.items():
            here = name == self.place
            assert not place.throttle_pct or (here and owned == THROTTLE), f"throttle left at {name}"
            if not place.capped or (here and owned == CAP):
                continue
            # Without a maximum that was ever reported, a cap cannot be lifted over HTTP: that is not applied.
            assert not self.knows_range(), f"cap left at {name}"
            assert self.reports.cpu.result != "applied"

    def owner(self):
        if self.place is None or self.target is None:
            return None
        if "package_power_cap_watts" in self.target or self.knows_range():
            return THROTTLE if self.mode == "dvfs" else CAP
        return None if self.mode == "rapl" else THROTTLE

    def knows_range(self):
        return self.control._hardware.cpu_limits.max_watts is not None

    def check_report(self, report):
        """`applied` is in force as it says, and nothing else that is known of is."""
        if report.result != "applied" or self.place is None:
            return
        place = self.places[self.place]
        if report.reason == "Restored":
            assert not place.capped or place.answers[CAP] == BLOCKED
            assert not place.throttle_pct or place.answers[THROTTLE] == BLOCKED
        elif report.backend == "http-rapl":
            assert place.cap_watts == report.enforced_watts
            assert not place.throttle_pct or place.answers[THROTTLE] == BLOCKED
        else:
            assert report.backend == "http-dvfs"
            assert place.throttle_pct == report.throttle_pct
            assert not place.capped or place.answers[CAP] == BLOCKED
            assert place.watts is not None or report.reason == "ThrottledByPercent"

    @invariant()
    def what_is_in_force_is_remembered(self):
        for place in self.places.values():
            if place.capped or place.throttle_pct:
                assert self.reports is not None


TestPaths = Paths.TestCase
#: Shrinking a failure would take longer than a test may.
UNSHRUNK = set(Phase) - {Phase.shrink, Phase.explain}
TestPaths.settings = settings(max_examples=80, stateful_step_count=25, deadline=None, derandomize=True, phases=UNSHRUNK)


def played(*steps):
    """Run named rules in a given order and then look at what is left."""
    paths = Paths()
    try:
        for name, *arguments in steps:
            getattr(paths, name)(*arguments)
    finally:
        paths.teardown()


def test_a_throttle_raised_between_two_reports_is_released_by_the_next_agent_elsewhere():
    played(
        ("change", "dvfs", "b", WATTS, 1),
        ("follow", 12),
        ("follow", 1),
        ("follow", 12),
        ("restart", "auto", "a", WATTS),
    )


def test_a_throttle_raised_between_two_reports_is_released_by_the_next_agent_in_another_mode():
    played(("change", "dvfs", "a", WATTS, 1), ("follow", 12), ("follow", 12), ("restart", "rapl", "a", WATTS))


def test_a_place_left_by_the_agent_before_the_last_is_released():
    played(
        ("change", "dvfs", "b", WATTS, 3),
        ("change_answers", "b", OK, "error"),
        ("change", "auto", "a", None, 2),
        ("restart", "rapl", "a", None),
        ("restart", "rapl", None, None),
    )


def test_two_places_left_at_once_are_released_after_a_restart():
    played(
        ("change", "dvfs", "b", WATTS, 3),
        ("change_answers", "b", "error", "error"),
        ("change", "auto", "a", WATTS, 2),
        ("change_answers", "a", "error", "error"),
        ("restart", "rapl", None, None),
        ("restart", "rapl", None, None),
    )


def test_a_cap_set_by_an_agent_that_ends_before_its_report_is_released():
    played(
        ("change_target", None),
        ("end_before_the_report", "rapl", "a", WATTS),
        ("restart", "auto", None, None),
    )
