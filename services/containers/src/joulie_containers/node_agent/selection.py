"""Configuration of a container policy that applies to a node.

The object `node.NAME` precedes `group.GROUP`, where the node has a label of a group, or `default`, where it has none.
A node of a group never uses `default`: a group whose configuration is still to be written must not start with another.
Source: docs/decisions/0014-container-resources.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from joulie_containers.node_agent.objects import NodeObject
from joulie_core.labels import CONTAINER_POLICY_GROUP, NRI_POLICY_GROUP


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of the name that applies, one of each kind at most."""

    objects: tuple[NodeObject, ...] = ()

    @property
    def applied(self) -> NodeObject | None:
        """The object that configures the node; None where there is none, or where there are several."""
        return self.objects[0] if len(self.objects) == 1 else None

    @property
    def conflict(self) -> str | None:
        """Reason why none of several objects configures the node."""
        if len(self.objects) <= 1:
            return None
        names = ", ".join(str(each.key) for each in self.objects)
        return f"{names} apply to this node; one node has one container policy: remove all but one"


def select(node: str, labels: Mapping[str, str], objects: Iterable[NodeObject]) -> Selection:
    """Return what applies to a node, among the objects of all kinds."""
    by_name: dict[str, list[NodeObject]] = {}
    for each in objects:
        by_name.setdefault(each.key.name, []).append(each)
    for name in _names(node, labels):
        if name in by_name:
            return Selection(tuple(sorted(by_name[name], key=lambda each: each.key.resource.kind)))
    return Selection()


def group_of(labels: Mapping[str, str]) -> str | None:
    """Return the group of a node with these labels; None for a node without one."""
    return labels.get(CONTAINER_POLICY_GROUP) or labels.get(NRI_POLICY_GROUP) or None


def _names(node: str, labels: Mapping[str, str]) -> Iterator[str]:
    group = group_of(labels)
    yield f"node.{node}"
    yield f"group.{group}" if group else "default"
