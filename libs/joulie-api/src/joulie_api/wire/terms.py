"""Selectors: requirements over labels and fields, and the terms of a required node affinity."""

from typing import Final

import msgspec

from joulie_core.pod import Requirement, SelectorOperator, Term

#: Rules that scheduling must follow, beside the preferred ones.
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class WireRequirement(msgspec.Struct):
    """One requirement over a label or a field."""

    key: str
    operator: SelectorOperator
    values: list[str] | None = None


class WireNodeTerm(msgspec.Struct, rename="camel"):
    """One node selector term."""

    match_expressions: list[WireRequirement] | None = None
    match_fields: list[WireRequirement] | None = None


class WireNodeSelector(msgspec.Struct, rename="camel"):
    """Node selector terms, ORed."""

    node_selector_terms: list[WireNodeTerm] | None = None

    def terms(self) -> tuple[Term, ...]:
        """Return the terms as decisions use them."""
        return tuple(
            Term(requirements(each.match_expressions), requirements(each.match_fields))
            for each in self.node_selector_terms or ()
        )


def requirements(wire: list[WireRequirement] | None) -> tuple[Requirement, ...]:
    """Return requirements as decisions use them."""
    return tuple(Requirement(each.key, each.operator, tuple(each.values or ())) for each in wire or ())
