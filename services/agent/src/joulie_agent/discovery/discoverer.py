"""Makes NodeHardware from the facts of the backend, completed from labels and the inventory.

The same inputs give the same status, so that NodeHardware changes only when the hardware does. Values that move by
themselves are left out: the cap in force (`gpu.currentCapWatts`) is in the TelemetryProfile's report. A cap range is
the backend's or the model's own, never that of a generic model: no cap rests on a guess. A node is published as without
GPUs only if its backend has searched for them, and `quality.facts` names the origin of each fact.
"""

from dataclasses import dataclass, replace
from typing import Final

from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.control.caps_resolve import WattRange
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import CpuView, GpuView, HardwareView, resolve_view
from joulie_core.kinds.node_hardware import (
    Capabilities,
    CpuCapRange,
    CpuHardware,
    Exactness,
    FactOrigins,
    FrequencyLandmarks,
    GpuCapRange,
    GpuHardware,
    HardwareQuality,
    InventoryMatch,
    MemoryHardware,
    NodeHardwareStatus,
    Quality,
)
from joulie_core.node import Node

_UNKNOWN_CPU: Final = "the CPU model is not known: set the label joulie.io/hw.cpu-model"
_GUESSED: Final = "figures are those of a similar or generic model"


@dataclass(frozen=True, slots=True)
class DiscoveredHardware:
    """One node's hardware as published, and the figures that enforcement takes from it."""

    status: NodeHardwareStatus

    @property
    def cpu_limits(self) -> WattRange:
        """Cap range of one package."""
        found = self.status.cpu.cap_range if self.status.cpu else None
        return WattRange(found.max_watts_per_socket or None, found.min_watts_per_socket) if found else WattRange()

    @property
    def gpu_limits(self) -> WattRange:
        """Cap range of one GPU."""
        found = self.status.gpu.cap_range_per_gpu if self.status.gpu else None
        return WattRange(found.max_watts or None, found.min_watts) if found else WattRange()

    @property
    def packages(self) -> int:
        """CPU packages; at least one."""
        return max(1, self.status.cpu.sockets) if self.status.cpu else 1

    @property
    def gpu_present(self) -> bool:
        """Whether the node is known to have GPUs."""
        return self.status.gpu is not None and self.status.gpu.present is True


@dataclass(frozen=True, slots=True)
class _CacheKey:
    """Everything that a result depends on."""

    labels: tuple[tuple[str, str], ...]
    allocatable: tuple[tuple[str, str], ...]
    capacity: tuple[tuple[str, str], ...]
    facts: HardwareFacts
    capabilities: Capabilities


