"""Label and field selectors of queries.

Source: Kubernetes documentation, "Labels and Selectors" and "Field Selectors". Field selectors may name the fields in
`ServedKind.selectable`, names and namespaces; any other is refused with 400, as by a real server.
"""

import re
from collections.abc import Callable, Mapping

from joulie_testing.api.kinds import ServedKind
from joulie_testing.api.status import StatusError
from joulie_testing.api.storage import Match, Stored

LabelTest = Callable[[Mapping[str, str]], bool]

_SET_TERM = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_SPLIT = re.compile(r",(?![^()]*\))")


def parse_labels(selector: str) -> LabelTest:
    """Return a test of labels for `a=b`, `a!=b`, `a in (x,y)`, `a notin (x)`, `a`, `!a`, joined by commas.

    Raises:
        StatusError: 400, for any other term.
    """
    tests = [_label_term(term.strip()) for term in _SPLIT.split(selector) if term.strip()]
    return lambda labels: all(test(labels) for test in tests)


def _label_term(term: str) -> LabelTest:
    if found := _SET_TERM.match(term):
        key = found["key"]
        values = frozenset(value.strip() for value in found["values"].split(","))
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if "!=" in term:
        key, _, value = (part.strip() for part in term.partition("!="))
        return lambda labels: labels.get(key) != value
    if "=" in term:
        key, _, value = term.partition("=")
        key, value = key.strip(), value.removeprefix("=").strip()
        return lambda labels: labels.get(key) == value
    if not re.fullmatch(r"!?\s*[A-Za-z0-9][A-Za-z0-9./_-]*", term):
        raise StatusError(400, f"unable to parse requirement: {term!r}")
    if term.startswith("!"):
        key = term[1:].strip()
        return lambda labels: key not in labels
    return lambda labels: term in labels


def parse_fields(selector: str, kind: ServedKind) -> Match:
    """Return a test of stored objects for `field=value`, `field==value`, `field!=value`, joined by commas.

    Raises:
        StatusError: 400, for a field that the kind does not declare as selectable.
    """
    tests = [_field_term(term.strip(), kind) for term in selector.split(",") if term.strip()]
    return lambda stored: all(test(stored) for test in tests)


def _field_term(term: str, kind: ServedKind) -> Match:
    negated = "!=" in term
    field, _, value = term.partition("!=" if negated else "=")
    value = value.removeprefix("=").strip()
    read = _field_reader(field.strip(), kind)
    return lambda stored: (read(stored) == value) is not negated


def _field_reader(field: str, kind: ServedKind) -> Callable[[Stored], str]:
    if field == "metadata.name":
        return lambda stored: stored.name
    if field == "metadata.namespace":
        return lambda stored: stored.namespace or ""
    for index, path in enumerate(kind.selectable):
        if ".".join(path) == field:
            return lambda stored: stored.fields[index]
    raise StatusError(400, f'field label not supported: "{field}"')


def selector(label_selector: str, field_selector: str, kind: ServedKind, namespace: str | None) -> Match | None:
    """Return the combined test of a list or watch; None if everything matches."""
    if not (label_selector or field_selector or namespace):
        return None
    labels = parse_labels(label_selector)
    fields = parse_fields(field_selector, kind)
    return lambda stored: (
        (namespace is None or stored.namespace == namespace) and labels(stored.labels) and fields(stored)
    )
