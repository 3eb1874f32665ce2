"""Everything the agent does to one node's hardware, and what it remembers of that. Knows no Kubernetes.

Promises one reading and one attempt per tick, CPUs and GPUs side by side; that controls which move elsewhere act at the
new place first and are then released at the old one, which is tried again until it is done; and that hardware which
cannot be asked just now is still the hardware it was at the last answer. `follow` is the DVFS loop between two ticks.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from joulie_agent.backends.base import CpuReading, GpuReading, HardwareFacts, NodeReading, ReadingSource, Unavailable
from joulie_agent.backends.factory import BackendFactory, NodeBackends
from joulie_agent.discovery.discoverer import DiscoveredHardware, Discoverer
from joulie_agent.enforce import cpu, gpu
from joulie_agent.enforce.cpu_state import doubtful
from joulie_agent.enforce.gpu_clocks import ClockLook
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
from joulie_core.kinds.telemetry_profile import ControlReport, ControlReports, ControlType, SourceType
from joulie_core.node import Node

_log = structlog.get_logger()
_NO_FACTS: Final = HardwareFacts()


@dataclass(frozen=True, slots=True)
class Inputs:
    """What one tick starts from."""

    node: Node
    route: Route
    #: None: no NodePowerProfile.
    target: NodePowerProfileSpec | None
    #: The target could not be refreshed for too long; `target` is then what is done about that, None to give back.
    lost: bool
    #: What the node's NodeHardware says; None where there is none.
    published: NodeHardwareStatus | None
    #: Seconds on the loop's clock.
    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick found and did."""

    cpu: ControlReport
    gpu: ControlReport
    #: None: no usable reading.
    cpu_reading: CpuReading | None
    gpu_reading: GpuReading | None
    hardware: DiscoveredHardware
    #: The DVFS action that was carried out.
    action: DvfsDirection | None = None
    #: The routing to publish: the old one until everything at the old place has been released.
    route: Route | None = None
    #: Something was released at an old place, which may be the new one by another name: tick again.
    released: bool = False

    @property
    def failed(self) -> bool:
        """Whether something that should have worked did not."""
        return ControlResult.ERROR in {self.cpu.result, self.gpu.result}


@dataclass(frozen=True, slots=True)
class _Left:
    """A place that the controls have left, with what may still be in force there."""

    wiring: NodeBackends
    cpu: cpu.CpuControlState
    gpu: gpu.GpuControlState
    #: As they were known there.
    cpu_limits: WattRange
    gpu_limits: WattRange

    @property
    def in_force(self) -> bool:
        return self.cpu.in_force or self.gpu.in_force


