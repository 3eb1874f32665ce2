"""Caps of the devices of a node by its power budget, and the caps that apply beside those of its profile.

Guarantees that the caps add up to no more than the limit, unless the lowest limits of the devices do; that all CPU
packages have one cap; and that of two caps of a device the lower one applies. The packages are served with the GPUs of
performance pods, before those of standard pods and those that are known to be free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from joulie_core.budget.binding import LimitSource, binding_limit
from joulie_core.budget.objects import milliwatts, watts_of
from joulie_core.budget.split import BudgetDevice, place_of, split_budget
from joulie_core.control.caps_resolve import GpuDeviceCap, PctCap, WattCap, WattRange
from joulie_core.held_as import HeldAs

_PACKAGE: Final = "package"
_GPU: Final = "gpu"


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs of one range that get one cap: one GPU by its UUID, or under an empty UUID all behind a backend."""

    uuid: str
    limits: WattRange
    count: int = 1
    held_as: HeldAs = HeldAs.UNKNOWN


@dataclass(frozen=True, slots=True)
class LimitedDevices:
    """The devices of a node that share its limit."""

    packages: int
    #: Of one package.
    cpu: WattRange
    gpus: tuple[GpuGroup, ...] = ()
    #: Why not every device of the node is known to be among them, with a range; empty where all are.
    problem: str = ""

    @property
    def gpu_count(self) -> int:
        """GPUs of all groups."""
        return sum(group.count for group in self.gpus)

    @property
    def places(self) -> Mapping[str, int]:
        """Place of each group of GPUs in the order in which devices are served."""
        return {group.uuid: place_of(group.held_as) for group in self.gpus}

    def reorders(self, before: "LimitedDevices") -> bool:
        """Return whether a group of GPUs that was there before is served at another place now."""
        places = before.places
        return any(places.get(uuid, place) != place for uuid, place in self.places.items())


@dataclass(frozen=True, slots=True)
class DeviceCaps:
    """Caps by a budget, in milliwatts."""

    #: Of each package.
    cpu_mw: int
    #: Of each GPU, by the UUID of its group.
    gpus_mw: Mapping[str, int] = field(default_factory=dict)
    #: Part of the lowest limits that is above the budget.
    shortfall_mw: int = 0

    @property
    def gpu_mw(self) -> int | None:
        """The lowest cap of a GPU; None without GPUs."""
        return min(self.gpus_mw.values(), default=None)


def caps_of_limit(limit_mw: int, devices: LimitedDevices) -> DeviceCaps | None:
    """Return the caps that a limit of the node gives its devices; None where not every device has a known range."""
    spans = _spans(devices)
    if spans is None:
        return None
    cpu, gpus = spans
    parts = [BudgetDevice(f"{_PACKAGE} {index}", *cpu) for index in range(devices.packages)]
    held_as = {group.uuid: group.held_as for group in devices.gpus}
    parts += [
        BudgetDevice(f"{_GPU} {uuid} {index}", *span, held_as[uuid])
        for uuid, count, span in gpus
        for index in range(count)
    ]
    split = split_budget(limit_mw, parts)
    # Of devices that are alike one may get a milliwatt more: the lowest counts for all.
    return DeviceCaps(
        cpu_mw=min(split.limits_mw[f"{_PACKAGE} {index}"] for index in range(devices.packages)),
        gpus_mw={
            uuid: min(split.limits_mw[f"{_GPU} {uuid} {index}"] for index in range(count)) for uuid, count, _ in gpus
        },
        shortfall_mw=split.shortfall_mw,
    )


def caps_of_levels(cpu_mw: int, gpu_mw: int | None, devices: LimitedDevices) -> DeviceCaps | None:
    """Return the caps that one level for all packages and one for all GPUs give, each within the device's range.

    None where not every device has a known range; GPUs without a level get their lowest limit.
    """
    spans = _spans(devices)
    if spans is None:
        return None
    cpu, gpus = spans
    return DeviceCaps(
        cpu_mw=_within(cpu_mw, cpu),
        gpus_mw={uuid: span[0] if gpu_mw is None else _within(gpu_mw, span) for uuid, _, span in gpus},
    )


