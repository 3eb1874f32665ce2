"""Controls one node's hardware and keeps the state of that. Knows no Kubernetes.

One reading and one attempt per tick, CPUs and GPUs side by side. Controls that move to another backend act there first
and are then released at the earlier one, which is retried until it is done. Hardware that does not answer just now is
still the hardware of the last answer. `follow` is the DVFS loop between two ticks.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from joulie_agent.backends.base import CpuReading, GpuReading, NodeReading, ReadingSource, Unavailable
from joulie_agent.backends.factory import BackendFactory, NodeBackends
from joulie_agent.discovery.discoverer import DiscoveredHardware, Discoverer
from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.enforce import cpu, gpu
from joulie_agent.enforce.gpu_clocks import ClockInputs
from joulie_agent.enforce.places import Place, cpu_place, gpu_place, settle
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control.caps_resolve import WattCap, WattRange, resolve_cpu_cap
from joulie_core.control.dvfs import DvfsDirection, DvfsSettings
from joulie_core.control.lost_control import Floor
from joulie_core.control.telemetry_route import Route
from joulie_core.control_result import ControlResult
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_hardware import Capabilities, NodeHardwareStatus
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import (
    MOST_PLACES,
    ControlReport,
    ControlReports,
    ControlType,
    CpuControl,
    GpuControl,
    Held,
    SourceType,
)
from joulie_core.node import Node

_log = structlog.get_logger()
_NO_FACTS: Final = HardwareFacts()


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of one tick."""

    node: Node
    route: Route
    #: None: no NodePowerProfile.
    target: NodePowerProfileSpec | None
    #: The target could not be refreshed for too long; `target` is then the fallback, None to restore.
    lost: bool
    #: Status of the node's NodeHardware; None without one.
    published: NodeHardwareStatus | None
    #: Seconds on the loop's clock.
    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Results of one tick."""

    cpu: ControlReport
    gpu: ControlReport
    #: None: no usable reading.
    cpu_reading: CpuReading | None
    gpu_reading: GpuReading | None
    hardware: DiscoveredHardware
    #: The DVFS action that was carried out.
    action: DvfsDirection | None
    #: An earlier backend was restored, which may be the current one by another name: tick again.
    released: bool

    @property
    def failed(self) -> bool:
        """Whether something that should have worked did not."""
        return ControlResult.ERROR in {self.cpu.result, self.gpu.result}


class NodeControl:
    """The controls of one node.

    Args:
        last: the last reports about the node, from this agent or the one before.
        factory: makes backends.
        discoverer: tells what the node is made of.
        dvfs: tunables of the fallback loop.
    """

    def __init__(
        self,
        node: Node,
        last: ControlReports | None,
        *,
        factory: BackendFactory,
        discoverer: Discoverer,
        dvfs: DvfsSettings,
    ) -> None:
        self.cpu_state = cpu.CpuControlState()
        self.gpu_state = gpu.GpuControlState()
        self._last = last or ControlReports()
        self._factory = factory
        self._discoverer = discoverer
        self._dvfs = dvfs
        self._backends: NodeBackends | None = None
        self._intent: cpu.CpuIntent | None = None
        #: Places that the controls have left, while something may be in force there.
        self._cpu_left: tuple[Place[cpu.CpuControlState], ...] = ()
        self._gpu_left: tuple[Place[gpu.GpuControlState], ...] = ()
        self._facts: HardwareFacts | None = None
        #: Subsystems whose source has not answered this agent yet.
        self._unread = {"cpu", "gpu"}
        self._hardware = DiscoveredHardware(NodeHardwareStatus())
        self._log = _log.bind(node=node.name)

    @property
    def in_force(self) -> bool:
        """Whether a cap or throttle of Joulie's may be in force."""
        return self.cpu_state.in_force or self.gpu_state.in_force or bool(self._cpu_left or self._gpu_left)

    @property
    def looping(self) -> bool:
        """Whether the DVFS loop holds the power, from readings that are fresh whenever they are asked for."""
        return (
            self.cpu_state.mode is cpu.CpuMode.DVFS
            and self._backends is not None
            and self._backends.cpu_source_is_live
            and self._intent is not None
            and isinstance(self._intent.cap, WattCap)
        )

    @property
    def floor(self) -> Floor:
        """The lowest caps of the node, as far as they are known."""
        return Floor(self._hardware.cpu_limits.min_watts, self._hardware.gpu_limits.min_watts)

    async def tick(self, inputs: Inputs) -> Tick:
        """Look, then carry out the published target once."""
        backends = self._build(inputs)
        cpu_reading, gpu_reading = await self._read(backends)
        self._hardware = self._discover(inputs, backends)
        self._intent = intent = self._cpu_intent(inputs, backends)
        cpu_result, gpu_result = await asyncio.gather(
            cpu.CpuEnforcer(backends.cpu, self._dvfs).enforce(intent, self.cpu_state, cpu_reading, inputs.now),
            gpu.enforce(self._gpu_intent(inputs), self.gpu_state, backends.gpu, ClockInputs(gpu_reading, inputs.now)),
        )
        self.cpu_state, self.gpu_state = cpu_result.state, gpu_result.state
        tuned = await backends.cpu.tune_cpu(saving=_saves_power(inputs))
        before = (self._cpu_left, self._gpu_left)
        await self._release_left()
        return Tick(
            cpu=self._cpu_report(backends, _with_tuning(cpu_result.report, tuned)),
            gpu=self._gpu_report(backends, gpu_result.report),
            released=(self._cpu_left, self._gpu_left) != before,
            cpu_reading=cpu_reading,
            gpu_reading=gpu_reading,
            hardware=self._hardware,
            action=cpu_result.action,
        )

    async def follow(self, now: float) -> DvfsDirection | None:
        """Take one sample of the DVFS loop; returns the action that was carried out."""
        if not self.looping or self._backends is None or self._intent is None:
            return None
        answer = await self._backends.cpu_source.read_cpu()
        reading = None if isinstance(answer, Unavailable) else answer
        enforcer = cpu.CpuEnforcer(self._backends.cpu, self._dvfs)
        self.cpu_state, action = await enforcer.follow(self._intent, self.cpu_state, reading, now)
        return action

    async def restore(self, inputs: Inputs) -> ControlReports:
        """Lift what may be in force; `in_force` tells afterwards whether that worked."""
        backends = self._build(inputs)
        self._hardware = self._discover(inputs, backends)
        cpu_result = await self._restore_cpu(backends, self.cpu_state, self._hardware.cpu_limits)
        gpu_result = await self._restore_gpu(backends, self.gpu_state, self._hardware.gpu_limits)
        self.cpu_state, self.gpu_state = cpu_result.state, gpu_result.state
        await self._release_left()
        return ControlReports(
            cpu=self._cpu_report(backends, cpu_result.report), gpu=self._gpu_report(backends, gpu_result.report)
        )

    def _build(self, inputs: Inputs) -> NodeBackends:
        """Return the backends of the route; places that it leaves are set aside until they have been released."""
        old = self._backends
        if old is not None and old.route == inputs.route:
            return old
        self._backends = new = self._factory.build(inputs.node.name, inputs.route)
        if old is None:
            cpu_places, gpu_places = self._recalled_cpu(inputs), self._recalled_gpu(inputs)
        else:
            cpu_here = Place(old, old.cpu_address, self.cpu_state, self._hardware.cpu_limits)
            gpu_here = Place(old, old.gpu_address, self.gpu_state, self._hardware.gpu_limits)
            cpu_places, gpu_places = (cpu_here, *self._cpu_left), (gpu_here, *self._gpu_left)
        self.cpu_state, self._cpu_left = settle(cpu_places, new.cpu_address, cpu.CpuControlState())
        self.gpu_state, self._gpu_left = settle(gpu_places, new.gpu_address, gpu.GpuControlState())
        return new

    def _recalled_cpu(self, inputs: Inputs) -> tuple[Place[cpu.CpuControlState], ...]:
        """Return the places that the last report names."""
        report = self._last.cpu or ControlReport()
        places = []
        for index, place in enumerate(report.places):
            control = CpuControl.model_construct(type=place.type, http=place.http)
            backends = self._factory.build(inputs.node.name, replace(inputs.route, cpu_control=control))
            places.append(Place(backends, backends.cpu_address, cpu.recalled(report, index)))
        return tuple(places)

    def _recalled_gpu(self, inputs: Inputs) -> tuple[Place[gpu.GpuControlState], ...]:
        places = []
        for place in self._last.gpu.places if self._last.gpu else ():
            control = GpuControl.model_construct(type=place.type, http=place.http)
            backends = self._factory.build(inputs.node.name, replace(inputs.route, gpu_control=control))
            state = gpu.GpuControlState(in_force=place.cap is not Held.NO)
            places.append(Place(backends, backends.gpu_address, state))
        return tuple(places)

    async def _release_left(self) -> None:
        """Release what is in force at places that the controls have left."""
        for cpu_left in self._cpu_left:
            limits = _known(cpu_left.limits, self._hardware.cpu_limits)
            cpu_result = await self._restore_cpu(cpu_left.backends, cpu_left.state, limits)
            if not cpu_result.state.in_force:
                self._log_move("cpu", cpu_left.address, cpu_result.report)
            now = replace(cpu_left, state=cpu_result.state)
            self._cpu_left = tuple(now if each is cpu_left else each for each in self._cpu_left)
        self._cpu_left = tuple(place for place in self._cpu_left if place.state.in_force)
        for gpu_left in self._gpu_left:
            limits = _known(gpu_left.limits, self._hardware.gpu_limits)
            gpu_result = await self._restore_gpu(gpu_left.backends, gpu_left.state, limits)
            if not gpu_result.state.in_force:
                self._log_move("gpu", gpu_left.address, gpu_result.report)
            left = replace(gpu_left, state=gpu_result.state)
            self._gpu_left = tuple(left if each is gpu_left else each for each in self._gpu_left)
        self._gpu_left = tuple(place for place in self._gpu_left if place.state.in_force)

    def _cpu_report(self, backends: NodeBackends, report: ControlReport) -> ControlReport:
        """Add to a report where something is, or may be, in force."""
        here = cpu_place(backends.route.cpu_control, self.cpu_state)
        left = [cpu_place(place.backends.route.cpu_control, place.state) for place in self._cpu_left]
        report = _with_left(report, [place.address for place in self._cpu_left])
        return report.model_copy(update={"places": (here, *left)[:MOST_PLACES]})

    def _gpu_report(self, backends: NodeBackends, report: ControlReport) -> ControlReport:
        here = gpu_place(backends.route.gpu_control, self.gpu_state)
        left = [gpu_place(place.backends.route.gpu_control, place.state) for place in self._gpu_left]
        report = _with_left(report, [place.address for place in self._gpu_left])
        return report.model_copy(update={"places": (here, *left)[:MOST_PLACES]})

    async def _restore_cpu(
        self, backends: NodeBackends, state: cpu.CpuControlState, limits: WattRange
    ) -> cpu.CpuResult:
        return await cpu.CpuEnforcer(backends.cpu, self._dvfs).restore(Reason.RESTORED, limits, state)

    async def _restore_gpu(
        self, backends: NodeBackends, state: gpu.GpuControlState, limits: WattRange
    ) -> gpu.GpuResult:
        return await gpu.restore(Reason.RESTORED, limits, state, backends.gpu)

    def _log_move(self, subsystem: str, address: str, report: ControlReport) -> None:
        self._log.info(
            "earlier backend restored",
            subsystem=subsystem,
            address=address,
            result=report.result,
            message=report.message,
        )

    async def _read(self, backends: NodeBackends) -> tuple[CpuReading | None, GpuReading | None]:
        if backends.cpu_source is backends.gpu_source:
            reading = await self._query("cpu", backends.cpu_source)
            if reading is None:
                return None, None
            self._facts = reading.facts
            self._unread.clear()
            return reading.cpu, reading.gpu
        by_cpu, by_gpu = await asyncio.gather(
            self._query("cpu", backends.cpu_source), self._query("gpu", backends.gpu_source)
        )
        self._unread -= {name for name, answer in (("cpu", by_cpu), ("gpu", by_gpu)) if answer is not None}
        if by_cpu is not None or by_gpu is not None:
            old, of_cpu, of_gpu = self._facts or _NO_FACTS, by_cpu and by_cpu.facts, by_gpu and by_gpu.facts
            self._facts = HardwareFacts(
                cpu=of_cpu.cpu if of_cpu else old.cpu,
                gpu=of_gpu.gpu if of_gpu else old.gpu,
                memory=of_cpu.memory if of_cpu else old.memory,
                can=(of_cpu and of_cpu.can) or (of_gpu and of_gpu.can) or old.can,
            )
        return (by_cpu.cpu if by_cpu else None), (by_gpu.gpu if by_gpu else None)

    async def _query(self, subsystem: str, source: ReadingSource) -> NodeReading | None:
        answer = await source.read()
        if isinstance(answer, Unavailable):
            self._log.debug("no reading", subsystem=subsystem, reason=answer.reason, message=answer.message)
            return None
        return answer

    def _discover(self, inputs: Inputs, backends: NodeBackends) -> DiscoveredHardware:
        if self._facts is None and inputs.published is not None and backends.capabilities.cpu_telemetry:
            # The backend has not answered this agent yet. Labels alone could have less than it reported before.
            return DiscoveredHardware(inputs.published.model_copy(update={"updated_at": None}))
        facts = self._facts or _NO_FACTS
        found = self._discoverer.discover(inputs.node, facts, _capabilities(backends, facts.can))
        return found if inputs.published is None else self._with_unread(found, inputs.published, backends)

    def _with_unread(
        self, found: DiscoveredHardware, published: NodeHardwareStatus, backends: NodeBackends
    ) -> DiscoveredHardware:
        """Keep as published what comes from a source that has not answered this agent yet."""
        kept: dict[str, object] = {}
        if "cpu" in self._unread and backends.capabilities.cpu_telemetry:
            kept |= {"cpu": published.cpu, "memory": published.memory, "quality": published.quality}
        if "gpu" in self._unread and backends.capabilities.gpu_telemetry:
            kept |= {"gpu": published.gpu, "quality": published.quality}
        return DiscoveredHardware(found.status.model_copy(update=kept)) if kept else found

    def _cpu_intent(self, inputs: Inputs, backends: NodeBackends) -> cpu.CpuIntent:
        target, limits = inputs.target, self._hardware.cpu_limits
        return cpu.CpuIntent(
            cap=resolve_cpu_cap(target.cpu, limits) if target else None,
            absent=_absent(inputs),
            limits=limits,
            packages=self._hardware.packages,
            mode=backends.cpu_mode,
        )

    def _gpu_intent(self, inputs: Inputs) -> gpu.GpuIntent:
        target = inputs.target
        return gpu.GpuIntent(
            target=target.gpu.power_cap if target and target.gpu else None,
            absent=_absent(inputs),
            limits=self._hardware.gpu_limits,
            present=self._hardware.gpu_present,
        )