class NodeControl:
    """The hands on one node.

    Args:
        node: the node.
        last: the last report about it, from this agent or the one before.
        last_route: what served the node then.
        wirer: makes backends.
        discoverer: tells what the node is made of.
        dvfs: tunables of the fallback loop.
    """

    def __init__(
        self,
        node: Node,
        last: ControlReports | None,
        last_route: Route | None = None,
        *,
        wirer: BackendFactory,
        discoverer: Discoverer,
        dvfs: DvfsSettings,
    ) -> None:
        self.cpu_memory = cpu.remembered(last.cpu if last else None)
        self.gpu_memory = gpu.remembered(last.gpu if last else None)
        self._wirer = wirer
        self._discoverer = discoverer
        self._dvfs = dvfs
        #: Made of the route that the last report was written under, so that a change since then is seen as one.
        self._wiring: NodeBackends | None = wirer.wire(node.name, last_route) if last_route else None
        self._inherited = True
        self._order: cpu.CpuIntent | None = None
        self._left: tuple[_Left, ...] = ()
        self._facts: HardwareFacts | None = None
        self._hardware = DiscoveredHardware(NodeHardwareStatus())
        self._log = _log.bind(node=node.name)

    @property
    def in_force(self) -> bool:
        """Whether a cap or throttle of ours may be in force."""
        return self.cpu_memory.in_force or self.gpu_memory.in_force or bool(self._left)

    @property
    def looping(self) -> bool:
        """Whether the DVFS loop holds the power, from readings that are fresh whenever they are asked for."""
        return (
            self.cpu_memory.mode is cpu.CpuMode.DVFS
            and self._wiring is not None
            and self._wiring.cpu_source_is_live
            and self._order is not None
            and isinstance(self._order.cap, WattCap)
        )

    @property
    def floor(self) -> Floor:
        """The lowest caps of the node, as far as they are known."""
        return Floor(self._hardware.cpu_limits.min_watts, self._hardware.gpu_limits.min_watts)

    async def tick(self, inputs: Inputs) -> Tick:
        """Look, then carry out the published target once."""
        wiring = self._rewire(inputs)
        cpu_reading, gpu_reading = await self._read(wiring)
        self._hardware = self._discover(inputs, wiring)
        self._order = order = self._cpu_order(inputs, wiring)
        cpu_result, gpu_result = await asyncio.gather(
            cpu.CpuEnforcer(wiring.cpu, self._dvfs).enforce(order, self.cpu_memory, cpu_reading, inputs.now),
            gpu.enforce(self._gpu_order(inputs), self.gpu_memory, wiring.gpu, ClockLook(gpu_reading, inputs.now)),
        )
        self.cpu_memory, self.gpu_memory = cpu_result.memory, gpu_result.memory
        tuned = await wiring.cpu.tune_cpu(saving=_saves_power(inputs))
        before = self._left
        await self._release_left()
        return Tick(
            cpu=_with_left(
                _with_tuning(cpu_result.report, tuned),
                [left.wiring.cpu_address for left in self._left if left.cpu.in_force],
            ),
            gpu=_with_left(gpu_result.report, [left.wiring.gpu_address for left in self._left if left.gpu.in_force]),
            route=self._left[0].wiring.route if self._left else inputs.route,
            released=self._left != before,
            cpu_reading=cpu_reading,
            gpu_reading=gpu_reading,
            hardware=self._hardware,
            action=cpu_result.action,
        )

    async def follow(self, now: float) -> DvfsDirection | None:
        """Take one sample of the DVFS loop; returns the action that was carried out."""
        if not self.looping or self._wiring is None or self._order is None:
            return None
        answer = await self._wiring.cpu_source.read_cpu()
        reading = None if isinstance(answer, Unavailable) else answer
        enforcer = cpu.CpuEnforcer(self._wiring.cpu, self._dvfs)
        self.cpu_memory, action = await enforcer.follow(self._order, self.cpu_memory, reading, now)
        return action

    async def give_back(self, inputs: Inputs) -> ControlReports:
        """Lift what may be in force; `in_force` tells afterwards whether that worked."""
        wiring = self._rewire(inputs)
        self._hardware = self._discover(inputs, wiring)
        cpu_result = await self._restore_cpu(wiring, self.cpu_memory, self._hardware.cpu_limits)
        gpu_result = await self._restore_gpu(wiring, self.gpu_memory, self._hardware.gpu_limits)
        self.cpu_memory, self.gpu_memory = cpu_result.memory, gpu_result.memory
        await self._release_left()
        return ControlReports(cpu=cpu_result.report, gpu=gpu_result.report)

    def _rewire(self, inputs: Inputs) -> NodeBackends:
        """Wire the route; what may be in force at places that it leaves is set aside, to be released."""
        old = self._wiring
        if old is not None and old.route == inputs.route:
            self._inherited = False
            return old
        new = self._wirer.wire(inputs.node.name, inputs.route)
        self._wiring = new
        if old is None:
            return new
        cpu_left, gpu_left = cpu.CpuControlState(), gpu.GpuControlState()
        if old.cpu_address != new.cpu_address:
            # An agent before this one may have written its last report from either place.
            cpu_left = doubtful(self.cpu_memory) if self._inherited else self.cpu_memory
            self.cpu_memory = cpu_left if self._inherited else self._cpu_back_at(new.cpu_address)
        if old.gpu_address != new.gpu_address:
            gpu_left = self.gpu_memory
            self.gpu_memory = gpu_left if self._inherited else self._gpu_back_at(new.gpu_address)
        self._inherited = False
        left = _Left(old, cpu_left, gpu_left, self._hardware.cpu_limits, self._hardware.gpu_limits)
        self._left = tuple(each for each in (*self._left, left) if each.in_force)
        return new

    def _cpu_back_at(self, address: str) -> cpu.CpuControlState:
        """Take back what is still in force at a place that the controls come back to."""
        back = next((left for left in self._left if left.wiring.cpu_address == address), None)
        self._left = tuple(replace(left, cpu=cpu.CpuControlState()) if left is back else left for left in self._left)
        return back.cpu if back else cpu.CpuControlState()

    def _gpu_back_at(self, address: str) -> gpu.GpuControlState:
        back = next((left for left in self._left if left.wiring.gpu_address == address), None)
        self._left = tuple(replace(left, gpu=gpu.GpuControlState()) if left is back else left for left in self._left)
        return back.gpu if back else gpu.GpuControlState()

    async def _release_left(self) -> None:
        """Release what is in force at places that the controls have left."""
        for left in self._left:
            cpu_limits = _known(left.cpu_limits, self._hardware.cpu_limits)
            gpu_limits = _known(left.gpu_limits, self._hardware.gpu_limits)
            cpu_result = await self._restore_cpu(left.wiring, left.cpu, cpu_limits)
            gpu_result = await self._restore_gpu(left.wiring, left.gpu, gpu_limits)
            now = replace(left, cpu=cpu_result.memory, gpu=gpu_result.memory)
            if now.cpu.in_force != left.cpu.in_force:
                self._log_move("cpu", left.wiring.cpu_address, cpu_result.report)
            if now.gpu.in_force != left.gpu.in_force:
                self._log_move("gpu", left.wiring.gpu_address, gpu_result.report)
            self._left = tuple(now if each is left else each for each in self._left)
        self._left = tuple(left for left in self._left if left.in_force)

    async def _restore_cpu(self, wiring: NodeBackends, memory: cpu.CpuControlState, limits: WattRange) -> cpu.CpuResult:
        return await cpu.CpuEnforcer(wiring.cpu, self._dvfs).give_back(Reason.RESTORED, limits, memory)

    async def _restore_gpu(self, wiring: NodeBackends, memory: gpu.GpuControlState, limits: WattRange) -> gpu.GpuResult:
        return await gpu.give_back(Reason.RESTORED, limits, memory, wiring.gpu)

    def _log_move(self, part: str, address: str, report: ControlReport) -> None:
        self._log.info("controls moved", part=part, released_at=address, result=report.result, message=report.message)

    async def _read(self, wiring: NodeBackends) -> tuple[CpuReading | None, GpuReading | None]:
        if wiring.cpu_source is wiring.gpu_source:
            reading = await self._ask("cpu", wiring.cpu_source)
            if reading is None:
                return None, None
            self._facts = reading.facts
            return reading.cpu, reading.gpu
        by_cpu, by_gpu = await asyncio.gather(self._ask("cpu", wiring.cpu_source), self._ask("gpu", wiring.gpu_source))
        if by_cpu is not None or by_gpu is not None:
            old, of_cpu, of_gpu = self._facts or _NO_FACTS, by_cpu and by_cpu.facts, by_gpu and by_gpu.facts
            self._facts = HardwareFacts(
                cpu=of_cpu.cpu if of_cpu else old.cpu,
                gpu=of_gpu.gpu if of_gpu else old.gpu,
                memory=of_cpu.memory if of_cpu else old.memory,
                can=(of_cpu and of_cpu.can) or (of_gpu and of_gpu.can) or old.can,
            )
        return (by_cpu.cpu if by_cpu else None), (by_gpu.gpu if by_gpu else None)

    async def _ask(self, part: str, source: ReadingSource) -> NodeReading | None:
        answer = await source.read()
        if isinstance(answer, Unavailable):
            self._log.debug("no reading", part=part, reason=answer.reason, message=answer.message)
            return None
        return answer

    def _discover(self, inputs: Inputs, wiring: NodeBackends) -> DiscoveredHardware:
        if self._facts is None and inputs.published is not None and wiring.capabilities.cpu_telemetry:
            # The backend has not answered this agent yet. Labels alone could say less than it told the agent before.
            return DiscoveredHardware(inputs.published.model_copy(update={"updated_at": None}))
        facts = self._facts or _NO_FACTS
        return self._discoverer.discover(inputs.node, facts, _capabilities(wiring, facts.can))

    def _cpu_order(self, inputs: Inputs, wiring: NodeBackends) -> cpu.CpuIntent:
        target, limits = inputs.target, self._hardware.cpu_limits
        return cpu.CpuIntent(
            cap=resolve_cpu_cap(target.cpu, limits) if target else None,
            absent=_absent(inputs),
            limits=limits,
            packages=self._hardware.packages,
            mode=wiring.cpu_mode,
        )

    def _gpu_order(self, inputs: Inputs) -> gpu.GpuIntent:
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
    """Say in a report where the optional controls are not as configured."""
    if tuned is None or tuned.applied:
        return report
    note = f"optional controls {tuned.result}: {tuned.message or tuned.reason}"
    return report.model_copy(update={"message": "; ".join(part for part in (report.message, note) if part)[:1024]})


def _with_left(report: ControlReport, addresses: Sequence[str]) -> ControlReport:
    """Say in a report where something is still in force that the controls have left."""
    if not addresses:
        return report
    message = "; ".join(part for part in (report.message, f"not released yet at {', '.join(addresses)}") if part)
    update = {"result": ControlResult.ERROR, "reason": Reason.NOT_RELEASED, "message": message[:1024]}
    return report.model_copy(update=update)


def _known(first: WattRange, second: WattRange) -> WattRange:
    return first if first.max_watts is not None else second


def _absent(inputs: Inputs) -> Reason:
    """Why a subsystem without an intent has none."""
    if inputs.target is not None:
        return Reason.NO_INTENT
    return Reason.LOST_CONTROL if inputs.lost else Reason.NO_PROFILE


def _capabilities(wiring: NodeBackends, host: Capabilities | None) -> Capabilities:
    """What works on the node: where a part is routed to the host, only what the host can do."""
    route, can = wiring.route, wiring.capabilities
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
