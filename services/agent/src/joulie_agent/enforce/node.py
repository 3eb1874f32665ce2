"""Controls one node's hardware and keeps the state of that. Knows no Kubernetes.

One reading and one attempt per tick, CPUs and GPUs side by side. Controls that move to another backend act there first
and are then released at the earlier one, which is retried until it is done. `follow` is the DVFS loop between two
ticks.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuReading, GpuReading, Unavailable
from joulie_agent.backends.factory import BackendFactory, NodeBackends
from joulie_agent.discovery.discoverer import DiscoveredHardware, Discoverer
from joulie_agent.enforce import cpu, gpu
from joulie_agent.enforce.budget import NodeBudget, devices_of, limits_in_force
from joulie_agent.enforce.drawn import DeviceReadings, DrawnMeter
from joulie_agent.enforce.gpu_clocks import ClockInputs
from joulie_agent.enforce.known_hardware import KnownHardware
from joulie_agent.enforce.moves import CpuPlaces, GpuPlaces
from joulie_core.budget.binding import LimitSource
from joulie_core.budget.device_caps import lower_cpu_cap
from joulie_core.budget.in_force import NodeLimitReport
from joulie_core.budget.node_limit import FollowedLimit
from joulie_core.control.caps_resolve import PctCap, WattCap, resolve_cpu_cap
from joulie_core.control.dvfs import DvfsDirection, DvfsSettings
from joulie_core.control.lost_control import Floor
from joulie_core.control.telemetry_route import Route
from joulie_core.control_result import ControlResult
from joulie_core.held_as import HeldAs
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import ControlReport, ControlReports
from joulie_core.node import Node

_log = structlog.get_logger()


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
    #: The limit of the node's power budget; None without one.
    limit: FollowedLimit | None = None
    #: As what GPUs are held, by UUID; others are not known.
    held: Mapping[str, HeldAs] = field(default_factory=dict)
    #: Whether this tick measures what the node has drawn since the last one that did.
    samples: bool = False


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
    #: An earlier backend was restored, which may be the current one by another name, or devices are yet to get what
    #: others have given up.
    again: bool
    #: What came of the limit of the node's power budget; None without one.
    limit: NodeLimitReport | None = None
    #: What the cap of each subsystem comes from, by its name; those without a cap are left out.
    sources: Mapping[str, LimitSource] = field(default_factory=dict)
    #: Mean power of all CPU packages and GPUs since the last sample, in milliwatts; None where this is none, or a
    #: device was not read.
    drawn_mw: int | None = None

    @property
    def failed(self) -> bool:
        """Whether something that should have worked did not."""
        return ControlResult.ERROR in {self.cpu.result, self.gpu.result}


class NodeControl:
    """The controls of one node.

    Args:
        last: the last reports about the node, from this agent or the one before.
        factory: makes backends.
        discoverer: discovers what the node is made of.
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
        self._log = _log.bind(node=node.name)
        self._cpu, self._gpu = CpuPlaces(self._log), GpuPlaces(self._log)
        self._last = last or ControlReports()
        self._factory = factory
        self._known = KnownHardware(discoverer, self._log)
        self._dvfs = dvfs
        self._backends: NodeBackends | None = None
        self._intent: cpu.CpuIntent | None = None
        self._hardware = DiscoveredHardware(NodeHardwareStatus())
        self._budget = NodeBudget()
        self._drawn = DrawnMeter()

    @property
    def cpu_state(self) -> cpu.CpuControlState:
        """State of the CPU enforcement."""
        return self._cpu.state

    @property
    def in_force(self) -> bool:
        """Whether a cap or throttle of Joulie's may be in force."""
        return self._cpu.in_force or self._gpu.in_force

    @property
    def looping(self) -> bool:
        """Whether the DVFS loop holds the power, from readings that are fresh whenever they are requested."""
        return self._sampled() is not None

    @property
    def floor(self) -> Floor:
        """The lowest caps of the node, as far as they are known."""
        return Floor(self._hardware.cpu_limits.min_watts, self._hardware.gpu_limits.min_watts)

    async def tick(self, inputs: Inputs) -> Tick:
        """Read, then carry out the published target once."""
        backends = self._build(inputs)
        clock = asyncio.get_running_loop().time
        started_s = clock()
        cpu_reading, gpu_reading = await self._known.read(backends)
        # A source may be slow: what a limit is meanwhile counts from here on.
        now_s = inputs.now + clock() - started_s
        self._hardware = self._known.discover(inputs.node, inputs.published, backends)
        devices = devices_of(self._hardware, self._known.facts, backends, inputs.held)
        drawn_mw = None
        if inputs.samples:
            read = DeviceReadings(
                cpu_reading if backends.cpu_source_is_live else None,
                gpu_reading if backends.gpu_source_is_live else None,
                from_s=inputs.now,
                to_s=now_s,
            )
            drawn_mw = self._drawn.sample(read, devices)
        in_force = limits_in_force(gpu_reading)
        self._budget = budget = NodeBudget.of(inputs.limit, devices, self._budget, in_force, now_s=now_s)
        cap, source = self._cpu_cap(inputs, budget)
        self._intent = intent = self._cpu_intent(inputs, backends, cap)
        gpu_intent = self._gpu_intent(inputs, budget)
        budget.take_leases(backends)
        cpu_result, gpu_result = await asyncio.gather(
            cpu.CpuEnforcer(backends.cpu, self._dvfs).enforce(intent, self._cpu.state, cpu_reading, inputs.now),
            gpu.enforce(gpu_intent, self._gpu.state, backends.gpu, ClockInputs(gpu_reading, inputs.now)),
        )
        self._cpu.state, self._gpu.state = cpu_result.state, gpu_result.state
        tuned = await backends.cpu.tune_cpu(saving=_saves_power(inputs))
        released = await self._release_left()
        sources = {"cpu": source, "gpu": gpu_result.source}
        cpu_report = budget.named_in(_with_tuning(cpu_result.report, tuned), source)
        limit = budget.report(cpu_result.cap, gpu_result.caps, now_s)
        self._budget = budget.after(limit)
        return Tick(
            cpu=self._cpu.named_in(cpu_report, inputs.route),
            gpu=self._gpu.named_in(budget.named_in(gpu_result.report, gpu_result.source), inputs.route),
            again=released or budget.is_moving,
            limit=limit,
            sources={name: each for name, each in sources.items() if each is not None},
            cpu_reading=cpu_reading,
            gpu_reading=gpu_reading,
            hardware=self._hardware,
            action=cpu_result.action,
            drawn_mw=drawn_mw,
        )

    async def follow(self, now: float) -> DvfsDirection | None:
        """Take one sample of the DVFS loop; return the action that was carried out."""
        sampled = self._sampled()
        if sampled is None:
            return None
        backends, intent = sampled
        answer = await backends.cpu_source.read_cpu()
        reading = None if isinstance(answer, Unavailable) else answer
        enforcer = cpu.CpuEnforcer(backends.cpu, self._dvfs)
        self._cpu.state, action = await enforcer.follow(intent, self._cpu.state, reading, now)
        return action

    def _sampled(self) -> tuple[NodeBackends, cpu.CpuIntent] | None:
        """Return what a sample of the DVFS loop needs; None where it does not hold the power, or has no live source."""
        backends, intent = self._backends, self._intent
        if backends is None or intent is None or not isinstance(intent.cap, WattCap):
            return None
        holds = self.cpu_state.mode is cpu.CpuMode.DVFS and backends.cpu_source_is_live
        return (backends, intent) if holds else None

    async def restore(self, inputs: Inputs) -> ControlReports:
        """Restore what may be in force; `in_force` is then True where that did not work."""
        backends = self._build(inputs)
        self._hardware = self._known.discover(inputs.node, inputs.published, backends)
        cpu_report = await self._cpu.restore(backends, self._hardware.cpu_limits)
        gpu_report = await self._gpu.restore(backends, self._hardware.gpu_limits)
        await self._release_left()
        return ControlReports(
            cpu=self._cpu.named_in(cpu_report, inputs.route), gpu=self._gpu.named_in(gpu_report, inputs.route)
        )

    def _build(self, inputs: Inputs) -> NodeBackends:
        """Return the backends of the route; places that it leaves are set aside until they have been released."""
        old = self._backends
        if old is not None and old.route == inputs.route:
            return old
        build = partial(self._factory.build, inputs.node.name)
        self._backends = new = build(inputs.route)
        if old is None:
            self._cpu.recall(self._last.cpu, inputs.route, build)
            self._gpu.recall(self._last.gpu, inputs.route, build)
        else:
            self._cpu.leave(old, self._hardware.cpu_limits)
            self._gpu.leave(old, self._hardware.gpu_limits)
        self._cpu.move_to(new)
        self._gpu.move_to(new)
        return new

    async def _release_left(self) -> bool:
        """Restore what the controls have left in force elsewhere; return whether that is done anywhere."""
        cpu_released = await self._cpu.release_left(self._hardware.cpu_limits)
        gpu_released = await self._gpu.release_left(self._hardware.gpu_limits)
        return cpu_released or gpu_released

    def _cpu_cap(self, inputs: Inputs, budget: NodeBudget) -> tuple[WattCap | PctCap | None, LimitSource | None]:
        """Return the cap of a package that applies, of profile and budget, and where it comes from."""
        target, limits = inputs.target, self._hardware.cpu_limits
        return lower_cpu_cap(resolve_cpu_cap(target.cpu, limits) if target else None, budget.cpu_mw)

    def _cpu_intent(self, inputs: Inputs, backends: NodeBackends, cap: WattCap | PctCap | None) -> cpu.CpuIntent:
        return cpu.CpuIntent(
            cap=cap,
            absent=_absent(inputs),
            limits=self._hardware.cpu_limits,
            packages=self._hardware.packages,
            mode=backends.cpu_mode,
        )

    def _gpu_intent(self, inputs: Inputs, budget: NodeBudget) -> gpu.GpuIntent:
        target = inputs.target
        return gpu.GpuIntent(
            target=target.gpu.power_cap if target and target.gpu else None,
            absent=_absent(inputs),
            limits=self._hardware.gpu_limits,
            present=self._hardware.gpu_present,
            budget_mw=budget.gpus_mw,
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


def _absent(inputs: Inputs) -> Reason:
    """Reason why a subsystem without an intent has none."""
    if inputs.target is not None:
        return Reason.NO_INTENT
    return Reason.LOST_CONTROL if inputs.lost else Reason.NO_PROFILE
