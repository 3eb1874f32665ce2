"""The hardware of this machine as a backend, through a client of the actuator.

Descriptions are requested only when a reading shows that the hardware changed; without an answer they stay as they are.
Every request that puts something in force carries its lease, a few ticks.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_actuator.client import HardwareClient
from joulie_actuator.hardware.gpu.driver import MW_PER_WATT
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.outcome import ControlOutcome, blocked, failed
from joulie_actuator.protocol import (
    DescribeCpu,
    DescribeGpu,
    Epp,
    ReadCpu,
    ReadGpu,
    Request,
    Restore,
    SetCpuCap,
    SetCpuTuning,
    SetGpuCaps,
    SetGpuClassClocks,
    SetGpuClocks,
    SetThrottle,
    Subsystem,
)
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import (
    CpuDescription,
    CpuReadings,
    ErrorReply,
    GpuClassClocks,
    GpuDescription,
    GpuReadings,
    Reply,
    RestoreReport,
)
from joulie_actuator.results import join_messages, restore_messages
from joulie_agent.backends.base import (
    NO_RANGE,
    CpuHeld,
    CpuReading,
    GpuReading,
    NodeReading,
    Unavailable,
)
from joulie_agent.backends.host_readings import cpu_reading, gpu_reading
from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.discovery.gpu import describe_gpus, device_ranges, gpus_without_limit, node_gpu
from joulie_agent.discovery.host import describe_cpu, describe_memory
from joulie_agent.energy.counters import HostCounters, read_counters
from joulie_agent.holders.users import read_gpu_users
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.hardware.inventory import Inventory
from joulie_core.holders.records import DeviceUsers, NodeGpu
from joulie_core.kinds.bounds import dropped_figures
from joulie_core.kinds.node_hardware import Capabilities
from joulie_core.kinds.telemetry_profile import Held

HOST: Final = "host"
RAPL: Final = "rapl"
DVFS: Final = "dvfs"
TUNING: Final = "tuning"
#: How many ticks may fail to renew before limits are restored, and the least that this is in seconds: a node
#: that is slow for a moment is not a node without a controller.
LEASE_TICKS: Final = 4
SHORTEST_LEASE_S: Final = 60.0
LONGEST_LEASE_S: Final = 3600.0


def lease_s(interval_s: float) -> float:
    """Return the lease of a cap for a controller that ticks once per interval."""
    return min(LONGEST_LEASE_S, max(SHORTEST_LEASE_S, LEASE_TICKS * interval_s))


@dataclass(frozen=True, slots=True)
class CpuTuning:
    """Optional controls of a node in eco; None leaves one unmanaged."""

    epp: Epp | None = None
    uncore_max_khz: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether there is anything to set."""
        return self.epp is not None or self.uncore_max_khz is not None


NO_TUNING: Final = CpuTuning()


