"""What a report says of places, and what the next agent makes of it."""

from dataclasses import dataclass, field, replace

import pytest

from joulie_actuator.reasons import Reason
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.backends.refusing import RefusingBackend
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.enforce.cpu_state import CpuControlState, CpuMode, recalled
from joulie_agent.enforce.node import Inputs, NodeControl
from joulie_agent.enforce.places import Place, announced, cpu_place, settle
from joulie_core.control.dvfs import DvfsSettings, DvfsState
from joulie_core.control.telemetry_route import Route
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget, NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import (
    MOST_PLACES,
    ControlPlace,
    ControlReport,
    ControlReports,
    CpuControl,
    GpuControl,
    Held,
    HttpEndpoint,
    TelemetrySource,
)
from joulie_core.names import NodeName
from joulie_core.node import Node

NAME = NodeName("n1")
NODE = Node(name=NAME, labels={})
WATTS = NodePowerProfileSpec(
    node_name="n1",
    profile="eco",
    draining=False,
    cpu=CpuTarget(package_power_cap_watts=100),
    gpu=GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=200)),
)
INVENTORY = Inventory.load()


def http(name):
    return HttpEndpoint(endpoint=f"http://{name}")


def place(name, cap=Held.NO, throttle=Held.NO):
    return ControlPlace(type="http", http=http(name), cap=cap, throttle=throttle)


def route_to(name, mode="auto"):
    cpu, gpu = CpuControl(type="none", mode=mode), GpuControl(type="none")
    if name is not None:
        cpu, gpu = CpuControl(type="http", http=http(name), mode=mode), GpuControl(type="http", http=http(name))
    source = TelemetrySource(type="none")
    return Route(cpu_source=source, gpu_source=source, cpu_control=cpu, gpu_control=gpu)


@dataclass
class Transport:
    """Answers every request with applied, unless an address is silent."""

    sent: list = field(default_factory=list)
    silent: set = field(default_factory=set)

    async def post(self, target, body):
        host = target.url.split("/")[2]
        self.sent.append((host, body["action"].split(".")[0]))
        return b'{"result": "error"}' if host in self.silent else b'{"result": "applied"}'


@pytest.fixture
def transport():
    return Transport()


@pytest.fixture
def start(transport):
    def make(last=None):
        factory = BackendFactory(transport, lambda _node: RefusingBackend(Reason.NO_HOST_INTERFACE, "none"))
        return NodeControl(NODE, last, factory=factory, discoverer=Discoverer(INVENTORY), dvfs=DvfsSettings())

    return make


def inputs(name, target=WATTS, mode="auto"):
    return Inputs(node=NODE, route=route_to(name, mode), target=target, lost=False, published=None, now=0.0)


def reports_of(tick):
    return ControlReports(cpu=tick.cpu, gpu=tick.gpu)


@pytest.mark.parametrize(
    ("mode", "cap", "throttle"),
    [("auto", "unknown", "unknown"), ("rapl", "unknown", "none"), ("dvfs", "none", "unknown")],
)
def test_an_endpoint_is_announced_with_what_its_mode_may_put_in_force(mode, cap, throttle):
    found = announced(None, NAME, route_to("a", mode), WATTS)
    assert found.cpu.places == (place("a", Held(cap), Held(throttle)),)
    assert found.gpu.places == (place("a", Held.PERHAPS),)
    assert announced(found, NAME, route_to("a", mode), WATTS) is None


def test_an_announcement_keeps_the_last_report_and_its_places():
    last = ControlReports(
        cpu=ControlReport(backend="http-rapl", enforced_watts=100, places=(place("a", Held.YES),)),
        gpu=ControlReport(backend="http-gpu", places=(place("a"),)),
    )
    found = announced(last, NAME, route_to("b", "rapl"), WATTS)
    assert found.cpu == last.cpu.model_copy(update={"places": (place("a", Held.YES), place("b", Held.PERHAPS))})
    assert found.gpu.places == (place("a"), place("b", Held.PERHAPS))


def test_a_known_endpoint_is_announced_again_where_its_record_names_nothing_of_what_is_wanted():
    last = ControlReports(cpu=ControlReport(places=(place("a", Held.YES), place("b"))))
    target = WATTS.model_copy(update={"gpu": None})
    assert announced(last, NAME, route_to("a", "rapl"), target) is None
    assert announced(last, NAME, route_to("a"), target) is None
    found = announced(last, NAME, route_to("a", "dvfs"), target)
    assert found.cpu.places == (place("a", Held.YES, Held.PERHAPS), place("b"))
    assert found.gpu is None
    found = announced(last, NAME, route_to("b", "rapl"), target)
    assert found.cpu.places == (place("a", Held.YES), place("b", Held.PERHAPS))


@pytest.mark.parametrize("subsystem", ["cpu", "gpu"])
def test_only_what_is_wanted_is_announced(subsystem):
    target = WATTS.model_copy(update={"gpu" if subsystem == "cpu" else "cpu": None})
    found = announced(None, NAME, route_to("a"), target)
    assert [name for name in ("cpu", "gpu") if getattr(found, name) is not None] == [subsystem]
    assert announced(None, NAME, route_to("a"), None) is None
    assert announced(None, NAME, route_to(None), WATTS) is None


def test_a_power_budget_is_announced_for_both_subsystems_also_without_a_target():
    found = announced(None, NAME, route_to("a"), None, limited=True)
    assert (found.cpu.places[0].cap, found.gpu.places[0].cap) == (Held.PERHAPS, Held.PERHAPS)
    assert announced(found, NAME, route_to("a"), None, limited=True) is None


def test_the_host_is_not_announced():
    host = replace(route_to(None), cpu_control=CpuControl(), gpu_control=GpuControl())
    assert announced(None, NAME, host, WATTS) is None