def lower_caps(caps: DeviceCaps, gpus_mw: Mapping[str, int]) -> DeviceCaps:
    """Return caps with the lower one of each GPU: in force while power moves from some GPUs of a node to others.

    Whichever GPU is set first, no limit is above the one before until all that are lowered are. GPUs that are missing
    in `gpus_mw`, the limits before, have no limit before.
    """
    lower = {uuid: min(cap, gpus_mw.get(uuid, cap)) for uuid, cap in caps.gpus_mw.items()}
    return replace(caps, gpus_mw=lower)


def lower_of(caps: DeviceCaps, others: DeviceCaps) -> DeviceCaps:
    """Return caps with the lower one of each device, of two splits over the same devices."""
    return replace(lower_caps(caps, others.gpus_mw), cpu_mw=min(caps.cpu_mw, others.cpu_mw))


def sum_mw(caps: DeviceCaps, devices: LimitedDevices) -> int:
    """Return the sum of the caps of all devices."""
    counts = {group.uuid: group.count for group in devices.gpus}
    return caps.cpu_mw * devices.packages + sum(cap * counts[uuid] for uuid, cap in caps.gpus_mw.items())


def lowest_mw(devices: LimitedDevices) -> int | None:
    """Return the sum of the lowest limits; None where not every device has a known range."""
    spans = _spans(devices)
    if spans is None:
        return None
    cpu, gpus = spans
    return devices.packages * cpu[0] + sum(count * span[0] for _, count, span in gpus)


def lower_cpu_cap(
    profile: WattCap | PctCap | None, budget_mw: int | None
) -> tuple[WattCap | PctCap | None, LimitSource | None]:
    """Return the cap of a package that applies, and where it comes from; None where neither sets one."""
    if isinstance(profile, PctCap) and budget_mw is None:
        return profile, LimitSource.PROFILE
    # A percentage that no range translates is not known to be lower.
    profile_cap = profile if isinstance(profile, WattCap) else None
    profile_mw = milliwatts(profile_cap.cap_watts) if profile_cap else None
    binding = binding_limit({LimitSource.BUDGET: budget_mw, LimitSource.PROFILE: profile_mw})
    if binding is None:
        return None, None
    if binding.source is LimitSource.PROFILE:
        return profile_cap, binding.source
    watts = watts_of(binding.limit_mw) or 0.0
    return WattCap(watts, watts), binding.source


def lower_gpu_caps(
    profile: Sequence[GpuDeviceCap], budget_mw: Mapping[str, int]
) -> tuple[tuple[GpuDeviceCap, ...], LimitSource | None]:
    """Return the cap of each GPU that applies, and where they come from: the budget where it binds any of them."""
    by_uuid = {device.uuid: device.cap for device in profile}
    caps, sources = [], []
    for uuid in dict.fromkeys([*by_uuid, *budget_mw]):
        cap, source = lower_cpu_cap(by_uuid.get(uuid), budget_mw.get(uuid))
        if cap is not None:
            caps.append(GpuDeviceCap(uuid, cap))
            sources.append(source)
    return tuple(caps), next((each for each in LimitSource if each in sources), None)


_Span = tuple[int, int]


def _spans(devices: LimitedDevices) -> tuple[_Span, list[tuple[str, int, _Span]]] | None:
    """Return the range of a package, and UUID, number and range of each group, in mW; None if one is unknown."""
    cpu = _span(devices.cpu)
    gpus = [(group.uuid, group.count, span) for group in devices.gpus if (span := _span(group.limits)) is not None]
    if devices.problem or cpu is None or devices.packages < 1 or len(gpus) < len(devices.gpus):
        return None
    return cpu, gpus


def _span(limits: WattRange) -> _Span | None:
    low, high = milliwatts(limits.min_watts), milliwatts(limits.max_watts)
    if low is None or high is None or not 0 < high >= low:
        return None
    return low, high


def _within(level_mw: int, span: _Span) -> int:
    return min(max(level_mw, span[0]), span[1])
