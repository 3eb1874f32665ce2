"""Injected faults: requests that a node's backend refuses, fails or delays, for tests.

Faults are rules by action or `telemetry`, for one node; a rule of node `*` applies to all nodes without one of their
own.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

EVERY_NODE: Final = "*"


class FaultTarget(StrEnum):
    """Kind of request that a fault applies to."""

    CPU_CAP = "rapl.set_power_cap_watts"
    THROTTLE = "dvfs.set_throttle_pct"
    GPU_CAP = "gpu.set_power_cap_watts"
    GPU_CLOCK = "gpu.set_clock_limit_pct"
    TELEMETRY = "telemetry"


class Effect(StrEnum):
    """Effect of a fault on the caller."""

    BLOCKED = "blocked"
    ERROR = "error"
    #: HTTP status 500.
    BROKEN = "broken"
    #: A normal answer, after `delaySeconds`.
    SLOW = "slow"


class InjectedFault(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One rule. For telemetry, `blocked` and `error` are the same as `broken`."""

    target: FaultTarget
    effect: Effect
    message: str = "injected fault"
    delay_seconds: Annotated[float, msgspec.Meta(ge=0.0, le=60.0)] = 0.0


class MalformedFaultError(ValueError):
    """The body is not a valid fault; the message has the reason."""


class InjectedFaults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: dict[str, dict[FaultTarget, InjectedFault]] = {}

    def put(self, node: str, body: bytes) -> InjectedFault:
        """Add or replace the rule for one target of a node.

        Raises:
            MalformedFaultError: the body is not a valid fault.
        """
        try:
            fault = msgspec.json.decode(body, type=InjectedFault)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedFaultError(f"not a fault: {error}") from error
        self._rules.setdefault(node, {})[fault.target] = fault
        return fault

    def clear(self, node: str) -> None:
        """Remove all rules of a node."""
        self._rules.pop(node, None)

    def find(self, node: str, target: FaultTarget) -> InjectedFault | None:
        """Return the rule that applies to a target of a node; None if there is none."""
        for name in (node, EVERY_NODE):
            fault = self._rules.get(name, {}).get(target)
            if fault is not None:
                return fault
        return None
