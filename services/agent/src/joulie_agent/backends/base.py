"""The interface between the agent and hardware, or what stands in for it.

No method raises for an absent device, a missing permission or a peer that does not answer: the result has the reason.
Every method returns within a deadline of its own, and may be called again with the same argument, since the agent
repeats its requests at each tick.

Watts are per CPU package and per GPU where something is set, and sums over the node where something is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import structs

from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import Held

NO_RANGE: Final = WattRange()


@dataclass(frozen=True, slots=True)
class CpuHeld:
    """Controls that may be in force on the CPUs of one node."""

    cap: Held = Held.NO
    throttle: Held = Held.NO

    @property
    def any(self) -> bool:
        """Whether anything may be."""
        return (self.cap, self.throttle) != (Held.NO, Held.NO)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Reason why there is no reading."""

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class ZoneSample:
    """One RAPL package zone."""

    zone: str
    energy_uj: int | None = None
    power_watts: float | None = None
    #: Where the counter wraps around, and the most that is drawn for long; None where the hardware does not report it.
    range_uj: int | None = None
    max_watts: float | None = None


@dataclass(frozen=True, slots=True)
class PowerConstraint:
    """One power limit of a RAPL package zone, whatever set it."""

    zone: str
    #: `long_term`, `short_term` or `peak_power`.
    constraint: str
    limit_watts: float | None = None
    #: Interval over which the limit bounds the average.
    time_window_s: float | None = None


@dataclass(frozen=True, slots=True)
class CoreFrequency:
    """Frequencies of one logical CPU, in kHz."""

    cpu: str
    current_khz: float | None = None
    max_khz: float | None = None


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Reading of one node's CPUs; None is not measured, never zero."""

    #: All packages together.
    power_watts: float | None = None
    #: The throttle that the backend has in force, 0 to 100.
    throttle_pct: float | None = None
    zones: tuple[ZoneSample, ...] = ()
    frequencies: tuple[CoreFrequency, ...] = ()
    #: Number of external values that were overwritten since the backend started.
    overwritten: int | None = None
    #: RAPL domains beside the packages, such as `psys` and `package-0/dram`; no part of `power_watts`.
    domains: tuple[ZoneSample, ...] = ()
    constraints: tuple[PowerConstraint, ...] = ()
    #: How many CPUs of each CPU class are throttled.
    throttled_by_class: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Reading of one GPU, or of all where the source has one value for all."""

    gpu: str
    power_watts: float | None = None
    cap_watts: float | None = None
    #: Joulie's limit of its graphics clock that holds a cap.
    clock_limit_mhz: int | None = None
    #: Why its graphics clock is no higher.
    clock_bound: ClockBound = ClockBound.UNKNOWN
    clock_mhz: int | None = None
    #: Share of the time in which it was busy, in [0, 1].
    busy_share: float | None = None
    #: Joulie's limit of its graphics clock by the class of its holders.
    class_limit_mhz: int | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """Reading of one node's GPUs."""

    #: All GPUs together.
    power_watts: float | None = None
    gpus: tuple[GpuSample, ...] = ()
    #: As for the CPUs.
    overwritten: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """Reading of one node."""

    cpu: CpuReading = field(default_factory=CpuReading)
    gpu: GpuReading = field(default_factory=GpuReading)
    facts: HardwareFacts = field(default_factory=HardwareFacts)


class ReadingSource(Protocol):
    """Source of readings."""

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Read the power of the CPUs only, for a loop with a short interval; frequencies may be left out."""

    async def read(self) -> NodeReading | Unavailable:
        """Read once. A source of CPU values only leaves those of the GPUs empty, and the other way round."""


class Leased(Protocol):
    """Controls that end some time after the last request, where the backend has leases."""

    def hold_for(self, least_s: float) -> None:
        """Have requests from now on hold for at least so many seconds without another, as far as the backend can."""


class CpuActuator(Leased, Protocol):
    """Controls of one node's CPUs.

    A cap and a throttle hold the same CPUs only if the caller wants it: each may release the other, after it is in
    force itself. `ControlOutcome.unreleased` is set where that failed.
    """

    async def set_cpu_cap(self, cap_watts_per_package: float, *, release_throttle: Held = Held.NO) -> ControlOutcome:
        """Cap the power of every package and read the limit back."""

    async def set_dvfs_throttle(
        self, throttle_pct: float, *, release_cap: Held = Held.NO, limits: WattRange = NO_RANGE
    ) -> ControlOutcome:
        """Throttle that share of the frequency policies, 0 to 100; 0 restores their original maximum.

        A cap is released to its original, or to the maximum of `limits` where the original is not known.
        """

    async def tune_cpu(self, *, saving: bool) -> ControlOutcome | None:
        """Set the optional controls while the node is in eco, restore them otherwise; None where none is configured."""

    async def restore_cpu(self, limits: WattRange, held: CpuHeld) -> ControlOutcome:
        """Restore what `held` names, to originals or to the maximum of `limits`; applied where nothing is left."""


class GpuActuator(Leased, Protocol):
    """Controls of one node's GPUs."""

    def gpu_devices(self) -> Sequence[GpuDeviceRange]:
        """Return the devices and their limits; empty where the backend has one limit for all."""

    def gpus_without_limit(self) -> Sequence[str]:
        """Return the GPUs beside `gpu_devices` that the node has, or may have, as they are named to people."""

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> ControlOutcome:
        """Cap each GPU, by UUID; the empty UUID stands for all. `enforced_watts` is the highest one read back."""

    def gpu_clocks(self) -> Mapping[str, ClockRange]:
        """Return the clock ranges, by UUID, of the GPUs that may be limited by clock."""

    async def set_gpu_clocks(self, clocks_mhz: Mapping[str, int]) -> ControlOutcome:
        """Limit the graphics clock of the named GPUs, and restore those of all others."""

    async def restore_gpu(self, limits: WattRange) -> ControlOutcome:
        """Restore caps and clocks to their originals, or caps to the maximum of `limits`."""


class PowerBackend(ReadingSource, CpuActuator, GpuActuator, Protocol):
    """A backend with readings and all controls, such as that of the host."""


def with_release(outcome: ControlOutcome, release: ControlOutcome, held: Held) -> ControlOutcome:
    """Return the outcome of an action with that of the release of the other control."""
    return outcome if is_released(release, held) else structs.replace(outcome, unreleased=release)


def is_released(release: ControlOutcome, held: Held) -> bool:
    """Return whether nothing is left in force after a release with this outcome.

    A backend that has forgotten the node has no controls there either. One that blocks the release never had the
    control in force, unless it confirmed it before.
    """
    if release.applied or release.reason is Reason.NOT_FOUND:
        return True
    never = release.result is ControlResult.BLOCKED and release.reason in {Reason.REFUSED, Reason.NO_INTERFACE}
    return never and held is not Held.YES
