"""Chooses the balloon type of a container, and reads what its annotations request."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from joulie_core.containers.annotations import DOMAIN, Annotations
from joulie_core.containers.balloons.state import Seat
from joulie_core.containers.balloons.types import BalloonType, BalloonTypes
from joulie_core.containers.container import ContainerInfo, TopologyHint
from joulie_core.containers.expressions import expand, matches
from joulie_core.containers.idset import Cpus, IdSet, InvalidIdListError
from joulie_core.containers.policy import PolicyWarning
from joulie_core.kinds.match_expression import ExpressionSpec

_DEVICES_OF_RESOURCE: Final = "resource:"


@dataclass(slots=True)
class BalloonChoice:
    """Balloon type and seat chosen for a container, with warnings."""

    #: None for a container that the policy leaves alone.
    type: BalloonType | None
    seat: Seat
    warnings: list[PolicyWarning] = field(default_factory=list)


class Selector:
    """Chooses balloon types by annotation, conditions and namespaces."""

    def __init__(
        self, types: BalloonTypes, preserve: Sequence[ExpressionSpec], scheduling_classes: Sequence[str]
    ) -> None:
        """Take the types in their order, and the conditions of containers that are left alone."""
        self._types = types
        self._preserve = tuple(preserve)
        self._scheduling_classes = frozenset(scheduling_classes)

    def choose(self, container: ContainerInfo) -> BalloonChoice:
        """Return the type of a container and its seat; an annotation that is wrong is ignored, with a warning."""
        annotations = Annotations(container)
        annotations.warn_of_unsupported()
        if self._preserved(container, annotations):
            return BalloonChoice(None, Seat(container=container), annotations.warnings)
        chosen = self._annotated(annotations) or self._by_rules(container)
        hide = annotations.flag("hide-hyperthreads")
        seat = Seat(
            container=container,
            type=chosen.name,
            group=expand(chosen.group_by, container) if chosen.group_by else None,
            hide_hyperthreads=chosen.hide_hyperthreads if hide is None else hide,
            pin_memory=chosen.pin_memory and not annotations.flag("memory.preserve"),
            memory_kinds=annotations.memory_kinds("memory-type") or chosen.memory_kinds,
            devices=_devices(chosen, annotations.wanted_hints(container.hints)),
            scheduling_class=_known(annotations, "scheduling-class", self._scheduling_classes)
            or chosen.scheduling_class,
        )
        return BalloonChoice(chosen, seat, annotations.warnings)

    def _preserved(self, container: ContainerInfo, annotations: Annotations) -> bool:
        return annotations.flag("cpu.preserve") is True or any(
            matches(condition, container) for condition in self._preserve
        )

    def _annotated(self, annotations: Annotations) -> BalloonType | None:
        name = _known(annotations, "balloon.balloons", self._types.by_name)
        return self._types.by_name[name] if name else None

    def _by_rules(self, container: ContainerInfo) -> BalloonType:
        types = self._types.by_name.values()
        for each in types:
            if any(matches(condition, container) for condition in each.match_expressions):
                return each
        for each in types:
            if any(fnmatchcase(container.pod.namespace, glob) for glob in each.namespaces):
                return each
        return self._types.default


def _known(annotations: Annotations, key: str, names: Container[str]) -> str | None:
    """Return the name in an annotation; with a warning, None where the configuration does not have it."""
    name = annotations.text(key)
    if name is None or name in names:
        return name
    annotations.warn("UnknownName", f"annotation {key}.{DOMAIN} is ignored: the configuration has no {name!r}")
    return None


def _devices(chosen: BalloonType, hints: Iterable[TopologyHint]) -> Mapping[str, Cpus]:
    """Return the CPUs close to the container's devices that its type wants to be close to."""
    found: dict[str, Cpus] = {}
    for hint in hints:
        resource = hint.provider.removeprefix(_DEVICES_OF_RESOURCE)
        if resource in chosen.close_resources and resource != hint.provider:
            try:
                found[resource] = IdSet.parse(hint.cpus)
            except InvalidIdListError:
                # What the kernel reports is not under the user's control; a hint is no more than a preference.
                continue
    return {resource: cpus for resource, cpus in found.items() if cpus}
