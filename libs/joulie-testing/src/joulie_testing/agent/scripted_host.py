"""A host backend with scripted readings and outcomes, and the inputs of a node's tick for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joulie_actuator.outcome import ControlOutcome, applied
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuHeld, CpuReading, GpuReading, NodeReading, Unavailable
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.enforce.node import Inputs, NodeControl
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.dvfs import DvfsMode, DvfsSettings
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control.telemetry_route import Route
from joulie_core.control_result import ControlResult
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import Capabilities, CpuCapRange, CpuHardware, GpuCapRange, GpuHardware
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap, GpuTarget, NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import (
    ControlReports,
    CpuControl,
    GpuControl,
    SourceType,
    TelemetrySource,
)
from joulie_core.names import NodeName
from joulie_core.node import Node

CPU = CpuHardware(sockets=2, cap_range=CpuCapRange(min_watts_per_socket=60, max_watts_per_socket=240))
GPU = GpuHardware(present=True, count=2, cap_range_per_gpu=GpuCapRange(min_watts=150, max_watts=400))
ALL_CAPABILITIES = Capabilities(cpu_control=True, gpu_control=True, cpu_telemetry=True, gpu_telemetry=True)
READING = NodeReading(
    CpuReading(power_watts=300), GpuReading(power_watts=500), HardwareFacts(cpu=CPU, gpu=GPU, can=ALL_CAPABILITIES)
)
NO_ANSWER = Unavailable(Reason.TIMEOUT, "no answer")
NODE = Node(name=NodeName("n1"), labels={})
RESTORED = ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, "host")


@dataclass
class ScriptedHost:
    """Applies everything unless an outcome is set, and records what was requested of it."""

    reading: NodeReading | Unavailable = READING
    cap: ControlOutcome | None = None
    gpu: ControlOutcome | None = None
    tuned: ControlOutcome | None = None
    restored: ControlOutcome = RESTORED
    #: Of GPUs that may be limited by clock.
    clock_ranges: Mapping[str, ClockRange] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    saving: list[bool] = field(default_factory=list)

    def hold_for(self, least_s: float) -> None:
        """Do nothing: no lease ends."""

    async def read(self) -> NodeReading | Unavailable:
        """Return the reading."""
        return self.reading

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Return the reading of the CPUs."""
        return self.reading if isinstance(self.reading, Unavailable) else self.reading.cpu

    async def set_cpu_cap(self, cap_watts_per_package: float, **_release: object) -> ControlOutcome:
        """Record the cap."""
        self.calls.append(("cap", cap_watts_per_package))
        return self.cap or applied("rapl", enforced_watts=cap_watts_per_package)

    async def set_dvfs_throttle(self, throttle_pct: float, **_release: object) -> ControlOutcome:
        """Record the throttle."""
        self.calls.append(("throttle", throttle_pct))
        return applied("dvfs")

    async def tune_cpu(self, *, saving: bool) -> ControlOutcome | None:
        """Record whether power is to be saved."""
        self.saving.append(saving)
        return self.tuned

    async def restore_cpu(self, limits: WattRange, _held: CpuHeld) -> ControlOutcome:
        """Record the maximum of the limits."""
        self.calls.append(("restore cpu", limits.max_watts))
        return self.restored

    def gpu_devices(self) -> tuple[GpuDeviceRange, ...]:
        """Return none: one limit for all."""
        return ()

    def gpus_without_limit(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> ControlOutcome:
        """Record the caps."""
        self.calls.append(("gpu", dict(cap_watts)))
        return self.gpu or applied("nvml", enforced_watts=max(cap_watts.values()))

    def gpu_clocks(self) -> Mapping[str, ClockRange]:
        """Return the ranges."""
        return self.clock_ranges

    async def set_gpu_clocks(self, clocks_mhz: Mapping[str, int]) -> ControlOutcome:
        """Record the limits."""
        self.calls.append(("clocks", dict(clocks_mhz)))
        return applied("nvml")

    async def restore_gpu(self, limits: WattRange) -> ControlOutcome:
        """Record the maximum of the limits."""
        self.calls.append(("restore gpu", limits.max_watts))
        return self.restored


def node_control(factory: BackendFactory, last: ControlReports | None = None) -> NodeControl:
    """Return the control of a node, after an agent that ended with the given reports."""
    settings = DvfsSettings(mode=DvfsMode.STEPPED)
    return NodeControl(NODE, last, factory=factory, discoverer=Discoverer(Inventory.load()), dvfs=settings)


def host_route(mode: str = "auto", **parts: Any) -> Route:
    """Return a route to the host, with other parts where given."""
    source = TelemetrySource(type=SourceType.HOST)
    controls: dict[str, Any] = {
        "cpu_source": source,
        "gpu_source": source,
        "cpu_control": CpuControl.model_validate({"type": "host", "mode": mode}),
        "gpu_control": GpuControl.model_validate({"type": "host"}),
    }
    return Route(**(controls | parts))


def capped_target(
    profile: str = "eco", *, draining: bool = False, cpu: bool = True, gpu: bool = True
) -> NodePowerProfileSpec:
    """Return a target of 100 W per package and 200 W per GPU."""
    spec = NodePowerProfileSpec.model_validate({"node_name": NODE.name, "profile": profile, "draining": draining})
    caps = {
        "cpu": CpuTarget(package_power_cap_watts=100) if cpu else None,
        "gpu": GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=200)) if gpu else None,
    }
    return spec.model_copy(update=caps)


INPUTS = Inputs(node=NODE, route=host_route(), target=capped_target(), lost=False, published=None, now=0.0)
