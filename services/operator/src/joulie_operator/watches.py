"""The watches of the operator."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
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
from joulie_operator.pods import AwaitedGpus, PodDecoder, PodSummary
from joulie_operator.published import PublishedTarget, PublishedTwin, decode_target, decode_twin
from joulie_operator.settings import OperatorSettings, PowerDomainsMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Further decoders of Nodes and Pods, each of which is watched once; None where the part that asks is off."""

    #: Its objects have their Node as `node`; all nodes of the cluster are watched with it.
    node_for_sleep: Callable[[bytes], Any] | None
    pod_for_sleep: Callable[[bytes], Any] | None
    awaited_gpus: AwaitedGpus | None


@dataclass(frozen=True, slots=True)
class NodeWatch:
    """The one watch of Nodes, and its objects as they are read."""

    reflector: Reflector[Any]
    #: The nodes of the selector.
    managed: LocalCopy[Node]
    #: All nodes of the cluster; None where only those of the selector are watched.
    every: LocalCopy[Node] | None = None
    #: All of them as `Readers.node_for_sleep` reads them; None without it.
    for_sleep: LocalCopy[Any] | None = None


@dataclass(frozen=True, slots=True)
class PodWatch:
    """The one watch of Pods, and its objects as they are read."""

    reflector: Reflector[Any]
    summaries: LocalCopy[PodSummary]
    #: As `Readers.pod_for_sleep` reads them; None without it.
    for_sleep: LocalCopy[Any] | None = None


@dataclass(frozen=True, slots=True)
class OperatorWatches:
    """Everything that is read from the API server."""

    node_watch: NodeWatch
    pod_watch: PodWatch
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
    def pods(self) -> LocalCopy[PodSummary]:
        """The pods that have not ended."""
        return self.pod_watch.summaries

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        """All of them; pods last, since they count on nodes that are known."""
        nodes, pods = self.node_watch.reflector, self.pod_watch.reflector
        return (nodes, self.hardware, self.telemetry, self.bmcs, self.targets, self.twins, pods)

    async def run(self, reflector: Reflector[Any]) -> NoReturn:
        """Run one of them; pods, once their claims can be looked up."""
        if reflector is self.pod_watch.reflector:
            await self.claims.wait_settled()
        await reflector.run()


def watch(
    client: KubeClient, settings: OperatorSettings, on_unknown: Callable[[Pod], None], readers: Readers
) -> OperatorWatches:
    """Return the watches, not started.

    Args:
        client: of the API server.
        settings: of the operator.
        on_unknown: gets each pod whose workload class is not known.
        readers: of the parts of the operator that are switched on.
    """
    claims = Claims(client, settings.device_class_gpus_json)
    summary = PodDecoder(on_unknown, claims.gpus, readers.awaited_gpus)
    return OperatorWatches(
        node_watch=_watch_nodes(client, settings, readers.node_for_sleep),
        pod_watch=_watch_pods(client, summary, readers.pod_for_sleep),
        hardware=Reflector(client, NODE_HARDWARES, decode_kind(NodeHardware)),
        telemetry=Reflector(client, TELEMETRY_PROFILES, decode_kind(TelemetryProfile)),
        bmcs=Reflector(client, NODE_BMCS, decode_kind(NodeBMC)),
        targets=Reflector(client, NODE_POWER_PROFILES, decode_target),
        twins=Reflector(client, NODE_TWINS, decode_twin),
        claims=claims,
    )


def _watch_nodes(client: KubeClient, settings: OperatorSettings, for_sleep: Callable[[bytes], Any] | None) -> NodeWatch:
    """Return the watch of Nodes: of all where sleep or power domains need them, else of those of the selector.

    The limit of a zone, and the supply of a power domain, count nodes that are not managed.
    """
    requirements = parse_label_selector(settings.node_selector)

    def managed(node: Node) -> Node | None:
        return node if selects(requirements, node.labels) else None

    if for_sleep is not None:
        seen = Reflector(client, NODES, for_sleep)
        every: LocalCopy[Node] = MappedCopy(seen, attrgetter("node"))
        return NodeWatch(seen, managed=MappedCopy(every, managed), every=every, for_sleep=seen)
    if settings.power_domains is not PowerDomainsMode.OFF:
        nodes = Reflector(client, NODES, decode_node)
        return NodeWatch(nodes, managed=MappedCopy(nodes, managed), every=nodes)
    nodes = Reflector(client, NODES, decode_node, label_selector=settings.node_selector)
    return NodeWatch(nodes, managed=nodes)


def _watch_pods(
    client: KubeClient, summary: Callable[[bytes], PodSummary], for_sleep: Callable[[bytes], Any] | None
) -> PodWatch:
    """Return the watch of Pods: of those that have not ended, since finished ones demand nothing and hold no node.

    Where one reader cannot read a version of a pod, it is as it was before for both.
    """
    if for_sleep is None:
        pods = Reflector(client, PODS, summary, field_selector=ACTIVE_PODS)
        return PodWatch(pods, summaries=pods)
    read = for_sleep

    def read_both(raw: bytes) -> tuple[PodSummary, Any]:
        return summary(raw), read(raw)

    both = Reflector(client, PODS, read_both, field_selector=ACTIVE_PODS)
    return PodWatch(both, summaries=MappedCopy(both, itemgetter(0)), for_sleep=MappedCopy(both, itemgetter(1)))
