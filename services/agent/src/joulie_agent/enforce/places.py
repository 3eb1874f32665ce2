"""Records of where a node's controls go and went, in the report and from the report.

An agent that ends at any moment leaves a record of every HTTP endpoint where a cap or a throttle may be in force:
`announced` is published before the first request that puts something in force, and an endpoint stays in the report
until everything there has been released. On the host, the journal and the lease serve that purpose.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from joulie_agent.backends.base import NO_RANGE
from joulie_agent.backends.factory import NodeBackends, control_address
from joulie_agent.enforce.cpu_state import CpuControlState, CpuMode
from joulie_agent.enforce.gpu import GpuControlState
from joulie_core.control.caps_resolve import WattRange
from joulie_core.control.telemetry_route import Route
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import (
    MOST_PLACES,
    ControlPlace,
    ControlReport,
    ControlReports,
    ControlType,
    CpuControl,
    CpuControlMode,
    GpuControl,
    Held,
)
from joulie_core.names import NodeName


class StateInForce(Protocol):
    """State of one subsystem's controls at one backend."""

    @property
    def in_force(self) -> bool:
        """Whether anything may be in force."""


_S = TypeVar("_S", bound=StateInForce)


@dataclass(frozen=True, slots=True)
class Place(Generic[_S]):
    """One place that controls of one subsystem go to or went to, with what may be in force there."""

    backends: NodeBackends
    address: str
    state: _S
    #: The range of a cap, as it was known there.
    limits: WattRange = NO_RANGE


def settle(places: Iterable[Place[_S]], address: str, free: _S) -> tuple[_S, tuple[Place[_S], ...]]:
    """Return what may be in force at an address, and the other places where something may be.

    Args:
        places: all places, each address once.
        address: where the controls go now.
        free: what is in force at a place that is not among them.
    """
    known = tuple(places)
    here = next((place.state for place in known if place.address == address), free)
    return here, tuple(place for place in known if place.address != address and place.state.in_force)


def cpu_place(control: CpuControl, state: CpuControlState) -> ControlPlace:
    """Return the record of a place of the CPUs. A loop may raise its throttle before the next report is written."""
    throttle = state.held.throttle
    if throttle is Held.NO and state.mode is CpuMode.DVFS:
        throttle = Held.PERHAPS
    return ControlPlace(type=control.type, http=control.http, cap=state.held.cap, throttle=throttle)


def gpu_place(control: GpuControl, state: GpuControlState) -> ControlPlace:
    """Return the record of a place of the GPUs."""
    return ControlPlace(type=control.type, http=control.http, cap=Held.YES if state.in_force else Held.NO)


def announced(
    last: ControlReports | None,
    node: NodeName,
    route: Route,
    target: NodePowerProfileSpec | None,
    *,
    limited: bool = False,
) -> ControlReports | None:
    """Return the last reports with what is about to be put in force at an endpoint; None where they name it all.

    `limited`: a power budget caps CPUs and GPUs. In mode `auto` a report names either a cap or a throttle: which of the
    two it will be is known afterwards.
    """
    reports = last or ControlReports()
    cpu, gpu = reports.cpu, reports.gpu
    if limited or (target is not None and target.cpu is not None):
        modes = route.cpu_control.mode
        cap = Held.NO if modes is CpuControlMode.DVFS else Held.PERHAPS
        throttle = Held.NO if modes is CpuControlMode.RAPL else Held.PERHAPS
        cpu = _announced(cpu, node, route.cpu_control, cap, throttle)
    if limited or (target is not None and target.gpu is not None):
        gpu = _announced(gpu, node, route.gpu_control, Held.PERHAPS, Held.NO)
    return None if cpu is reports.cpu and gpu is reports.gpu else ControlReports(cpu=cpu, gpu=gpu)


def _announced(
    report: ControlReport | None, node: NodeName, control: CpuControl | GpuControl, cap: Held, throttle: Held
) -> ControlReport | None:
    if control.type is not ControlType.HTTP:
        return report
    places = report.places if report else ()
    address = control_address(node, control)
    here = [place for place in places if control_address(node, place) == address]
    if any(_names(place.cap, cap) or _names(place.throttle, throttle) for place in here):
        return report
    if here:
        more = {"cap": _more(here[0].cap, cap), "throttle": _more(here[0].throttle, throttle)}
        places = tuple(place.model_copy(update=more) if place is here[0] else place for place in places)
    else:
        new = ControlPlace(type=control.type, http=control.http, cap=cap, throttle=throttle)
        places = (*places[: MOST_PLACES - 1], new)
    return (report or ControlReport()).model_copy(update={"places": places})


def _names(recorded: Held, wanted: Held) -> bool:
    return wanted is not Held.NO and recorded is not Held.NO


def _more(recorded: Held, wanted: Held) -> Held:
    return wanted if recorded is Held.NO else recorded
