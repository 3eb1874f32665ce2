"""Decides about resets: which one is to be requested now, for the desired power. No I/O; times are arguments.

The first of these that applies:

1. The power is not managed, may not be cut, is as desired, or is unknown: nothing is requested.
2. Nothing was requested for this desire: request it, a power-off gracefully; but not while the server changes the other
   way.
3. The BMC has refused a graceful shutdown: force the power off where a person has allowed that; otherwise request the
   shutdown again after a time.
4. The deadline of the request is over: force a power-off that was graceful; repeat any other.
5. The BMC was too busy for the request: the same again, with the same deadline.
6. Wait for the effect.

Where a BMC offers no graceful shutdown, the power button is one: the server's system is told of it in the same way
(ACPI). It is not pressed a second time for the same desire, which could power a server on that has just gone off.
"""

from dataclasses import dataclass, replace
from typing import Final

from joulie_core.kinds.node_bmc import (
    GRACEFUL_RESETS,
    DesiredPower,
    ForcedOff,
    NodeBMCSpec,
    PowerOff,
    PowerState,
    has_way_off,
)
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.reasons import BmcReason

_FORCED: Final = ("ForceOff",)
_ON: Final = ("On", "ForceOn")
_NEEDS_WORD: Final = "the power is forced off without one only where spec.forcedOff is Allowed"


@dataclass(frozen=True, slots=True)
class PowerTimeouts:
    """Seconds from a request until the next one."""

    #: From a graceful shutdown to the forced one.
    graceful_s: float
    #: Between requests to force the power off, or to power on, and after a shutdown that was refused.
    repeat_s: float


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """A reset that was requested and whose effect is awaited."""

    on: bool
    forced: bool
    #: Time of the request, by the monotonic clock.
    at: float
    #: Whether an earlier request had no effect in time.
    late: bool = False
    #: Whether the BMC was too busy to take it.
    postponed: bool = False
    #: Whether it is a graceful shutdown that the BMC has refused.
    refused_shutdown: bool = False

    def refused(self) -> "PowerRequest":
        """Return the request after the BMC has refused it: nothing is awaited."""
        if not (self.on or self.forced):
            return replace(self, refused_shutdown=True)
        return replace(self, at=float("-inf"))

    def not_taken(self) -> "PowerRequest":
        """Return the request after the BMC was too busy for it: it is repeated, and its deadline stays."""
        return replace(self, postponed=True)


@dataclass(frozen=True, slots=True)
class PowerDecision:
    """The reset type to request now, None for none, and what is then awaited."""

    reset: str | None
    request: PowerRequest | None
    finding: BmcFinding


def decide_power(
    spec: NodeBMCSpec,
    state: PowerState,
    reset_types: tuple[str, ...],
    request: PowerRequest | None,
    *,
    now: float,
    timeouts: PowerTimeouts,
) -> PowerDecision:
    """Return what to do about the power of a server."""
    settled = _without_change(spec, state)
    if settled is not None:
        awaited = request if settled.reason is BmcReason.POWER_STATE_UNKNOWN else None
        return PowerDecision(None, awaited, settled)
    on = spec.desired_power is DesiredPower.ON
    # A refused request has a deadline in the past: what follows a deadline follows it at once.
    if request is None or request.on != on:
        if state is (PowerState.POWERING_OFF if on else PowerState.POWERING_ON):
            return PowerDecision(None, None, BmcFinding.no(BmcReason.CHANGING, f"the server is {state.value}"))
        return _first_request(spec, reset_types, now)
    if request.refused_shutdown:
        return _after_refusal(spec, request, reset_types, now=now, repeat_s=timeouts.repeat_s)
    return _after_request(state, request, reset_types, now=now, timeouts=timeouts)


def _without_change(spec: NodeBMCSpec, state: PowerState) -> BmcFinding | None:
    """Return the finding where nothing is to be requested, whatever was before."""
    if spec.desired_power is DesiredPower.UNMANAGED:
        return BmcFinding.yes(BmcReason.UNMANAGED)
    if spec.desired_power is DesiredPower.OFF and spec.power_off is PowerOff.NEVER:
        return BmcFinding.no(BmcReason.POWER_OFF_NOT_ALLOWED, "powerOff is Never")
    as_desired = PowerState.ON if spec.desired_power is DesiredPower.ON else PowerState.OFF
    if state is as_desired:
        return BmcFinding.yes(BmcReason.AS_DESIRED)
    return BmcFinding.unknown(BmcReason.POWER_STATE_UNKNOWN) if state is PowerState.UNKNOWN else None


def _after_refusal(
    spec: NodeBMCSpec, request: PowerRequest, types: tuple[str, ...], *, now: float, repeat_s: float
) -> PowerDecision:
    """Return what follows a graceful shutdown that the BMC has refused."""
    if spec.forced_off is ForcedOff.ALLOWED:
        return _request(on=False, forced=True, types=types, now=now)
    if now - request.at >= repeat_s:
        return _first_request(spec, types, now)
    return PowerDecision(None, request, BmcFinding.no(BmcReason.REFUSED, f"graceful shutdown refused; {_NEEDS_WORD}"))


def _after_request(
    state: PowerState, request: PowerRequest, types: tuple[str, ...], *, now: float, timeouts: PowerTimeouts
) -> PowerDecision:
    """Return what follows a request that the BMC has taken, or may have taken."""
    on, waited_s = request.on, now - request.at
    if waited_s >= (timeouts.repeat_s if on or request.forced else timeouts.graceful_s):
        following = _request(on=on, forced=not on, types=types, now=now, late=on or request.forced)
        # Where the power cannot be forced off, the shutdown is awaited on.
        return following if following.request is not None else replace(following, request=request)
    if request.postponed:
        return _request(on=on, forced=request.forced, types=types, now=request.at, late=request.late)
    reason = BmcReason.NOT_FOLLOWED if request.late else BmcReason.CHANGING
    return PowerDecision(None, request, BmcFinding.no(reason, f"the server is {state.value}"))


def _first_request(spec: NodeBMCSpec, types: tuple[str, ...], now: float) -> PowerDecision:
    """Request what is desired; without a graceful shutdown the power is forced off only by a person's word."""
    on = spec.desired_power is DesiredPower.ON
    if on or has_way_off(spec, types):
        return _request(on=on, forced=False, types=types, now=now)
    message = f"none of {', '.join(GRACEFUL_RESETS)}; {_NEEDS_WORD}"
    return PowerDecision(None, None, BmcFinding.no(BmcReason.RESET_TYPE_MISSING, message))


def _request(*, on: bool, forced: bool, types: tuple[str, ...], now: float, late: bool = False) -> PowerDecision:
    preferred = _ON if on else (*(() if forced else GRACEFUL_RESETS), *_FORCED)
    reset = next((each for each in preferred if each in types), None)
    if reset is None:
        return PowerDecision(None, None, BmcFinding.no(BmcReason.RESET_TYPE_MISSING, f"none of {', '.join(preferred)}"))
    reason = BmcReason.NOT_FOLLOWED if late else BmcReason.CHANGING
    request = PowerRequest(on=on, forced=reset in _FORCED, at=now, late=late)
    return PowerDecision(reset, request, BmcFinding.no(reason, f"{reset} requested"))
