"""Annotations of pods about the placement of their containers.

The keys are those of the NRI resource policies, `KEY.resource-policy.nri.io`, so that pods can keep their manifests; no
keys of Joulie's own exist beside them. An annotation applies to one container (`.../container.NAME`), to the pod
(`.../pod`) or, with the bare key, to the pod as well; the most specific one counts.

A malformed annotation never stops a container: it is ignored, and the next less specific one counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from joulie_core.containers.affinity import Affinity, parse_affinities
from joulie_core.containers.container import ContainerInfo, TopologyHint
from joulie_core.containers.expressions import glob_matches
from joulie_core.containers.plain_yaml import parse_yaml
from joulie_core.containers.policy import PolicyWarning
from joulie_core.containers.topology import MemoryKind
from joulie_core.durations import DurationError, parse_duration
from joulie_core.kinds.match_expression import check_glob

DOMAIN: Final = "resource-policy.nri.io"
INVALID: Final = "InvalidAnnotation"
UNSUPPORTED: Final = "UnsupportedAnnotation"
#: Annotations of other resource policies that have no effect here, and why.
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "toptierlimit": "Linux has no limit for one tier of memory",
    "irq-affinity": "interrupts are moved for balloons only, by irqClaim and irqMode of their type",
}

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})
_LONGEST_SHOWN: Final = 80
#: Kinds of topology hints by the provider's prefix, with the prefix of their paths in lists.
_HINT_SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "mounts": ("mount:", ""),
    "devices": ("device:", ""),
    "pod-resources": ("resource:", "podresapi:"),
}

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class _Paths:
    """A list of paths in an annotation."""

    globs: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    def __contains__(self, path: str) -> bool:
        return path.startswith(self.prefixes) or any(glob_matches(glob, path) for glob in self.globs)


class Annotations:
    """The annotations that are in force for one container.

    Reading never fails. What was malformed is in `warnings`, for every annotation that was read.
    """

    def __init__(self, container: ContainerInfo) -> None:
        self._container = container
        self.warnings: list[PolicyWarning] = []

    def warn_of_unsupported(self) -> None:
        """Add a warning for each annotation that is meant for this container and has no effect."""
        for key, why in _WITHOUT_EFFECT.items():
            for name in self._names(key):
                if name in self._container.pod.annotations:
                    self.warn(UNSUPPORTED, f"annotation {name} is ignored: {why}")

    def text(self, key: str) -> str | None:
        """Return a text, such as the name of a class; None without annotation, as for all that follow."""
        return self._read(key, _not_empty)

    def flag(self, key: str) -> bool | None:
        """Return a boolean."""
        return self._read(key, _flag)

    def choice(self, key: str, kind: type[Choice]) -> Choice | None:
        """Return a member of an enumeration, by its value in any case."""
        return self._read(key, lambda text: _choice(text, kind))

    def memory_kinds(self, key: str) -> frozenset[MemoryKind]:
        """Return types of memory, such as of `dram,pmem`; empty without annotation."""
        return self._read(key, _memory_kinds) or frozenset()

    def duration(self, key: str) -> float | None:
        """Return seconds of a duration, written as `60s` or `duration: 60s`."""
        return self._read(key, _duration)

    def wanted_hints(self, hints: Sequence[TopologyHint]) -> tuple[TopologyHint, ...]:
        """Return the topology hints that the annotations leave."""
        sources = self._read("topologyhints", _hint_sources)
        if sources is None:
            sources = frozenset(_HINT_SOURCES)
        denied = self._read("deny.topologyhints", _paths) or _Paths()
        allowed = self._read("allow.topologyhints", _paths) or _Paths()
        return tuple(hint for hint in hints if _wanted(hint.provider, sources, denied, allowed))

    def affinities(self) -> tuple[Affinity, ...]:
        """Return the affinities and anti-affinities of the container to others."""
        return *self._affinities("affinity", 1), *self._affinities("anti-affinity", -1)

    def warn(self, reason: str, message: str) -> None:
        """Add a warning about this container."""
        self.warnings.append(PolicyWarning(container=self._container.id, reason=reason, message=message))

    def _affinities(self, name: str, default_weight: int) -> tuple[Affinity, ...]:
        key = f"{DOMAIN}/{name}"
        text = self._container.pod.annotations.get(key)
        if text is None:
            return ()
        container = self._container.name
        return self._parsed(key, text, lambda text: parse_affinities(parse_yaml(text), container, default_weight)) or ()

    def _read(self, key: str, parse: Callable[[str], Value]) -> Value | None:
        annotations = self._container.pod.annotations
        for name in self._names(key):
            if name in annotations and (value := self._parsed(name, annotations[name], parse)) is not None:
                return value
        return None

    def _names(self, key: str) -> tuple[str, ...]:
        """Return the annotations of a key that concern this container, the most specific one first."""
        base = f"{key}.{DOMAIN}"
        return f"{base}/container.{self._container.name}", f"{base}/pod", base

    def _parsed(self, name: str, text: str, parse: Callable[[str], Value]) -> Value | None:
        try:
            return parse(text)
        except ValueError as error:
            self.warn(INVALID, f"annotation {name} is ignored: {error}")
            return None


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{_shown(text)} is neither true nor false")
    return word in _TRUE


def _choice(text: str, kind: type[Choice]) -> Choice:
    try:
        return kind(text.strip().lower())
    except ValueError as error:
        raise ValueError(f"{_shown(text)} is not one of {', '.join(kind)}") from error


def _memory_kinds(text: str) -> frozenset[MemoryKind]:
    words = {part.strip().upper() for part in text.split(",")}
    if not words <= set(MemoryKind):
        raise ValueError(f"{_shown(text)} is no list of {', '.join(MemoryKind)}")
    return frozenset(map(MemoryKind, words))


def _duration(text: str) -> float:
    document = parse_yaml(text)
    written = document.get("duration") if isinstance(document, dict) else document
    if not isinstance(written, str):
        raise DurationError(text)
    seconds = parse_duration(written)
    if seconds <= 0:
        raise ValueError(f"{_shown(text)} is not a time above 0")
    return seconds


def _hint_sources(text: str) -> frozenset[str]:
    words = {part.strip().lower() for part in text.split(",")}
    if len(words) == 1:
        (word,) = words
        if word in _TRUE | {"all"}:
            return frozenset(_HINT_SOURCES)
        if word in _FALSE | {"none"}:
            return frozenset()
    if not words <= _HINT_SOURCES.keys():
        raise ValueError(f"{_shown(text)} is neither true nor false, nor a list of {', '.join(_HINT_SOURCES)}")
    return frozenset(words)


def _paths(text: str) -> _Paths:
    document = parse_yaml(text)
    paths = document.get("paths") if isinstance(document, dict) else None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError("write type, which is prefix or glob, and paths, a list")
    match document.get("type"):
        case "prefix":
            return _Paths(prefixes=tuple(paths))
        case "glob":
            return _Paths(globs=tuple(map(check_glob, paths)))
        case other:
            raise ValueError(f"type {_shown(str(other))} is neither prefix nor glob")


def _wanted(provider: str, sources: frozenset[str], denied: _Paths, allowed: _Paths) -> bool:
    for source, (prefix, path_prefix) in _HINT_SOURCES.items():
        if provider.startswith(prefix):
            path = path_prefix + provider.removeprefix(prefix)
            return source in sources and (path not in denied or path in allowed)
    return True


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")