def _saves_power(inputs: Inputs) -> bool:
    """Whether the node is at the caps of the eco profile, which a draining node is not yet."""
    return inputs.target is not None and inputs.target.profile is Profile.ECO and not inputs.target.draining


def _with_tuning(report: ControlReport, tuned: ControlOutcome | None) -> ControlReport:
    """Return the report with a note where the optional controls are not as configured."""
    if tuned is None or tuned.applied:
        return report
    note = f"optional controls {tuned.result}: {tuned.message or tuned.reason}"
    return report.model_copy(update={"message": "; ".join(part for part in (report.message, note) if part)[:1024]})


def _with_left(report: ControlReport, addresses: Sequence[str]) -> ControlReport:
    """Return the report with the addresses of earlier backends where something is still in force."""
    if not addresses:
        return report
    message = "; ".join(part for part in (report.message, f"not restored yet at {', '.join(addresses)}") if part)
    update = {"result": ControlResult.ERROR, "reason": Reason.NOT_RELEASED, "message": message[:1024]}
    return report.model_copy(update=update)


def _known(first: WattRange, second: WattRange) -> WattRange:
    return first if first.max_watts is not None else second


def _absent(inputs: Inputs) -> Reason:
    """Why a subsystem without an intent has none."""
    if inputs.target is not None:
        return Reason.NO_INTENT
    return Reason.LOST_CONTROL if inputs.lost else Reason.NO_PROFILE


def _capabilities(backends: NodeBackends, host: Capabilities | None) -> Capabilities:
    """Return what works on the node: where a subsystem is routed to the host, only what the host can do."""
    route, can = backends.route, backends.capabilities
    if host is None:
        return can
    on_host = {
        "cpu_control": route.cpu_control.type is ControlType.HOST,
        "gpu_control": route.gpu_control.type is ControlType.HOST,
        "cpu_telemetry": route.cpu_source.type is SourceType.HOST,
        "gpu_telemetry": route.gpu_source.type is SourceType.HOST,
    }
    lacking = {name: False for name, here in on_host.items() if here and not getattr(host, name)}
    return can.model_copy(update=lacking)
