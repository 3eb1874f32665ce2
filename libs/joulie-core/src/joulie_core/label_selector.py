"""Label selectors as Kubernetes writes them in one line, such as `a=b,c in (d,e),!f`.

Guarantees the grammar and the meaning that an API server gives them in `labelSelector` of lists and watches.
Source: Kubernetes, "Labels and Selectors", and `k8s.io/apimachinery/pkg/labels`, which also has `<` and `>`.
"""

import re
from collections.abc import Mapping
from typing import Final

from joulie_core.pod import Requirement, SelectorOperator

_SPACE: Final = r"[ \t\r\n]*"
#: Name of a label without its prefix; values have the same form, and may be empty.
_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN_PART: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_KEY: Final = rf"(?:(?=[^/]{{1,253}}/){_DOMAIN_PART}(?:\.{_DOMAIN_PART})*/)?{_NAME}"
_VALUE: Final = rf"{_SPACE}(?:{_NAME})?{_SPACE}"
_REQUIREMENT: Final = re.compile(
    rf"{_SPACE}(?:!{_SPACE}(?P<absent>{_KEY})|(?P<key>{_KEY})(?:"
    rf"{_SPACE}(?P<sign>==|=|!=)(?P<value>{_VALUE})"
    rf"|{_SPACE}(?P<order>[<>]){_SPACE}(?P<number>[0-9]{{1,63}})"
    rf"|[ \t\r\n]+(?P<set>in|notin){_SPACE}\((?P<values>{_VALUE}(?:,{_VALUE})*)\)"
    rf")?){_SPACE}"
)
#: A comma outside parentheses; an unclosed parenthesis leaves a part that no requirement matches.
_SEPARATOR: Final = re.compile(r",(?![^(]*\))")
_OPERATORS: Final = {
    "==": SelectorOperator.IN,
    "=": SelectorOperator.IN,
    "!=": SelectorOperator.NOT_IN,
    "in": SelectorOperator.IN,
    "notin": SelectorOperator.NOT_IN,
    "<": SelectorOperator.LT,
    ">": SelectorOperator.GT,
}
#: Largest number that labels are compared with.
_MOST: Final = 2**63 - 1


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a label selector, all of which have to hold; an empty one has none.

    Raises:
        ValueError: it does not follow the grammar of Kubernetes.
    """
    return tuple(_requirement(part) for part in _SEPARATOR.split(text)) if text.strip(" \t\r\n") else ()


def selects(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Return whether an object with these labels meets all requirements."""
    return all(each.holds(labels.get(each.key)) for each in requirements)


def _requirement(part: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(part)
    if found is None or int(found["number"] or 0) > _MOST:
        raise ValueError(f"{part.strip()!r} is no requirement of a label selector")
    if found["absent"]:
        return Requirement(found["absent"], SelectorOperator.DOES_NOT_EXIST)
    if found["sign"]:
        return Requirement(found["key"], _OPERATORS[found["sign"]], (found["value"].strip(),))
    if found["order"]:
        return Requirement(found["key"], _OPERATORS[found["order"]], (found["number"],))
    if found["set"]:
        values = tuple(each.strip() for each in found["values"].split(","))
        return Requirement(found["key"], _OPERATORS[found["set"]], values)
    return Requirement(found["key"], SelectorOperator.EXISTS)
