"""The part of a node's limit that is in force, judged from what was read back after its caps were set.

Guarantees that watts count as in force only where every package and every GPU was read back with a limit of its own,
and that a limit which is not in force as asked has a reason. What a loop holds by measured power is no limit.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.budget.device_caps import DeviceCaps, LimitedDevices, lowest_mw, sum_mw
from joulie_core.budget.node_limit import FollowedLimit
from joulie_core.budget.objects import watts_of


class LimitState(StrEnum):
    """State of the limit of a node; the reason of the condition InForce."""

    #: Every device is at or below its cap.
    AS_ASKED = "AsAsked"
    #: No limit is asked.
    NO_LIMIT = "NoLimit"
    #: In force without a renewal, since limits are kept.
    KEPT = "KeptWithoutRenewal"
    #: The lease has ended without a renewal, and the limit was lifted.
    LEASE_ENDED = "LeaseEnded"
    #: The hardware takes no limit as low; the lowest is set.
    BELOW_MINIMUM = "BelowMinimum"
    #: Not every device is known, with the range of its limit.
    DEVICES_UNKNOWN = "DevicesUnknown"
    #: A device did not take its cap, or does not tell what it holds.
    NOT_HELD = "NotHeld"
    #: Firmware holds more than was set.
    HELD_HIGHER = "HeldHigher"
    #: The object has an older ask than the one that was applied.
    OLDER_ASK = "OlderAsk"
    #: The fallback is in force in the place of the limit, as no fresh sample is named.
    FALLING_BACK = "FallingBack"
    #: It is due, and is not in force.
    FALLBACK_NOT_HELD = "FallbackNotHeld"


_REFUSED: Final = frozenset(
    {LimitState.BELOW_MINIMUM, LimitState.DEVICES_UNKNOWN, LimitState.NOT_HELD, LimitState.FALLBACK_NOT_HELD}
)


@dataclass(frozen=True, slots=True)
class HeldPower:
    """Sum of the limits of one subsystem as they were read back, in milliwatts."""

    #: None: not every device has a limit that was read back.
    total_mw: int | None
    #: Why there is none.
    problem: str = ""


NO_DEVICES = HeldPower(0)


@dataclass(frozen=True, slots=True)
class NodeLimitReport:
    """A limit and what came of it."""

    state: LimitState
    message: str = ""
    #: Sum of the limits that were read back; None: not every device has one, or was read. While the fallback counts it
    #: is not below what the limit holds, which comes back with the next sample that is named.
    in_force_mw: int | None = None
    #: By the budget; None where it sets none.
    caps: DeviceCaps | None = None

    @property
    def refused(self) -> bool:
        """Whether the limit could not be put in force."""
        return self.state in _REFUSED

    @property
    def falls_back(self) -> bool:
        """Whether the fallback is in force in the place of the limit."""
        return self.state is LimitState.FALLING_BACK

    @property
    def as_asked(self) -> bool:
        """Whether the limit that the object asks is in force."""
        return self.state in {LimitState.AS_ASKED, LimitState.NO_LIMIT, LimitState.KEPT}


def judge_limit(
    limit: FollowedLimit,
    devices: LimitedDevices,
    caps: DeviceCaps | None,
    *,
    cpu: HeldPower,
    gpu: HeldPower,
    now_s: float,
    full_mw: int | None = None,
) -> NodeLimitReport:
    """Return what is in force of a limit.

    Args:
        limit: as it is followed.
        devices: that share it.
        caps: of the devices by it; None where it could not be split.
        cpu: what was read back of all packages, after they were capped.
        gpu: the same of all GPUs; `NO_DEVICES` without any.
        now_s: the clock of the lease.
        full_mw: while the fallback counts: what the limit itself holds, as it was read back last or would be; None
            where that is not known.
    """
    if not limit.sets_limit:
        return _of_older(limit, NodeLimitReport(LimitState.NO_LIMIT))
    if not limit.applies(now_s):
        message = f"no renewal for {limit.lease_s:g} s; the limit is lifted"
        return NodeLimitReport(LimitState.LEASE_ENDED, message)
    if caps is None:
        return NodeLimitReport(LimitState.DEVICES_UNKNOWN, devices.problem or _unknown_range(devices))
    falls_back = limit.falls_back(now_s)
    problems = [held.problem or "not read back" for held in (cpu, gpu) if held.total_mw is None]
    if cpu.total_mw is None or gpu.total_mw is None:
        state = LimitState.FALLBACK_NOT_HELD if falls_back else LimitState.NOT_HELD
        return NodeLimitReport(state, "; ".join((*_fallback(limit, now_s), *problems)), caps=caps)
    in_force_mw = cpu.total_mw + gpu.total_mw
    if falls_back:
        return _fallen_back(limit, devices, caps, in_force_mw, full_mw)
    return _of_older(limit, _in_force(limit, devices, caps, in_force_mw, now_s))


def _fallen_back(
    limit: FollowedLimit, devices: LimitedDevices, caps: DeviceCaps, in_force_mw: int, full_mw: int | None
) -> NodeLimitReport:
    assert limit.hold is not None
    fallback_mw = limit.hold.fallback_mw
    fallback, lowest = watts_of(fallback_mw), watts_of(lowest_mw(devices))
    state, message = LimitState.FALLBACK_NOT_HELD, ""
    if caps.shortfall_mw > 0:
        message = f"{fallback:g} W are to be held without a fresh sample; {_lowest(devices, lowest)}"
    elif in_force_mw > fallback_mw:
        message = (
            f"{fallback:g} W are to be held without a fresh sample, and {watts_of(in_force_mw):g} W were read back"
        )
    else:
        state = LimitState.FALLING_BACK
        asked = watts_of(limit.ask.limit_mw)
        whole = "" if asked is None else f" in the place of {asked:g} W"
        message = f"no fresh sample is named: {fallback:g} W{whole}"
    # Unknown is not lower: without a known limit the operator counts the node with its highest power.
    kept_mw = None if full_mw is None else max(full_mw, in_force_mw)
    return NodeLimitReport(state, message, kept_mw, caps)


def _fallback(limit: FollowedLimit, now_s: float) -> tuple[str, ...]:
    if limit.hold is None or not limit.falls_back(now_s):
        return ()
    return (f"{watts_of(limit.hold.fallback_mw):g} W are to be held without a fresh sample",)


def _in_force(
    limit: FollowedLimit, devices: LimitedDevices, caps: DeviceCaps, in_force_mw: int, now_s: float
) -> NodeLimitReport:
    asked_mw = limit.ask.limit_mw if limit.ask.limit_mw is not None else sum_mw(caps, devices)
    if caps.shortfall_mw > 0:
        asked, lowest = watts_of(asked_mw), watts_of(lowest_mw(devices))
        message = f"{asked:g} W asked; {_lowest(devices, lowest)}"
        return NodeLimitReport(LimitState.BELOW_MINIMUM, message, in_force_mw, caps)
    if in_force_mw > asked_mw:
        message = f"{watts_of(asked_mw):g} W asked, and {watts_of(in_force_mw):g} W read back"
        return NodeLimitReport(LimitState.HELD_HIGHER, message, in_force_mw, caps)
    if limit.has_ended(now_s):
        message = f"no renewal for {limit.lease_s:g} s; the limit is kept"
        return NodeLimitReport(LimitState.KEPT, message, in_force_mw, caps)
    return NodeLimitReport(LimitState.AS_ASKED, "", in_force_mw, caps)


def _of_older(limit: FollowedLimit, report: NodeLimitReport) -> NodeLimitReport:
    """Return the report of a limit that is in force while the object asks an older one."""
    if limit.older is None or not report.as_asked:
        return report
    message = f"sequence {limit.older} is asked after {limit.ask.sequence} was applied; the latter stays"
    return NodeLimitReport(LimitState.OLDER_ASK, message, report.in_force_mw, report.caps)


def _lowest(devices: LimitedDevices, watts: float | None) -> str:
    return f"the lowest limits of {_named(devices)} are {watts:g} W together, and are set"


def _named(devices: LimitedDevices) -> str:
    gpus = f" and {devices.gpu_count} GPU{'s' if devices.gpu_count > 1 else ''}" if devices.gpus else ""
    return f"{devices.packages} CPU package{'s' if devices.packages > 1 else ''}{gpus}"


def _unknown_range(devices: LimitedDevices) -> str:
    return f"the range of a limit of {_named(devices)} is not known"
