"""Follows the limit that each GPU of this machine would have by its holders. Sends nothing to the hardware.

At each pass of the node's worker; between two passes `decide` has the decision for newer holders. Held clocks are in
memory alone: after a restart they are unknown until measured.
Source: docs/decisions/0050-class-limits-in-shadow.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import GpuReading, GpuSample
from joulie_core.class_caps.gpu_limits import GpuClocks, LimitReason
from joulie_core.class_caps.held_clock import ClockSample, HeldClock
from joulie_core.class_caps.held_limit import HeldLimit, HolderPods, held_limit
from joulie_core.class_caps.limit_effect import EffectBand, GpuLoad, LimitEffect, NotStated, limit_effect
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.hardware.device_view import device_view
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import GpuView
from joulie_core.holders.held import HeldDevice
from joulie_core.kinds.node_hardware import GpuDevice, NodeHardwareStatus
from joulie_core.kinds.telemetry_profile import ControlReport

#: Time between two passes that the effect of the later one is counted for at most; what is beyond was not seen.
MOST_COUNTED_S: Final = 120.0
_PERCENT: Final = 100.0
_NO_SAMPLE: Final = GpuSample("")
_NOT_HELD: Final = HeldClock()
_IN_FORCE: Final = LimitEffect(NotStated.IN_FORCE, NotStated.IN_FORCE)


def _not_seen(_namespace: str) -> None:
    return None


_NO_PODS: Final = HolderPods({}, _not_seen)


@dataclass(frozen=True, slots=True)
class ShadowLimit:
    """The limit that one GPU would have, and what it would change now."""

    held: HeldLimit
    #: None without a limit.
    effect: LimitEffect | None
    #: None where it was not measured.
    held_mhz: int | None
    clock_bound: ClockBound
    #: Joulie's limits in force; None for none. `in_force_known` is False where that is not known.
    in_force_watts: float | None
    in_force_mhz: int | None
    in_force_known: bool


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """GPU time of this process that its limits would have cost, in seconds."""

    slowdown_lower_s: float = 0.0
    slowdown_upper_s: float = 0.0
    #: Time of GPUs with a limit whose slowdown was not stated.
    unstated_s: float = 0.0

    def after(self, effects: Sequence[LimitEffect], elapsed_s: float) -> "ShadowCounts":
        """Return the counts after a time with these effects, one for each GPU that would be limited."""
        bands = [each.slowdown_pct for each in effects if isinstance(each.slowdown_pct, EffectBand)]
        return ShadowCounts(
            self.slowdown_lower_s + elapsed_s * sum(each.lower for each in bands) / _PERCENT,
            self.slowdown_upper_s + elapsed_s * sum(each.upper for each in bands) / _PERCENT,
            self.unstated_s + elapsed_s * (len(effects) - len(bands)),
        )


@dataclass(frozen=True, slots=True)
class ShadowState:
    """The limits after a pass, by UUID, and the counts since the process has started."""

    #: None while it is not known what holds the GPUs.
    limits: Mapping[str, ShadowLimit] | None = None
    counts: ShadowCounts = ShadowCounts()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The GPUs at one pass."""

    samples: Mapping[str, GpuSample]
    devices: Mapping[str, GpuDevice]
    #: Whether power limits of Joulie's are in force; None where that is not known.
    capped: bool | None

    def sample(self, uuid: str) -> GpuSample:
        """Return the reading of a GPU; of one that was not read, nothing was measured."""
        return self.samples.get(uuid, _NO_SAMPLE)

    def clock_sample(self, uuid: str) -> ClockSample:
        """Return the reading of a GPU as its held clock takes it."""
        sample = self.sample(uuid)
        limited = True if _clock_limit_mhz(sample) is not None else self.capped
        return ClockSample(sample.clock_mhz, sample.busy_share, limited)


@dataclass(frozen=True, slots=True)
class ShadowSources:
    """Sources of what limits depend on, beside the pass of the node's worker."""

    #: GPUs and what holds them; None before that is known.
    held: Callable[[], Sequence[HeldDevice] | None]
    #: The pods that `held` was made with, and their Namespaces; None while they are not known.
    pods: Callable[[], HolderPods | None]
    #: Clock ranges of the GPUs whose clock can be limited, by UUID.
    clocks: Callable[[], Mapping[str, ClockRange]]
    #: Whether the node's target lifts its limits, since performance pods wait for its GPUs.
    lifted: Callable[[], bool] = lambda: False


