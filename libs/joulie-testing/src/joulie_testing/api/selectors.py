"""Label and field selectors of queries.

Source: Kubernetes documentation, "Labels and Selectors" and "Field Selectors". Field selectors may name the fields in
`ServedKind.selectable`, names and namespaces; any other is refused with 400, as by a real server.
"""

from collections.abc import Callable, Mapping

from joulie_core.label_selector import parse_label_selector, selects
from joulie_testing.api.kinds import ServedKind
from joulie_testing.api.status import StatusError
from joulie_testing.api.storage import Match, Stored

LabelTest = Callable[[Mapping[str, str]], bool]


def parse_labels(text: str) -> LabelTest:
    """Return a test of labels.

    Raises:
        StatusError: 400, for what is no label selector.
    """
    try:
        requirements = parse_label_selector(text)
    except ValueError as error:
        raise StatusError(400, f"unable to parse requirement: {error}") from error
    return lambda labels: selects(requirements, labels)


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
