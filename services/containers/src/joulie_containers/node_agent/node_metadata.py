"""Rules of Kubernetes for labels, annotations, taints and extended resources of a node.

Checked before a request to the API server, so that a wrong value gets an error that names it and what is valid.
Source: Kubernetes, "Labels and Selectors", "Annotations" and "Extended Resources".
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.quantity import parse_quantity

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST_DOMAIN: Final = 253
_LONGEST_VALUE: Final = 63
#: All annotations of one object together.
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
#: Resources that the kubelet reports.
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_HUGEPAGES: Final = "hugepages-"
_RESERVED_DOMAIN: Final = "kubernetes.io"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def label_problems(labels: Mapping[str, str], removed: Collection[str] = ()) -> list[str]:
    """Return what is wrong with labels to set and to remove."""
    return [
        *_in_both("label", labels, removed),
        *_key_problems("label", [*labels, *removed]),
        *_value_problems("label", labels),
    ]


def annotation_problems(annotations: Mapping[str, str], removed: Collection[str] = ()) -> list[str]:
    """Return what is wrong with annotations to set and to remove."""
    problems = [*_in_both("annotation", annotations, removed), *_key_problems("annotation", [*annotations, *removed])]
    size_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size_bytes > _MOST_ANNOTATION_BYTES:
        problems.append(f"annotations: {size_bytes} bytes are more than {_MOST_ANNOTATION_BYTES}")
    return problems


def taint_problems(taints: Collection[pb.Taint]) -> list[str]:
    """Return what is wrong with taints."""
    return [
        *_key_problems("taint", [taint.key for taint in taints]),
        *_value_problems("taint", {taint.key: taint.value for taint in taints}),
        *(
            f"taint {taint.key!r}: effect {taint.effect!r} is not one of {', '.join(_EFFECTS)}"
            for taint in taints
            if taint.effect not in _EFFECTS
        ),
    ]


def capacity_problems(capacity: Mapping[str, str], removed: Collection[str] = ()) -> list[str]:
    """Return what is wrong with extended resources to set and to remove."""
    problems = [*_in_both("resource", capacity, removed)]
    for name in [*capacity, *removed]:
        problem = _resource_problem(name)
        if problem:
            problems.append(f"resource {name!r}: {problem}")
    for name, amount in capacity.items():
        if not _is_count(amount):
            problems.append(f"resource {name!r}: {amount!r} is not a whole number of at least 0")
    return problems


def _is_count(amount: str) -> bool:
    try:
        value = parse_quantity(amount)
    except ValueError:
        return False
    return value >= 0 and value == int(value)


def _resource_problem(name: str) -> str | None:
    if name in _NATIVE or name.startswith(_HUGEPAGES):
        return "the kubelet reports it; only extended resources can be set"
    domain, separator, rest = name.partition("/")
    if not separator or "." not in domain:
        return "write DOMAIN/NAME with a dot in the domain, such as example.com/part"
    if domain == _RESERVED_DOMAIN or domain.endswith(f".{_RESERVED_DOMAIN}"):
        return f"the domain {_RESERVED_DOMAIN} is reserved"
    return _key_problem(f"{domain}/{rest}")


def _in_both(what: str, values: Mapping[str, str], removed: Collection[str]) -> Iterator[str]:
    for key in sorted(values.keys() & set(removed)):
        yield f"{what} {key!r}: it cannot be set and removed at once"


def _key_problems(what: str, keys: Collection[str]) -> Iterator[str]:
    for key in keys:
        problem = _key_problem(key)
        if problem:
            yield f"{what} {key!r}: {problem}"


def _key_problem(key: str) -> str | None:
    domain, separator, name = key.rpartition("/")
    if separator and (len(domain) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(domain)):
        return f"before the slash, write a domain of lower case letters, digits, '-' and '.', up to {_LONGEST_DOMAIN}"
    if not _NAME.fullmatch(name):
        return "a name has 1 to 63 letters, digits, '-', '_' or '.', and begins and ends with a letter or digit"
    return None


def _value_problems(what: str, values: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        if value and (len(value) > _LONGEST_VALUE or not _NAME.fullmatch(value)):
            yield (
                f"{what} {key!r}: value {value!r}: a value is empty or has up to 63 letters, digits, '-', '_' or '.', "
                "and begins and ends with a letter or digit"
            )
