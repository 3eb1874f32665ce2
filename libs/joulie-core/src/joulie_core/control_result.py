"""Result of a control action. Apart from the kinds, since the agent's actuator runs without pydantic."""

from enum import StrEnum


class ControlResult(StrEnum):
    """Result of the last control action."""

    APPLIED = "applied"
    BLOCKED = "blocked"
    ERROR = "error"
    NONE = "none"