class HostBackend:
    """Backend of one machine.

    Args:
        client: carries out requests on it.
        inventory: known hardware models.
        lease_s: lease of what is put in force.
        tuning: optional controls of the CPUs in eco.
        clock_fallback: whether GPU clocks may be limited.
    """

    def __init__(
        self,
        client: HardwareClient,
        inventory: Inventory,
        *,
        lease_s: float,
        tuning: CpuTuning = NO_TUNING,
        clock_fallback: bool = True,
    ) -> None:
        self._tuning = tuning
        self._client = client
        self._inventory = inventory
        #: Without a power budget, and in use.
        self._shortest_lease_s = self._lease_s = lease_s
        self._clock_fallback = clock_fallback
        self._cpu: CpuDescription | None = None
        self._gpu: GpuDescription | None = None
        #: Why it is not known yet what GPUs there are.
        self._gpu_opening: HardwareFailure | None = None
        self._facts = HardwareFacts()

    async def read(self) -> NodeReading | Unavailable:
        """Read CPUs and GPUs."""
        cpu, gpu = await asyncio.gather(self._client.execute(ReadCpu()), self._client.execute(ReadGpu()))
        if not isinstance(cpu, CpuReadings) and not isinstance(gpu, GpuReadings):
            return _unavailable(cpu)
        await self._describe(cpu, gpu)
        return NodeReading(
            cpu=cpu_reading(cpu) if isinstance(cpu, CpuReadings) else CpuReading(),
            gpu=gpu_reading(gpu) if isinstance(gpu, GpuReadings) else GpuReading(),
            facts=self._facts,
        )

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Read the power of the CPUs."""
        cpu = await self._client.execute(ReadCpu(power_only=True))
        return cpu_reading(cpu) if isinstance(cpu, CpuReadings) else _unavailable(cpu)

    async def read_counters(self) -> HostCounters:
        """Read the energy counters alone."""
        return await read_counters(self._client)

    def hold_for(self, least_s: float) -> None:
        """Take a longer lease of the actuator, up to the longest that it gives."""
        self._lease_s = max(self._shortest_lease_s, min(least_s, LONGEST_LEASE_S))

    async def set_cpu_cap(self, cap_watts_per_package: float, *, release_throttle: Held = Held.NO) -> ControlOutcome:
        """Set RAPL limits, each package within its own range."""
        release = release_throttle is not Held.NO
        return await self._set(
            RAPL,
            SetCpuCap(cap_watts_per_package=cap_watts_per_package, release_throttle=release, lease_s=self._lease_s),
        )

    async def set_dvfs_throttle(
        self,
        throttle_pct: float,
        *,
        release_cap: Held = Held.NO,
        limits: WattRange = NO_RANGE,  # noqa: ARG002 - originals are known here
    ) -> ControlOutcome:
        """Set cpufreq limits."""
        release = release_cap is not Held.NO
        return await self._set(
            DVFS, SetThrottle(throttle_pct=throttle_pct, release_caps=release, lease_s=self._lease_s)
        )

    async def tune_cpu(self, *, saving: bool) -> ControlOutcome | None:
        """Set the energy performance preference and the uncore frequency as configured."""
        if not self._tuning.wanted:
            return None
        wanted = self._tuning if saving else NO_TUNING
        request = SetCpuTuning(epp=wanted.epp, uncore_max_khz=wanted.uncore_max_khz, lease_s=self._lease_s)
        return await self._set(TUNING, request)

    async def restore_cpu(self, limits: WattRange, held: CpuHeld) -> ControlOutcome:  # noqa: ARG002 - originals are known here
        """Restore all CPU controls to their originals, except what CPU classes hold."""
        return await self._restore(Restore(subsystem=Subsystem.CPU, keep_classes=True))

    def gpu_devices(self) -> Sequence[GpuDeviceRange]:
        """Return the GPUs that answer and can be capped."""
        return device_ranges(self._gpu.devices) if self._gpu else ()

    def gpus_without_limit(self) -> Sequence[str]:
        """Return the GPUs of drivers and of the PCI bus that have no power limit, or do not answer."""
        if self._gpu is None:
            return ("not described yet",)
        return gpus_without_limit(self._gpu.devices, self._cpu.facts.gpus_on_bus if self._cpu else None)

    def node_gpus(self) -> Sequence[NodeGpu]:
        """Return every GPU by the names that other programs have for it."""
        return tuple(node_gpu(info) for info in self._gpu.devices if info.uuid) if self._gpu else ()

    async def gpu_users(self) -> Mapping[str, DeviceUsers]:
        """Return what uses each GPU, by UUID, as `read_gpu_users`."""
        return await read_gpu_users(self._client)

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> ControlOutcome:
        """Set limits through NVML or AMD SMI, each GPU within its own range."""
        caps_mw = {uuid: max(1, round(watts * MW_PER_WATT)) for uuid, watts in cap_watts.items() if uuid}
        if not caps_mw:
            if self._gpu_opening is not None:
                return failed(HOST, self._gpu_opening.reason, self._gpu_opening.message)
            return blocked(HOST, Reason.NO_DEVICE, self._why_no_gpu())
        release = not self._clock_fallback  # an agent with other settings may have left some
        return await self._set(HOST, SetGpuCaps(caps_mw=caps_mw, lease_s=self._lease_s, release_clocks=release))

    def gpu_clocks(self) -> Mapping[str, ClockRange]:
        """Return the clock ranges that drivers report; empty if the fallback is turned off."""
        if self._gpu is None or not self._clock_fallback:
            return {}
        return {
            info.uuid: ClockRange(info.lowest_mhz, info.highest_mhz)
            for info in self._gpu.devices
            if info.uuid and info.lowest_mhz and info.highest_mhz
        }

    async def set_gpu_clocks(self, clocks_mhz: Mapping[str, int]) -> ControlOutcome:
        """Set clock limits through NVML or AMD SMI."""
        return await self._set(HOST, SetGpuClocks(clocks_mhz=dict(clocks_mhz), lease_s=self._lease_s))

    async def set_class_clocks(
        self, clocks_mhz: Mapping[str, int], lease_s: float
    ) -> GpuClassClocks | HardwareFailure | ErrorReply:
        """Limit the graphics clock of GPUs by the class of their holders, and end all such limits of others.

        Args:
            clocks_mhz: highest clocks, by UUID.
            lease_s: after which they end by themselves.
        """
        reply = await self._client.execute(SetGpuClassClocks(clocks_mhz=dict(clocks_mhz), lease_s=lease_s))
        if isinstance(reply, GpuClassClocks | HardwareFailure | ErrorReply):
            return reply
        return HardwareFailure(Reason.MALFORMED_REPLY, f"an unexpected reply, {type(reply).__name__}")

    async def restore_gpu(self, limits: WattRange) -> ControlOutcome:  # noqa: ARG002 - originals are known here
        """Restore all GPU controls to their originals, except clocks by the class of holders."""
        return await self._restore(Restore(subsystem=Subsystem.GPU, keep_classes=True))

    async def _set(self, backend: str, request: Request) -> ControlOutcome:
        reply = await self._client.execute(request)
        return reply if isinstance(reply, ControlOutcome) else _failed(backend, reply)

    async def _restore(self, request: Restore) -> ControlOutcome:
        reply = await self._client.execute(request)
        if not isinstance(reply, RestoreReport):
            return _failed(HOST, reply)
        if reply.left:
            message = join_messages(f"{knob.key}: {knob.message or knob.reason}" for knob in reply.left)
            return failed(HOST, reply.left[0].reason or Reason.BACKEND_FAILED, message)
        return ControlOutcome(
            ControlResult.APPLIED, Reason.RESTORED, HOST, join_messages(restore_messages(reply.knobs))
        )

    async def _describe(self, cpu: Reply | HardwareFailure, gpu: Reply | HardwareFailure) -> None:
        """Request descriptions where a reading shows that the hardware changed."""
        known = (self._cpu, self._gpu)
        if isinstance(cpu, CpuReadings) and (self._cpu is None or self._cpu.revision != cpu.revision):
            described = await self._client.execute(DescribeCpu())
            self._cpu = described if isinstance(described, CpuDescription) else self._cpu
        if isinstance(gpu, GpuReadings) and (self._gpu is None or self._gpu.revision != gpu.revision):
            self._take(await self._client.execute(DescribeGpu()))
        if known != (self._cpu, self._gpu):
            self._facts = self._compose()

    def _take(self, described: Reply | HardwareFailure) -> None:
        """Take over a complete description of the GPUs."""
        if not isinstance(described, GpuDescription):
            return
        self._gpu_opening = next((why for why in described.failures.values() if why.reason is Reason.TIMEOUT), None)
        # GPUs whose driver hangs are not gone, and those whose driver is being opened are not absent.
        if self._gpu_opening is None and not (self._gpu and _hangs(described)):
            self._gpu = described

    def _compose(self) -> HardwareFacts:
        cpu, gpu = self._cpu, self._gpu
        can = Capabilities(
            cpu_control=cpu is not None and (cpu.capping is None or cpu.throttling is None) and cpu.journal is None,
            cpu_telemetry=cpu is not None and cpu.reading is None,
            gpu_control=bool(self.gpu_devices()) and gpu is not None and gpu.journal is None,
            gpu_telemetry=gpu is not None and any(info.failure is None for info in gpu.devices),
        )
        with dropped_figures() as dropped:
            facts = HardwareFacts(
                cpu=describe_cpu(
                    cpu.facts,
                    self._inventory,
                    control_available=can.cpu_control,
                    telemetry_available=can.cpu_telemetry,
                )
                if cpu
                else None,
                gpu=describe_gpus(
                    gpu.devices,
                    self._inventory,
                    on_bus=cpu.facts.gpus_on_bus if cpu else None,
                    control_available=can.gpu_control,
                    telemetry_available=can.gpu_telemetry,
                )
                if gpu
                else None,
                memory=describe_memory(cpu.facts) if cpu else None,
                can=can,
            )
        return replace(facts, dropped=tuple(dropped))

    def _why_no_gpu(self) -> str:
        return join_messages(refusal.message for refusal in self._gpu.failures.values()) if self._gpu else ""


def _hangs(description: GpuDescription) -> bool:
    return any(info.failure is not None and info.failure.reason is Reason.TIMEOUT for info in description.devices)


def _unavailable(reply: Reply | HardwareFailure) -> Unavailable:
    outcome = _failed(HOST, reply)
    return Unavailable(outcome.reason, outcome.message)


def _failed(backend: str, reply: Reply | HardwareFailure) -> ControlOutcome:
    match reply:
        case HardwareFailure(reason=Reason.NO_HOST_INTERFACE, message=message):
            return blocked(backend, Reason.NO_HOST_INTERFACE, message)
        case HardwareFailure(reason=reason, message=message):
            return failed(backend, reason, message)
        case ErrorReply(message=message):
            return failed(backend, Reason.BACKEND_FAILED, message)
        case _:
            return failed(backend, Reason.MALFORMED_REPLY, f"an unexpected reply, {type(reply).__name__}")