def test_a_loop_that_may_raise_its_throttle_before_the_next_report_is_recorded():
    control = route_to("a").cpu_control
    assert cpu_place(control, CpuControlState(mode=CpuMode.DVFS)).throttle is Held.PERHAPS
    assert cpu_place(control, CpuControlState(mode=CpuMode.RAPL)).throttle is Held.NO


def test_figures_of_a_report_are_of_its_first_place():
    report = ControlReport(
        backend="http-dvfs",
        throttle_pct=40,
        enforced_watts=90,
        places=(place("a", Held.PERHAPS, Held.YES), place("b", Held.YES)),
    )
    here = recalled(report, 0)
    assert (here.mode, here.dvfs, here.cap_watts) == (CpuMode.DVFS, DvfsState(throttle_pct=40), 90)
    assert (here.held.cap, here.held.throttle, here.throttle_known) == (Held.PERHAPS, Held.YES, True)
    there = recalled(report, 1)
    assert (there.held.cap, there.held.throttle) == (Held.YES, Held.NO)
    assert there == CpuControlState(held=there.held)


def test_a_throttle_that_is_in_no_report_is_not_known():
    state = recalled(ControlReport(places=(place("a", Held.YES),)), 0)
    assert (state.mode, state.throttle_known, state.dvfs) == (CpuMode.NONE, False, DvfsState())


async def test_a_new_agent_restores_every_place_that_the_report_names(start, transport):
    last = ControlReports(
        cpu=ControlReport(places=(place("a", throttle=Held.YES), place("b", throttle=Held.PERHAPS))),
        gpu=ControlReport(places=(place("a"), place("b"))),
    )
    control = start(last)
    tick = await control.tick(inputs("c", target=None))
    assert transport.sent == [("a", "dvfs"), ("b", "dvfs")]
    assert tick.again
    assert not control.in_force
    assert tick.cpu.places == (place("c"),)
    assert tick.gpu.places == (place("c"),)


async def test_a_place_that_does_not_answer_stays_in_the_report_until_it_is_released(start, transport):
    control = start()
    await control.tick(inputs("a"))
    transport.silent = {"a"}
    tick = await control.tick(inputs("b", mode="dvfs"))
    assert (tick.cpu.result, tick.cpu.reason) == ("error", "NotReleased")
    assert "not restored yet at http://a/control/n1" in tick.cpu.message
    assert tick.gpu.reason == "NotReleased"
    assert tick.cpu.places == (place("b", throttle=Held.PERHAPS), place("a", Held.YES))
    assert tick.gpu.places == (place("b", Held.YES), place("a", Held.YES))
    assert not tick.again
    control = start(reports_of(tick))
    tick = await control.tick(inputs("c", target=None))
    assert [each.http.endpoint for each in tick.cpu.places] == ["http://c", "http://a"]
    assert control.in_force


async def test_controls_that_come_back_take_over_what_is_in_force_there(start, transport):
    control = start()
    await control.tick(inputs("a", mode="rapl"))
    transport.silent = {"a"}
    await control.tick(inputs("b", mode="rapl"))
    transport.silent = set()
    tick = await control.tick(inputs("a", mode="rapl"))
    assert tick.cpu.places[0] == place("a", Held.YES)
    assert [each.http.endpoint for each in tick.cpu.places[1:]] == ["http://b"]  # no maximum is known to lift it to


async def test_a_restored_node_names_what_could_not_be_restored(start, transport):
    control = start()
    await control.tick(inputs("a", mode="dvfs"))
    transport.silent = {"a"}
    reports = await control.restore(inputs("b", target=None))
    assert control.in_force
    assert [each.http.endpoint for each in reports.gpu.places] == ["http://b", "http://a"]


async def test_every_place_of_several_moves_is_named_until_it_is_released(start, transport):
    control = start()
    transport.silent = {"a", "b"}
    await control.tick(inputs("a"))
    await control.tick(inputs("b"))
    tick = await control.tick(inputs("c"))
    assert [each.http.endpoint for each in tick.gpu.places] == ["http://c", "http://b", "http://a"]


async def test_a_gpu_cap_that_was_announced_is_taken_for_in_force(start):
    last = ControlReports(gpu=ControlReport(places=(place("a", Held.PERHAPS),)))
    tick = await start(last).tick(inputs("b", target=None))
    assert tick.gpu.places == (place("b"), place("a", Held.YES))


async def test_a_report_names_as_many_places_as_it_may_have(start, transport):
    names = [f"{number}-{'x' * 40}" for number in range(MOST_PLACES)]
    transport.silent = set(names)
    places = tuple(place(name, throttle=Held.YES) for name in names)
    tick = await start(ControlReports(cpu=ControlReport(places=places))).tick(inputs("here", target=None))
    assert [each.http.endpoint for each in tick.cpu.places] == [
        "http://here",
        *(f"http://{name}" for name in names[:-1]),
    ]
    assert len(tick.cpu.message) == 1024
    assert tick.cpu.message.startswith(f"not restored yet at http://{names[0]}/control/n1, http://{names[1]}/")


async def test_what_could_not_be_restored_follows_the_message_of_the_controls(start, transport):
    control = start()
    await control.tick(inputs("a"))
    transport.silent = {"a", "b"}
    tick = await control.tick(inputs("b"))
    first, *_, last = tick.cpu.message.split("; ")
    assert first.startswith("http-rapl error")
    assert last == "not restored yet at http://a/control/n1"


def test_a_place_with_nothing_in_force_is_forgotten():
    assert settle([Place(None, "a", CpuControlState())], "b", CpuControlState()) == (CpuControlState(), ())
