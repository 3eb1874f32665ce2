"""Requirements of selectors on the wire."""

import msgspec

from joulie_core.pod import Requirement, SelectorOperator


class WireRequirement(msgspec.Struct):
    """One requirement over a label or a field."""

    key: str
    operator: SelectorOperator
    values: list[str] | None = None


def requirements(wire: list[WireRequirement] | None) -> tuple[Requirement, ...]:
    """Return requirements as decisions use them."""
    return tuple(Requirement(each.key, each.operator, tuple(each.values or ())) for each in wire or ())
