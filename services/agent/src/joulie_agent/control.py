"""Everything the agent does to one node's hardware, and what it remembers of that. Knows no Kubernetes.

Promises one reading and one attempt per tick, CPUs and GPUs side by side; that controls which move elsewhere give back
at the old place before they act at the new one; and that hardware which cannot be asked just now is still the hardware
it was at the last answer.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from joulie_agent import cpu, gpu
from joulie_agent.backends.base import CpuReading, GpuReading, HardwareFacts, PowerSource, Reading, Unavailable
from joulie_agent.backends.wiring import Wirer, Wiring
from joulie_agent.discovery import Discoverer, Hardware
from joulie_agent.reasons import Reason
from joulie_core.caps_resolve import resolve_cpu_cap
from joulie_core.dvfs import DvfsDirection, DvfsSettings
from joulie_core.kinds.node_hardware import Capabilities, NodeHardwareStatus
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import (
    ControlReport,
    ControlReports,
    ControlResult,
    ControlType,
    SourceType,
)
from joulie_core.lost_control import Floor
from joulie_core.node import Node
from joulie_core.telemetry_route import Route

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
    hardware: Hardware
    #: The DVFS action that was carried out.
    action: DvfsDirection | None = None

    @property
    def failed(self) -> bool:
        """Whether something that should have worked did not."""
        return ControlResult.ERROR in {self.cpu.result, self.gpu.result}


class NodeControl:
    """The hands on one node.

    Args:
        node: the node.
        last: the last report about it, from this agent or the one before.
        wirer: makes backends.
        discoverer: tells what the node is made of.
        dvfs: tunables of the fallback loop.
    """

    def __init__(
        self, node: Node, last: ControlReports | None, *, wirer: Wirer, discoverer: Discoverer, dvfs: DvfsSettings
    ) -> None:
        self.cpu_memory = cpu.remembered(last.cpu if last else None)
        self.gpu_memory = gpu.remembered(last.gpu if last else None)
        self._wirer = wirer
        self._discoverer = discoverer
        self._dvfs = dvfs
        self._wiring: Wiring | None = None
        self._facts: HardwareFacts | None = None
        self._hardware = Hardware(NodeHardwareStatus())
        self._log = _log.bind(node=node.name)

    @property
    def in_force(self) -> bool:
        """Whether a cap or throttle of ours may be in force."""
        return self.cpu_memory.in_force or self.gpu_memory.in_force

    @property
    def floor(self) -> Floor:
        """The lowest caps of the node, as far as they are known."""
        return Floor(self._hardware.cpu_limits.min_watts, self._hardware.gpu_limits.min_watts)

    async def tick(self, inputs: Inputs) -> Tick:
        """Look, then carry out the published target once."""
        wiring = await self._rewire(inputs)
        cpu_reading, gpu_reading = await self._read(wiring)
        self._hardware = self._discover(inputs, wiring)
        cpu_result, gpu_result = await asyncio.gather(
            cpu.CpuEnforcer(wiring.cpu, self._dvfs).enforce(
                self._cpu_order(inputs, wiring), self.cpu_memory, cpu_reading, inputs.now
            ),
            gpu.enforce(self._gpu_order(inputs), self.gpu_memory, wiring.gpu),
        )
        self.cpu_memory, self.gpu_memory = cpu_result.memory, gpu_result.memory
        return Tick(
            cpu=cpu_result.report,
            gpu=gpu_result.report,
            cpu_reading=cpu_reading,
            gpu_reading=gpu_reading,
            hardware=self._hardware,
            action=cpu_result.action,
        )

    async def give_back(self, inputs: Inputs) -> ControlReports:
        """Lift what may be in force; `in_force` tells afterwards whether that worked."""
        wiring = await self._rewire(inputs)
        self._hardware = self._discover(inputs, wiring)
        return ControlReports(cpu=await self._give_back_cpu(wiring), gpu=await self._give_back_gpu(wiring))

    async def _rewire(self, inputs: Inputs) -> Wiring:
        old = self._wiring
        if old is not None and old.route == inputs.route:
            return old
        new = self._wirer.wire(inputs.node.name, inputs.route)
        if old is not None and old.cpu_address != new.cpu_address and self.cpu_memory.in_force:
            self._log_move("cpu", old.cpu_address, await self._give_back_cpu(old))
            self.cpu_memory = cpu.CpuMemory()
        if old is not None and old.gpu_address != new.gpu_address and self.gpu_memory.in_force:
            self._log_move("gpu", old.gpu_address, await self._give_back_gpu(old))
            self.gpu_memory = gpu.GpuMemory()
        self._wiring = new
        return new

    async def _give_back_cpu(self, wiring: Wiring) -> ControlReport:
        enforcer = cpu.CpuEnforcer(wiring.cpu, self._dvfs)
        result = await enforcer.give_back(Reason.RESTORED, self._hardware.cpu_limits, self.cpu_memory)
        self.cpu_memory = result.memory
        return result.report

    async def _give_back_gpu(self, wiring: Wiring) -> ControlReport:
        result = await gpu.give_back(Reason.RESTORED, self._hardware.gpu_limits, self.gpu_memory, wiring.gpu)
        self.gpu_memory = result.memory
        return result.report

    def _log_move(self, part: str, address: str, report: ControlReport) -> None:
        log = self._log.warning if report.result is ControlResult.ERROR else self._log.info
        log("controls moved", part=part, given_back_at=address, result=report.result, message=report.message)

    async def _read(self, wiring: Wiring) -> tuple[CpuReading | None, GpuReading | None]:
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

    async def _ask(self, part: str, source: PowerSource) -> Reading | None:
        answer = await source.read()
        if isinstance(answer, Unavailable):
            self._log.debug("no reading", part=part, reason=answer.reason, message=answer.message)
            return None
        return answer

    def _discover(self, inputs: Inputs, wiring: Wiring) -> Hardware:
        if self._facts is None and inputs.published is not None and wiring.capabilities.cpu_telemetry:
            # The backend has not answered this agent yet. Labels alone could say less than it told the agent before.
            return Hardware(inputs.published.model_copy(update={"updated_at": None}))
        facts = self._facts or _NO_FACTS
        return self._discoverer.discover(inputs.node, facts, _capabilities(wiring, facts.can))

    def _cpu_order(self, inputs: Inputs, wiring: Wiring) -> cpu.CpuOrder:
        target, limits = inputs.target, self._hardware.cpu_limits
        return cpu.CpuOrder(
            cap=resolve_cpu_cap(target.cpu, limits) if target else None,
            absent=_absent(inputs),
            limits=limits,
            packages=self._hardware.packages,
            mode=wiring.cpu_mode,
        )

    def _gpu_order(self, inputs: Inputs) -> gpu.GpuOrder:
        target = inputs.target
        return gpu.GpuOrder(
            target=target.gpu.power_cap if target and target.gpu else None,
            absent=_absent(inputs),
            limits=self._hardware.gpu_limits,
            present=self._hardware.gpu_present,
        )


def _absent(inputs: Inputs) -> Reason:
    """Why a subsystem without an intent has none."""
    if inputs.target is not None:
        return Reason.NO_INTENT
    return Reason.LOST_CONTROL if inputs.lost else Reason.NO_PROFILE


def _capabilities(wiring: Wiring, host: Capabilities | None) -> Capabilities:
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