class Discoverer:
    """Combines the facts of a node; keeps the last result of each node, since it is called at every tick."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._answers: dict[str, tuple[_CacheKey, DiscoveredHardware]] = {}

    def discover(self, node: Node, facts: HardwareFacts, capabilities: Capabilities) -> DiscoveredHardware:
        """Return the hardware of a node; the publisher sets `updated_at`."""
        question = _CacheKey(
            labels=tuple(node.labels.items()),
            allocatable=tuple(node.allocatable.items()),
            capacity=tuple(node.capacity.items()),
            facts=without_volatile_fields(facts),
            capabilities=capabilities,
        )
        known = self._answers.get(node.name)
        if known is not None and known[0] == question:
            return known[1]
        # Models that were copied with changes have not been validated, and with that not been cut to their bounds.
        answer = DiscoveredHardware(NodeHardwareStatus.model_validate(self._status(node, question).model_dump()))
        self._answers[node.name] = (question, answer)
        return answer

    def forget(self, node: str) -> None:
        """Drop the result of a node that has left."""
        self._answers.pop(node, None)

    def _status(self, node: Node, question: _CacheKey) -> NodeHardwareStatus:
        facts, can = question.facts, question.capabilities
        reported = NodeHardwareStatus(cpu=facts.cpu, gpu=facts.gpu, memory=facts.memory)
        view = resolve_view(node, reported, self._inventory)
        return NodeHardwareStatus(
            cpu=self._cpu(facts.cpu, view.cpu, can) if view.cpu else facts.cpu,
            gpu=self._gpu(facts.gpu, view.gpu, can) if view.gpu else _without_count(facts.gpu),
            memory=MemoryHardware(total_bytes=view.memory_bytes) if view.memory_bytes else None,
            inventory=InventoryMatch(
                cpu=view.cpu.spec.key if view.cpu else "",
                gpu=view.gpu.spec.key if view.gpu else "",
                exactness=view.exactness,
            ),
            capabilities=can,
            quality=self._quality(view, facts.dropped),
        )

    def _cpu(self, reported: CpuHardware | None, view: CpuView, can: Capabilities) -> CpuHardware:
        reported = reported or CpuHardware()
        limits = CpuCapRange(
            min_watts_per_socket=view.min_watts_per_socket, max_watts_per_socket=view.max_watts_per_socket
        )
        known = view.spec.key in self._inventory.cpus
        return reported.model_copy(
            update={
                "model": view.model,
                "vendor": view.vendor,
                "sockets": view.sockets,
                "total_cores": view.total_cores,
                "cores_per_socket": reported.cores_per_socket or view.total_cores // view.sockets,
                "cap_range": limits if known or reported.cap_range else None,
                "landmarks": reported.landmarks
                or (FrequencyLandmarks(base_freq_mhz=round(view.base_ghz * 1000)) if known else None),
                "control_available": can.cpu_control,
                "telemetry_available": can.cpu_telemetry,
            }
        )

    def _gpu(self, reported: GpuHardware | None, view: GpuView, can: Capabilities) -> GpuHardware:
        reported = reported or GpuHardware()
        limits = GpuCapRange(min_watts=view.min_watts, max_watts=view.max_watts, default_watts=view.default_watts)
        known = view.spec.key in self._inventory.gpus
        return reported.model_copy(
            update={
                "present": True,
                "model": view.model,
                "vendor": view.vendor,
                "count": view.count,
                "cap_range_per_gpu": limits if known or reported.cap_range_per_gpu else None,
                "control_available": can.gpu_control,
                "telemetry_available": can.gpu_telemetry,
            }
        )

    def _quality(self, view: HardwareView, dropped: tuple[str, ...]) -> HardwareQuality:
        origins = FactOrigins(cpu=view.origins.cpu, gpu=view.origins.gpu, memory=view.origins.memory)
        overall, warnings = self._trust(view)
        if (view.conflicts or dropped) and overall is Quality.EXACT:
            overall = Quality.HEURISTIC
        return HardwareQuality(overall=overall, facts=origins, warnings=(*view.conflicts, *warnings, *dropped))

    def _trust(self, view: HardwareView) -> tuple[Quality, tuple[str, ...]]:
        if view.cpu is None:
            return Quality.UNAVAILABLE, (_UNKNOWN_CPU,)
        if view.cpu.spec.key not in self._inventory.cpus:
            return Quality.HEURISTIC, (_UNKNOWN_CPU,)
        return (Quality.EXACT, ()) if view.exactness is Exactness.EXACT else (Quality.HEURISTIC, (_GUESSED,))


def _without_count(reported: GpuHardware | None) -> GpuHardware | None:
    """Leave out a count that contradicts a search which found no GPU."""
    if reported is None or reported.present is not False:
        return reported
    return reported.model_copy(update={"count": 0, "devices": ()})


def without_volatile_fields(facts: HardwareFacts) -> HardwareFacts:
    """Leave out what changes while the hardware stays the same."""
    if facts.gpu is None or facts.gpu.current_cap_watts is None:
        return facts
    return replace(facts, gpu=facts.gpu.model_copy(update={"current_cap_watts": None}))
