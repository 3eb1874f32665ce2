"""The one surface between the agent and hardware, or what stands in for it.

Promises values: no method raises for a device that is absent, a permission that is missing or a peer that does not
answer; it says so in its result. Every method returns within a deadline of its own, so that the caller needs none.
Every method may be called again with the same argument: the agent re-asserts what it wants at each tick.

Watts are per CPU package and per GPU where something is set, and sums over the node where something is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import structs

from joulie_agent.discovery.facts import HardwareFacts
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import Held

NO_RANGE: Final = WattRange()


@dataclass(frozen=True, slots=True)
class CpuHeld:
    """What may be in force on the CPUs of one node."""

    cap: Held = Held.NO
    throttle: Held = Held.NO

    @property
    def any(self) -> bool:
        """Whether anything may be."""
        return (self.cap, self.throttle) != (Held.NO, Held.NO)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A reading that could not be had."""

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class ZoneSample:
    """One RAPL package zone."""

    zone: str
    energy_uj: float | None = None
    power_watts: float | None = None


@dataclass(frozen=True, slots=True)
class PowerConstraint:
    """One power limit of a RAPL package zone, whoever set it."""

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
    """The CPUs of one node; None is "not measured" and never zero."""

    #: All packages together.
    power_watts: float | None = None
    #: The throttle that the backend has in force, 0 to 100.
    throttle_pct: float | None = None
    zones: tuple[ZoneSample, ...] = ()
    frequencies: tuple[CoreFrequency, ...] = ()
    #: How often a value of somebody else was written over since the backend began.
    overwritten: int | None = None
    #: RAPL domains beside the packages, such as `psys` and `package-0/dram`; no part of `power_watts`.
    domains: tuple[ZoneSample, ...] = ()
    constraints: tuple[PowerConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU, or all of them where the source does not tell them apart."""

    gpu: str
    power_watts: float | None = None
    cap_watts: float | None = None
    #: A limit of ours on its graphics clock.
    clock_limit_mhz: int | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The GPUs of one node."""

    #: All GPUs together.
    power_watts: float | None = None
    gpus: tuple[GpuSample, ...] = ()
    #: As for the CPUs.
    overwritten: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """One look at a node."""

    cpu: CpuReading = field(default_factory=CpuReading)
    gpu: GpuReading = field(default_factory=GpuReading)
    facts: HardwareFacts = field(default_factory=HardwareFacts)


class ReadingSource(Protocol):
    """Where readings come from."""

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Look at the power of the CPUs only, for a loop that asks often; frequencies may be left out."""

    async def read(self) -> NodeReading | Unavailable:
        """Look once. A source of CPU figures only leaves the GPU part empty, and the other way round."""


class CpuActuator(Protocol):
    """What acts on the CPUs of one node.

    A cap and a throttle never hold the same CPUs unless the caller wants it: whoever sets one may have the other
    released, which happens once the new one is in force and not before.
    `ControlOutcome.unreleased` is set where that failed.
    """

    async def set_cpu_cap(self, cap_watts_per_package: float, *, release_throttle: Held = Held.NO) -> ControlOutcome:
        """Cap the power of every package, read it back and say what is in force."""

    async def set_dvfs_throttle(
        self, throttle_pct: float, *, release_cap: Held = Held.NO, limits: WattRange = NO_RANGE
    ) -> ControlOutcome:
        """Throttle that share of the frequency policies, 0 to 100; 0 restores their original maximum.

        A cap is released to its original, or to the top of `limits` where that is not known.
        """

    async def tune_cpu(self, *, saving: bool) -> ControlOutcome | None:
        """Set the optional controls beside the cap while the node saves power, restore them otherwise.

        None where none is configured.
        """

    async def restore_cpu(self, limits: WattRange, held: CpuHeld) -> ControlOutcome:
        """Restore what `held` says, to the originals or to the top of `limits`; applied where nothing is left."""


class GpuActuator(Protocol):
    """What acts on the GPUs of one node."""

    def gpu_devices(self) -> Sequence[GpuDeviceRange]:
        """The devices and their limits; empty where the backend does not tell them apart."""

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> ControlOutcome:
        """Cap each GPU, by UUID; the empty UUID stands for all. `enforced_watts` is the highest one read back."""

    def gpu_clocks(self) -> Mapping[str, ClockRange]:
        """The GPUs whose graphics clocks may be limited where a power limit does not hold, by UUID."""

    async def set_gpu_clocks(self, clocks_mhz: Mapping[str, int]) -> ControlOutcome:
        """Limit the graphics clock of each GPU that is named, and restore those of all others."""

    async def restore_gpu(self, limits: WattRange) -> ControlOutcome:
        """Give caps and clocks back to what they were, or caps to the top of `limits` where that is not known."""


class PowerBackend(ReadingSource, CpuActuator, GpuActuator, Protocol):
    """A backend that can do all of it, as one for the host does."""


def with_release(outcome: ControlOutcome, release: ControlOutcome, held: Held) -> ControlOutcome:
    """Return the outcome of an action with that of the release of the other control."""
    return outcome if is_released(release, held) else structs.replace(outcome, unreleased=release)


def is_released(release: ControlOutcome, held: Held) -> bool:
    """Whether nothing of ours is left after a release with this outcome.

    A backend that has forgotten the node has no controls there either. One that blocks the release never had the
    control in force, unless it said so before.
    """
    if release.applied or release.reason is Reason.NOT_FOUND:
        return True
    never = release.result is ControlResult.BLOCKED and release.reason in {Reason.REFUSED, Reason.NO_INTERFACE}
    return never and held is not Held.YES
