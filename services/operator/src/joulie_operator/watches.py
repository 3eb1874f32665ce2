"""The watches of the operator."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn

from joulie_api.claims import Claims
from joulie_api.client import KubeClient
from joulie_api.node_pods import ACTIVE_PODS
from joulie_api.reflector import LocalCopy, MappedCopy, Reflector
from joulie_api.resources import (
    NODE_BMCS,
    NODE_HARDWARES,
    NODE_POWER_PROFILES,
    NODE_TWINS,
    NODES,
    PODS,
    TELEMETRY_PROFILES,
)
from joulie_api.wire import Versioned, decode_kind, decode_node
from joulie_core.kinds import NodeBMC, NodeHardware, TelemetryProfile
from joulie_core.label_selector import parse_label_selector, selects
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_operator.pods import PodDecoder, PodSummary
from joulie_operator.published import PublishedTarget, PublishedTwin, decode_target, decode_twin
from joulie_operator.settings import OperatorSettings, PowerDomainsMode


@dataclass(frozen=True, slots=True)
class NodeWatch:
    """The one watch of Nodes, and its objects as they are read."""

    reflector: Reflector[Any]
    #: The nodes of the selector.
    managed: LocalCopy[Node]
    #: All nodes of the cluster; None where only those of the selector are watched.
    every: LocalCopy[Node] | None = None


@dataclass(frozen=True, slots=True)
class OperatorWatches:
    """Everything that is read from the API server."""

    node_watch: NodeWatch
    pods: Reflector[PodSummary]
    hardware: Reflector[Versioned[NodeHardware]]
    telemetry: Reflector[Versioned[TelemetryProfile]]
    bmcs: Reflector[Versioned[NodeBMC]]
    targets: Reflector[PublishedTarget]
    twins: Reflector[PublishedTwin]
    #: Not among `all`: nothing waits for them but the pods, and a cluster may not have any.
    claims: Claims

    @property
    def nodes(self) -> LocalCopy[Node]:
        """The managed nodes."""
        return self.node_watch.managed

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        """All of them; pods last, since they count on nodes that are known."""
        nodes = self.node_watch.reflector
        return (nodes, self.hardware, self.telemetry, self.bmcs, self.targets, self.twins, self.pods)

    async def run_pods(self) -> NoReturn:
        """Watch pods, once their claims can be looked up."""
        await self.claims.wait_settled()
        await self.pods.run()


def watch(
    client: KubeClient,
    settings: OperatorSettings,
    on_unknown: Callable[[Pod], None],
    seen_nodes: Reflector[Any] | None = None,
) -> OperatorWatches:
    """Return the watches, not started.

    Args:
        client: of the API server.
        settings: of the operator.
        on_unknown: gets each pod whose workload class is not known.
        seen_nodes: a watch of all nodes whose objects have their Node as `node`, and more; it serves all then.
    """
    claims = Claims(client, settings.device_class_gpus_json)
    return OperatorWatches(
        node_watch=_watch_nodes(client, settings, seen_nodes),
        # Finished pods demand nothing.
        pods=Reflector(client, PODS, PodDecoder(on_unknown, claims.gpus), field_selector=ACTIVE_PODS),
        hardware=Reflector(client, NODE_HARDWARES, decode_kind(NodeHardware)),
        telemetry=Reflector(client, TELEMETRY_PROFILES, decode_kind(TelemetryProfile)),
        bmcs=Reflector(client, NODE_BMCS, decode_kind(NodeBMC)),
        targets=Reflector(client, NODE_POWER_PROFILES, decode_target),
        twins=Reflector(client, NODE_TWINS, decode_twin),
        claims=claims,
    )


def _watch_nodes(client: KubeClient, settings: OperatorSettings, seen: Reflector[Any] | None) -> NodeWatch:
    """Return the watch of Nodes: of all where sleep or power domains need them, else of those of the selector.

    The limit of a zone, and the supply of a power domain, count nodes that are not managed.
    """
    requirements = parse_label_selector(settings.node_selector)

    def managed(node: Node) -> Node | None:
        return node if selects(requirements, node.labels) else None

    if seen is not None:
        every: LocalCopy[Node] = MappedCopy(seen, attrgetter("node"))
        return NodeWatch(seen, managed=MappedCopy(every, managed), every=every)
    if settings.power_domains is not PowerDomainsMode.OFF:
        nodes = Reflector(client, NODES, decode_node)
        return NodeWatch(nodes, managed=MappedCopy(nodes, managed), every=nodes)
    nodes = Reflector(client, NODES, decode_node, label_selector=settings.node_selector)
    return NodeWatch(nodes, managed=nodes)
