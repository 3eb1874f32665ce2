"""Moves of the controls of one subsystem from backend to backend.

What may be in force at a backend that the controls have left stays known, and in the report, until it was restored
there. After a restart the last report names those places.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Generic, Protocol, TypeVar

import structlog

from joulie_actuator.reasons import Reason
from joulie_agent.backends.factory import NodeBackends
from joulie_agent.enforce import cpu, gpu
from joulie_agent.enforce.places import Place, StateInForce, cpu_place, gpu_place, settle
from joulie_core.control.caps_resolve import WattRange
from joulie_core.control.telemetry_route import Route
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import (
    MOST_PLACES,
    ControlPlace,
    ControlReport,
    CpuControl,
    GpuControl,
    Held,
)

_S = TypeVar("_S", bound=StateInForce)
_S_co = TypeVar("_S_co", bound=StateInForce, covariant=True)


class _Result(Protocol[_S_co]):
    @property
    def state(self) -> _S_co: ...
    @property
    def report(self) -> ControlReport: ...


class SubsystemPlaces(ABC, Generic[_S]):
    """Where the controls of one subsystem go and went.

    Attributes:
        state: what may be in force where they go now.
        left: places that they have left, while something may be in force there.
    """

    subsystem: ClassVar[str]

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self.state = self._free()
        self.left: tuple[Place[_S], ...] = ()
        self._log = log

    @property
    def in_force(self) -> bool:
        """Whether a cap or throttle of Joulie's may be in force anywhere."""
        return self.state.in_force or bool(self.left)

    def recall(self, report: ControlReport | None, route: Route, build: Callable[[Route], NodeBackends]) -> None:
        """Take over the places that the last report names; `move_to` follows."""
        if report is None:
            return
        for index, place in enumerate(report.places):
            backends = build(self._routed_to(place, route))
            self.left += (Place(backends, self._address(backends), self._recalled(report, index)),)

    def leave(self, backends: NodeBackends, limits: WattRange) -> None:
        """Add the place where the controls go now to those that they have left; `move_to` follows."""
        self.left = (Place(backends, self._address(backends), self.state, limits), *self.left)

    def move_to(self, backends: NodeBackends) -> None:
        """Have the controls go to other backends from now on, where they may have been before."""
        self.state, self.left = settle(self.left, self._address(backends), self._free())

    async def restore(self, backends: NodeBackends, limits: WattRange) -> ControlReport:
        """Restore what may be in force where the controls go now."""
        result = await self._restore(backends, self.state, limits)
        self.state = result.state
        return result.report

    async def release_left(self, limits: WattRange) -> bool:
        """Restore what may be in force at the places left; return whether that is done at any of them.

        `limits` is the range of a cap for places where none was known.
        """
        before = self.left
        for place in before:
            known = place.limits if place.limits.max_watts is not None else limits
            result = await self._restore(place.backends, place.state, known)
            if not result.state.in_force:
                self.left = tuple(each for each in self.left if each is not place)
                self._log.info(
                    "earlier backend restored",
                    subsystem=self.subsystem,
                    address=place.address,
                    result=result.report.result,
                    message=result.report.message,
                )
        return self.left != before

    def named_in(self, report: ControlReport, route: Route) -> ControlReport:
        """Add to a report where something is, or may be, in force; an error while it is at a place left."""
        left = [self._record(place.backends.route, place.state) for place in self.left]
        places = (self._record(route, self.state), *left)[:MOST_PLACES]
        update: dict[str, object] = {"places": places}
        if self.left:
            addresses = ", ".join(place.address for place in self.left)
            message = "; ".join(part for part in (report.message, f"not restored yet at {addresses}") if part)
            update |= {"result": ControlResult.ERROR, "reason": Reason.NOT_RELEASED, "message": message[:1024]}
        return report.model_copy(update=update)

    @staticmethod
    @abstractmethod
    def _free() -> _S:
        """Return the state of a place of which nothing is known."""

    @staticmethod
    @abstractmethod
    def _address(backends: NodeBackends) -> str: ...

    @staticmethod
    @abstractmethod
    def _routed_to(place: ControlPlace, route: Route) -> Route: ...

    @staticmethod
    @abstractmethod
    def _recalled(report: ControlReport, index: int) -> _S: ...

    @staticmethod
    @abstractmethod
    def _record(route: Route, state: _S) -> ControlPlace: ...

    @staticmethod
    @abstractmethod
    async def _restore(backends: NodeBackends, state: _S, limits: WattRange) -> _Result[_S]: ...


class CpuPlaces(SubsystemPlaces[cpu.CpuControlState]):
    """Where the controls of the CPUs go and went."""

    subsystem = "cpu"

    @staticmethod
    def _free() -> cpu.CpuControlState:
        return cpu.CpuControlState()

    @staticmethod
    def _address(backends: NodeBackends) -> str:
        return backends.cpu_address

    @staticmethod
    def _routed_to(place: ControlPlace, route: Route) -> Route:
        return replace(route, cpu_control=CpuControl.model_construct(type=place.type, http=place.http))

    @staticmethod
    def _recalled(report: ControlReport, index: int) -> cpu.CpuControlState:
        return cpu.recalled(report, index)

    @staticmethod
    def _record(route: Route, state: cpu.CpuControlState) -> ControlPlace:
        return cpu_place(route.cpu_control, state)

    @staticmethod
    async def _restore(
        backends: NodeBackends, state: cpu.CpuControlState, limits: WattRange
    ) -> _Result[cpu.CpuControlState]:
        return await cpu.restore(Reason.RESTORED, limits, state, backends.cpu)


class GpuPlaces(SubsystemPlaces[gpu.GpuControlState]):
    """Where the controls of the GPUs go and went."""

    subsystem = "gpu"

    @staticmethod
    def _free() -> gpu.GpuControlState:
        return gpu.GpuControlState()

    @staticmethod
    def _address(backends: NodeBackends) -> str:
        return backends.gpu_address

    @staticmethod
    def _routed_to(place: ControlPlace, route: Route) -> Route:
        return replace(route, gpu_control=GpuControl.model_construct(type=place.type, http=place.http))

    @staticmethod
    def _recalled(report: ControlReport, index: int) -> gpu.GpuControlState:
        return gpu.GpuControlState(in_force=report.places[index].cap is not Held.NO)

    @staticmethod
    def _record(route: Route, state: gpu.GpuControlState) -> ControlPlace:
        return gpu_place(route.gpu_control, state)

    @staticmethod
    async def _restore(
        backends: NodeBackends, state: gpu.GpuControlState, limits: WattRange
    ) -> _Result[gpu.GpuControlState]:
        return await gpu.restore(Reason.RESTORED, limits, state, backends.gpu)
