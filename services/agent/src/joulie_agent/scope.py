"""Nodes that this process serves.

With the same number of shards in all agents, each node of a pool has exactly one.
"""

from dataclasses import dataclass

from joulie_agent.settings import AgentMode, AgentSettings
from joulie_core.fnv import shard_of
from joulie_core.labels import MANAGED
from joulie_core.node import Node


@dataclass(frozen=True, slots=True)
class Scope:
    """The nodes of one process."""

    #: Selectors of the watch on Nodes.
    label_selector: str
    field_selector: str
    #: Empty: a pool.
    node_name: str = ""
    shards: int = 1
    shard_id: int = 0

    def responsible(self, name: str) -> bool:
        """Return whether this process is responsible for a node of that name, managed or not."""
        return name == self.node_name if self.node_name else shard_of(name, self.shards) == self.shard_id

    def owns(self, node: Node) -> bool:
        """Return whether a watched node is served now; the watch has applied the pool's selector already."""
        return self.responsible(node.name) and (not self.node_name or is_managed(node))


def is_managed(node: Node) -> bool:
    """Return whether the node has opted in."""
    return node.labels.get(MANAGED) == "true"


def scope_of(settings: AgentSettings) -> Scope:
    """Return the scope that the settings describe."""
    if settings.agent_mode is AgentMode.DAEMONSET:
        name = settings.node_name
        return Scope(label_selector="", field_selector=f"metadata.name={name}", node_name=name)
    return Scope(
        label_selector=settings.pool_node_selector,
        field_selector="",
        shards=settings.pool_shards,
        shard_id=settings.shard_id or 0,
    )
