"""The power budget of a node at one tick: its caps of the devices, and what came of them.

Guarantees that a device which is missing, or whose number or range is a guess, leaves the limit refused: an unknown
device draws what it likes. Source: docs/decisions/0053-budgets-on-a-node.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import NO_RANGE, GpuReading
from joulie_agent.backends.factory import NodeBackends
from joulie_agent.backends.host import LONGEST_LEASE_S
from joulie_agent.discovery.discoverer import DiscoveredHardware
from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.budget.binding import LimitSource
from joulie_core.budget.device_caps import (
    DeviceCaps,
    GpuGroup,
    LimitedDevices,
    caps_of_levels,
    caps_of_limit,
    lower_caps,
    lower_of,
    sum_mw,
)
from joulie_core.budget.in_force import NO_DEVICES, HeldPower, NodeLimitReport, judge_limit
from joulie_core.budget.node_limit import FollowedLimit
from joulie_core.budget.objects import milliwatts, watts_of
from joulie_core.held_as import HeldAs
from joulie_core.kinds.node_hardware import FactOrigins, GpuHardware, Origin
from joulie_core.kinds.telemetry_profile import ControlReport

#: GPUs that a message names.
_MOST_NAMED: Final = 4
_CERTAIN: Final = frozenset({Origin.SEEN, Origin.LABELLED})
_NO_DEVICES: Final = LimitedDevices(0, NO_RANGE)
#: Of a node whose holders are not followed.
NOT_FOLLOWED: Final[Mapping[str, HeldAs]] = {}


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """The limit of one node at one tick, split over its devices."""

    limit: FollowedLimit | None = None
    devices: LimitedDevices = _NO_DEVICES
    #: None: no caps by a budget.
    caps: DeviceCaps | None = None
    #: By the limit and the devices alone; `caps` are below it while power moves between devices.
    split: DeviceCaps | None = None
    #: Sum of what the limit itself gives, as it was read back last or would be; None where that is not known.
    full_mw: int | None = None
    #: Whether `caps` are of the fallback.
    falls_back: bool = False

    @classmethod
    def of(
        cls,
        limit: FollowedLimit | None,
        devices: LimitedDevices,
        before: "NodeBudget",
        gpus_mw: Mapping[str, int],
        *,
        now_s: float,
    ) -> Self:
        """Split a limit over the devices of a node.

        Args:
            limit: the limit; None without one.
            devices: of the node.
            before: what was split last.
            gpus_mw: limits of GPUs that are in force, by UUID, as far as they were read.
            now_s: the clock of the limit's lease.
        """
        if limit is None:
            return cls()
        if not limit.applies(now_s):
            return cls(limit, devices)
        full = _full(limit, devices)
        caps = split = _split(limit, full, devices, now_s)
        if split is not None and before.split is None:
            # What an earlier agent has set may be another split.
            caps = lower_caps(split, gpus_mw)
        elif split is not None and before.split is not None and devices.reorders(before.devices):
            caps = lower_caps(split, before.split.gpus_mw)
        full_mw = None if full is None else sum_mw(full, devices)
        if before.full_mw is not None and before.limit is not None and before.limit.is_of(limit):
            full_mw = before.full_mw
        return cls(limit, devices, caps, split, full_mw, limit.falls_back(now_s))

    @property
    def is_moving(self) -> bool:
        """Whether some devices are yet to get what others have given up."""
        return self.caps != self.split

    @property
    def cpu_mw(self) -> int | None:
        """Cap of each package; None without one."""
        return self.caps.cpu_mw if self.caps else None

    @property
    def gpus_mw(self) -> Mapping[str, int]:
        """Cap of each GPU that has one, by UUID."""
        return self.caps.gpus_mw if self.caps else {}

    def take_leases(self, backends: NodeBackends) -> None:
        """Have what is set hold for the lease of the limit where this agent ends, and as long as can be if it is kept.

        A dead agent cannot be told from one that has lost the API server: until then the operator counts the limit.
        """
        least_s = 0.0
        if self.caps is not None and self.limit is not None:
            least_s = LONGEST_LEASE_S if self.limit.keeps else self.limit.lease_s
        backends.cpu.hold_for(least_s)
        backends.gpu.hold_for(least_s)

    def report(self, cpu: ControlOutcome | None, gpu: ControlOutcome | None, now_s: float) -> NodeLimitReport | None:
        """Return what came of the limit, from what setting the caps has answered; None without a limit."""
        if self.limit is None:
            return None
        return judge_limit(
            self.limit,
            self.devices,
            self.caps,
            cpu=_held("CPU", cpu, self.devices.packages),
            gpu=_held("GPU", gpu, self.devices.gpu_count) if self.devices.gpus else NO_DEVICES,
            now_s=now_s,
            full_mw=self.full_mw,
        )

    def after(self, report: NodeLimitReport | None) -> "NodeBudget":
        """Return the budget with what was read back of its limit, if the limit itself was in force."""
        if report is None or report.in_force_mw is None or self.falls_back or self.is_moving:
            return self
        return replace(self, full_mw=report.in_force_mw)

    def named_in(self, report: ControlReport, source: LimitSource | None) -> ControlReport:
        """Add to a report which of profile and budget sets the cap, where the budget sets one too."""
        if self.caps is None or self.limit is None or source is None:
            return report
        asked = watts_of(self.limit.ask.limit_mw)
        whole = "" if asked is None else f" of {asked:g} W for the node"
        if self.limit.hold is not None and self.falls_back:
            whole += f", at its fallback of {watts_of(self.limit.hold.fallback_mw):g} W"
        note = {
            LimitSource.BUDGET: f"capped by the power budget{whole}",
            LimitSource.PROFILE: f"capped by the profile, below the power budget{whole}",
        }[source]
        message = "; ".join(part for part in (note, report.message) if part)[:1024]
        return report.model_copy(update={"message": message, "cap_source": source.value})


def _full(limit: FollowedLimit, devices: LimitedDevices) -> DeviceCaps | None:
    """Return the caps that the limit itself gives; None where it is not known, or cannot be split."""
    if limit.levels is not None:
        return caps_of_levels(limit.levels.cpu_mw, limit.levels.gpu_mw, devices)
    return None if limit.ask.limit_mw is None else caps_of_limit(limit.ask.limit_mw, devices)


def _split(limit: FollowedLimit, full: DeviceCaps | None, devices: LimitedDevices, now_s: float) -> DeviceCaps | None:
    """Return the caps that count now: of the limit, or of its fallback."""
    if limit.hold is None or not limit.falls_back(now_s):
        return full
    fallback = caps_of_limit(limit.hold.fallback_mw, devices)
    return fallback if fallback is None or full is None else lower_of(fallback, full)


def devices_of(
    hardware: DiscoveredHardware,
    facts: HardwareFacts,
    backends: NodeBackends,
    held: Mapping[str, HeldAs] = NOT_FOLLOWED,
) -> LimitedDevices:
    """Return the devices that share the limit of a node.

    Args:
        hardware: of the node, with what labels and the inventory tell.
        facts: what its sources have told.
        backends: of the node.
        held: as what GPUs are held, by UUID; others are not known.
    """
    status = hardware.status
    groups = tuple(
        GpuGroup(device.uuid, device.limits, held_as=held.get(device.uuid, HeldAs.UNKNOWN))
        for device in backends.gpu.gpu_devices()
    )
    if not groups and hardware.gpu_present and status.gpu is not None:
        groups = (GpuGroup("", hardware.gpu_limits, status.gpu.count),)
    return LimitedDevices(
        packages=hardware.packages,
        cpu=hardware.cpu_limits,
        gpus=groups,
        problem="; ".join(_problems(hardware, facts, backends, groups)),
    )


def limits_in_force(reading: GpuReading | None) -> dict[str, int]:
    """Return the limits of GPUs in milliwatts, by UUID, as far as they were read."""
    read = {each.gpu: milliwatts(each.cap_watts) for each in reading.gpus} if reading else {}
    return {uuid: limit_mw for uuid, limit_mw in read.items() if limit_mw is not None}


def _problems(
    hardware: DiscoveredHardware, facts: HardwareFacts, backends: NodeBackends, groups: tuple[GpuGroup, ...]
) -> list[str]:
    """Return why not every device of the node is known to be among those that share the limit."""
    status, problems = hardware.status, []
    origins = (status.quality.facts if status.quality else None) or FactOrigins()
    if status.cpu is None or not (origins.cpu in _CERTAIN or (facts.cpu and facts.cpu.sockets)):
        problems.append("the number of CPU packages is not known")
    if not (origins.gpu in _CERTAIN or _counted(facts.gpu)):
        problems.append(
            "the number of GPUs is not known (the label joulie.io/hw.gpu-count=0 states that there are none)"
        )
    elif status.gpu is not None and hardware.gpu_present:
        limited = sum(group.count for group in groups)
        if status.gpu.count != limited:
            problems.append(f"{status.gpu.count} GPUs, of which {limited} can be limited")
    if without := backends.gpu.gpus_without_limit():
        more = f" and {len(without) - _MOST_NAMED} more" if len(without) > _MOST_NAMED else ""
        problems.append(f"without a power limit: {', '.join(without[:_MOST_NAMED])}{more}")
    return problems


def _counted(gpu: GpuHardware | None) -> bool:
    """Return whether a source has looked for GPUs, and counted those that there are."""
    return gpu is not None and (gpu.present is False or (gpu.present is True and gpu.count > 0))


def _held(subsystem: str, outcome: ControlOutcome | None, count: int) -> HeldPower:
    """Return the sum that was read back.

    Args:
        subsystem: its name in messages.
        outcome: of setting the caps; None where none was set.
        count: devices; a backend with one cap for all tells that of one.
    """
    if outcome is None:
        return HeldPower(None, f"{subsystem}: held by a loop, which is no limit")
    if outcome.applied or outcome.reason is Reason.HELD_BY_FIRMWARE:
        if outcome.total_watts is not None:
            return HeldPower(milliwatts(outcome.total_watts))
        if outcome.enforced_watts is not None:
            return HeldPower(milliwatts(outcome.enforced_watts * count))
    return HeldPower(None, f"{subsystem}: {outcome.result} {outcome.message or outcome.reason}")
