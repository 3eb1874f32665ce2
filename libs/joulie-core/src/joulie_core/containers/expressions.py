"""Conditions on containers, and texts made of what containers have."""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from joulie_core.containers.container import ContainerInfo
from joulie_core.kinds.match_expression import ExpressionSpec, MatchOperator, split_key

_REFERENCE: Final = re.compile(r"\$(?:\{([^}]*)\}|([\w./-]+))", re.ASCII)
#: An escaped character or a range of a glob.
_SPECIAL: Final = re.compile(r"\\(.)|\[(\^?)([^]]+)\]")


def matches(expression: ExpressionSpec, container: ContainerInfo) -> bool:
    """Return whether a container meets a condition.

    A key that the container does not have equals and matches nothing.
    """
    value = key_value(expression.key, container)
    positive, negated = _COMPARISONS[expression.operator]
    return positive(expression, value) is not negated


def key_value(key: str, container: ContainerInfo) -> str | None:
    """Return the value of a key, None where the container has no such value.

    In a joint key, what the container does not have is empty; it is None where the container has none of its values.
    """
    keys, separator = split_key(key)
    values = [_value(each, container) for each in keys]
    return None if all(value is None for value in values) else separator.join(value or "" for value in values)


def expand(template: str, container: ContainerInfo) -> str:
    """Return a text with `${KEY}` and `$KEY` replaced by their values, empty where the container has none."""
    return _REFERENCE.sub(lambda found: key_value(found[1] or found[2] or "", container) or "", template)


def glob_matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a glob as a path does: `*`, `?` and ranges do not match a slash."""
    patterns, parts = _segments(pattern), text.split("/")
    return len(patterns) == len(parts) and all(map(fnmatchcase, parts, patterns))


def _value(key: str, container: ContainerInfo) -> str | None:
    pod = container.pod
    of_pod = key.startswith("pod/")
    field, _, name = key.removeprefix("pod/").partition("/")
    if field == "labels":
        return (pod.labels if of_pod else container.labels).get(name)
    if field == "annotations":
        return pod.annotations.get(name)
    values = {
        "name": pod.name if of_pod else container.name,
        "id": pod.id if of_pod else container.id,
        "namespace": pod.namespace,
        "qosclass": pod.qos.value,
        "uid": pod.uid,
    }
    return values.get(field)


def _always(expression: ExpressionSpec, value: str | None) -> bool:
    del expression, value
    return True


def _exists(expression: ExpressionSpec, value: str | None) -> bool:
    del expression
    return value is not None


def _is_one_of(expression: ExpressionSpec, value: str | None) -> bool:
    return value in expression.values


def _matches_one_of(expression: ExpressionSpec, value: str | None) -> bool:
    return value is not None and any(glob_matches(pattern, value) for pattern in expression.values)


#: The comparison behind an operator, and whether its result is negated.
_COMPARISONS: Final[Mapping[MatchOperator, tuple[Callable[[ExpressionSpec, str | None], bool], bool]]] = {
    MatchOperator.ALWAYS_TRUE: (_always, False),
    MatchOperator.EXISTS: (_exists, False),
    MatchOperator.NOT_EXIST: (_exists, True),
    MatchOperator.NOT_EXISTS: (_exists, True),
    MatchOperator.EQUALS: (_is_one_of, False),
    MatchOperator.NOT_EQUAL: (_is_one_of, True),
    MatchOperator.IN: (_is_one_of, False),
    MatchOperator.NOT_IN: (_is_one_of, True),
    MatchOperator.MATCHES: (_matches_one_of, False),
    MatchOperator.MATCHES_NOT: (_matches_one_of, True),
    MatchOperator.MATCHES_ANY: (_matches_one_of, False),
    MatchOperator.MATCHES_NONE: (_matches_one_of, True),
}


@lru_cache(maxsize=1024)
def _segments(pattern: str) -> tuple[str, ...]:
    """Return the parts of a well-formed glob between slashes, in the notation of fnmatch."""
    return tuple(_SPECIAL.sub(_translated, part) for part in pattern.split("/"))


def _translated(found: re.Match[str]) -> str:
    escaped, negated, members = found.groups()
    if escaped:
        return f"[{escaped}]"
    # An exclamation mark negates where it is the first.
    plain = members[1:] + "!" if members.startswith("!") else members
    return f"[!{members}]" if negated else f"[{plain}]"
