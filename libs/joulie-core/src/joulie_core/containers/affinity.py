"""Affinity of containers to others, as pods request it in annotations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from joulie_core.containers.container import ContainerInfo
from joulie_core.containers.expressions import matches
from joulie_core.kinds.match_expression import ExpressionSpec, MatchOperator

#: Weights beyond are lowered to this.
HEAVIEST: Final = 1000
#: Affinities of one container: each is compared with every container of the node.
MOST_AFFINITIES: Final = 16
#: Names beyond are ignored; pods have fewer containers.
_MOST_NAMES: Final = 64


class AffinityError(ValueError):
    """An annotation is no affinity; the message has the place and the reason."""


@dataclass(frozen=True, slots=True)
class Affinity:
    """The wish of a container to be close to others, or far from them."""

    #: From -1000 to 1000; negative for far.
    weight: int
    #: The containers that are meant.
    match: ExpressionSpec
    #: Among which containers; None for those of the same pod.
    scope: ExpressionSpec | None = None

    def applies(self, subject: ContainerInfo, other: ContainerInfo) -> bool:
        """Return whether this affinity of a container is about another one."""
        in_scope = subject.pod.id == other.pod.id if self.scope is None else matches(self.scope, other)
        return in_scope and subject.id != other.id and matches(self.match, other)


def parse_affinities(document: Any, container_name: str, default_weight: int) -> tuple[Affinity, ...]:
    """Return the affinities of one container of a pod.

    Args:
        document: Content of the annotation: by name of a container, a list of names in the same pod, which holds for
            these containers as well, or of mappings with `match` and, each optional, `scope` and `weight`.
        container_name: The container; none has affinities where it is absent.
        default_weight: 1 for an affinity, -1 for an anti-affinity, whose weights count negative.

    Raises:
        AffinityError: It has another form.
    """
    if not isinstance(document, Mapping):
        raise AffinityError("write affinities by container name, such as {main: [cache]}")
    entries = document.get(container_name) or []
    if not isinstance(entries, list):
        raise AffinityError(f"{container_name}: write a list of container names or of affinities")
    names = [entry for entry in entries if isinstance(entry, str)]
    if names and len(names) < len(entries):
        raise AffinityError(f"{container_name}: write either names or affinities, not both")
    if not names and len(entries) > MOST_AFFINITIES:
        raise AffinityError(f"{container_name}: write at most {MOST_AFFINITIES} affinities")
    others = () if names else tuple(_affinities(entries, container_name, default_weight))
    names += [name for name, named in document.items() if _names(named, container_name)]
    return *_by_name(names, default_weight), *others


def _names(entries: Any, container_name: str) -> bool:
    """Return whether the affinities of another container are names, and this one is among them."""
    return isinstance(entries, list) and container_name in entries and all(isinstance(each, str) for each in entries)


def _by_name(names: Iterable[Any], weight: int) -> Iterator[Affinity]:
    """Return the affinity to containers of the same pod."""
    values = tuple(dict.fromkeys(name for name in names if isinstance(name, str)))[:_MOST_NAMES]
    if values:
        yield Affinity(weight, ExpressionSpec(key="name", operator=MatchOperator.IN, values=values))


def _affinities(entries: Sequence[Any], container_name: str, default_weight: int) -> Iterator[Affinity]:
    for index, entry in enumerate(entries):
        place = f"{container_name}[{index}]"
        if not isinstance(entry, Mapping) or "match" not in entry:
            raise AffinityError(f"{place}: write match and, where needed, scope and weight")
        yield Affinity(
            weight=_weight(entry.get("weight"), place) * default_weight,
            match=_expression(entry["match"], f"{place}.match"),
            scope=_expression(entry["scope"], f"{place}.scope") if entry.get("scope") else None,
        )


def _weight(text: Any, place: str) -> int:
    """Return a weight within its limits; 0 and an absent weight are 1."""
    try:
        weight = int(text or 1) or 1
    except (TypeError, ValueError) as error:
        raise AffinityError(f"{place}.weight: write a whole number from -{HEAVIEST} to {HEAVIEST}") from error
    return max(-HEAVIEST, min(HEAVIEST, weight))


def _expression(value: Any, place: str) -> ExpressionSpec:
    try:
        return ExpressionSpec.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = "".join(f".{part}" for part in first["loc"])
        raise AffinityError(f"{place}{field}: {first['msg'].removeprefix('Value error, ')}") from error
