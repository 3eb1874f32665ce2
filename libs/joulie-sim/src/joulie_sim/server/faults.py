"""Faults that tests set: what a node's backend refuses, breaks or delays.

A fault of a node is a set of rules by action or `telemetry`; a rule of node `*` holds for all nodes without one of
their own. There are no faults by default.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

EVERY_NODE: Final = "*"


class FaultTarget(StrEnum):
    """What a fault may hit."""

    CPU_CAP = "rapl.set_power_cap_watts"
    THROTTLE = "dvfs.set_throttle_pct"
    GPU_CAP = "gpu.set_power_cap_watts"
    TELEMETRY = "telemetry"


class Effect(StrEnum):
    """What the caller gets."""

    BLOCKED = "blocked"
    ERROR = "error"
    #: HTTP status 500.
    BROKEN = "broken"
    #: The answer comes, `delaySeconds` late.
    SLOW = "slow"


class InjectedFault(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One rule. For telemetry, `blocked` and `error` are as good as `broken`."""

    target: FaultTarget
    effect: Effect
    message: str = "fault asked for by a test"
    delay_seconds: Annotated[float, msgspec.Meta(ge=0.0, le=60.0)] = 0.0


class MalformedFaultError(ValueError):
    """A body that is not a fault; the text says why."""


class InjectedFaults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: dict[str, dict[FaultTarget, InjectedFault]] = {}

    def put(self, node: str, body: bytes) -> InjectedFault:
        """Add or replace the rule for one target of a node. Raises MalformedFaultError."""
        try:
            fault = msgspec.json.decode(body, type=InjectedFault)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedFaultError(f"not a fault: {error}") from error
        self._rules.setdefault(node, {})[fault.target] = fault
        return fault

    def clear(self, node: str) -> None:
        """Drop all rules of a node."""
        self._rules.pop(node, None)

    def find(self, node: str, target: FaultTarget) -> InjectedFault | None:
        """Return the rule for a target of a node."""
        for name in (node, EVERY_NODE):
            fault = self._rules.get(name, {}).get(target)
            if fault is not None:
                return fault
        return None
