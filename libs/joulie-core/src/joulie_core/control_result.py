"""How a control action ended. Apart from the kinds, since the agent's actuator runs without pydantic."""

from enum import StrEnum


class ControlResult(StrEnum):
    """How the last control action ended."""

    APPLIED = "applied"
    BLOCKED = "blocked"
    ERROR = "error"
    NONE = "none"