class ShadowLimits:
    """The limits of one machine's GPUs, as `step` has last found them."""

    def __init__(self, sources: ShadowSources, inventory: Inventory) -> None:
        self._sources = sources
        self._inventory = inventory
        self._held_clocks: dict[str, HeldClock] = {}
        #: As of the last pass.
        self._devices: Mapping[str, GpuDevice] = {}
        self._stepped_s: float | None = None
        self.state = ShadowState()

    def step(
        self, reading: GpuReading | None, report: ControlReport, hardware: NodeHardwareStatus, now_s: float
    ) -> ShadowState:
        """Take a pass over the node.

        Args:
            reading: of the GPUs; None where there is none.
            report: of what is in force on the GPUs.
            hardware: of the node.
            now_s: seconds of a clock that does not go back.
        """
        seen = _Seen(
            {each.gpu: each for each in reading.gpus} if reading else {},
            {each.uuid: each for each in hardware.gpu.devices} if hardware.gpu else {},
            _caps_in_force(report),
        )
        self._devices = seen.devices
        held = self._sources.held()
        elapsed_s = 0.0 if self._stepped_s is None else min(now_s - self._stepped_s, MOST_COUNTED_S)
        self._stepped_s = now_s
        if held is None:
            self.state = replace(self.state, limits=None)
            return self.state
        known = self._held_clocks
        self._held_clocks = {
            each.uuid: known.get(each.uuid, _NOT_HELD).seen(seen.clock_sample(each.uuid), now_s) for each in held
        }
        decided = self.decide(held)
        limits = {each.uuid: self._limit(decided[each.uuid], each.uuid, seen) for each in held}
        effects = [each.effect for each in limits.values() if each.effect is not None]
        self.state = ShadowState(limits, self.state.counts.after(effects, elapsed_s))
        return self.state

    def decide(self, held: Sequence[HeldDevice]) -> Mapping[str, HeldLimit]:
        """Return the decision for GPUs with these holders, by UUID, with the clocks of the last pass."""
        pods, clocks, lifted = self._sources.pods() or _NO_PODS, self._sources.clocks(), self._sources.lifted()
        return {each.uuid: self._decision(each, pods, clocks.get(each.uuid), lifted=lifted) for each in held}

    def _decision(self, held: HeldDevice, pods: HolderPods, clocks: ClockRange | None, *, lifted: bool) -> HeldLimit:
        own = None if clocks is None else GpuClocks(clocks.highest_mhz, self._mhz(held.uuid))
        return held_limit(held, pods, self._view(held.uuid), own, waited_for=lifted)

    def _limit(self, found: HeldLimit, uuid: str, seen: _Seen) -> ShadowLimit:
        sample, held_mhz = seen.sample(uuid), self._mhz(uuid)
        in_force = sample.class_limit_mhz is not None and found.limit.clock_mhz is not None
        return ShadowLimit(
            held=found,
            effect=_IN_FORCE if in_force else limit_effect(found.limit, _load(sample), self._view(uuid), held_mhz),
            held_mhz=held_mhz,
            clock_bound=sample.clock_bound,
            in_force_watts=sample.cap_watts if seen.capped else None,
            in_force_mhz=_clock_limit_mhz(sample),
            in_force_known=seen.capped is not None,
        )

    def _view(self, uuid: str) -> GpuView | None:
        device = self._devices.get(uuid)
        return None if device is None else device_view(device, self._inventory)

    def _mhz(self, uuid: str) -> int | None:
        return self._held_clocks.get(uuid, _NOT_HELD).mhz


def is_limited(limit: ShadowLimit) -> bool:
    """Return whether the GPU would have a limit."""
    return limit.held.limit.reason in (LimitReason.CLOCK_LIMITED, LimitReason.POWER_LIMITED)


def _clock_limit_mhz(sample: GpuSample) -> int | None:
    """Return Joulie's limit of the graphics clock, whatever it is for; None where there is none."""
    limits = [mhz for mhz in (sample.clock_limit_mhz, sample.class_limit_mhz) if mhz is not None]
    return min(limits, default=None)


def _caps_in_force(report: ControlReport) -> bool | None:
    """Return whether power limits of Joulie's are in force on the GPUs; None where that is not known."""
    match report.result:
        case ControlResult.NONE:
            return False
        case ControlResult.APPLIED:
            return report.reason != Reason.RESTORED
        case ControlResult.BLOCKED | ControlResult.ERROR:
            return None


def _load(sample: GpuSample) -> GpuLoad:
    # Without a busy time a driver may still say that there is no work.
    idle = sample.busy_share is None and sample.clock_bound is ClockBound.IDLE
    return GpuLoad(sample.clock_mhz, 0.0 if idle else sample.busy_share, sample.power_watts)
