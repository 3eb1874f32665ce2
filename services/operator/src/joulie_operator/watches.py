"""The watches of the operator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from joulie_api.claims import Claims
from joulie_api.client import KubeClient
from joulie_api.node_pods import ACTIVE_PODS
from joulie_api.reflector import Reflector
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
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_operator.pods import PodDecoder, PodSummary
from joulie_operator.published import PublishedTarget, PublishedTwin, decode_target, decode_twin
from joulie_operator.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class OperatorWatches:
    """Everything that is read from the API server."""

    nodes: Reflector[Node]
    pods: Reflector[PodSummary]
    hardware: Reflector[Versioned[NodeHardware]]
    telemetry: Reflector[Versioned[TelemetryProfile]]
    bmcs: Reflector[Versioned[NodeBMC]]
    targets: Reflector[PublishedTarget]
    twins: Reflector[PublishedTwin]
    #: Not among `all`: nothing waits for them but the pods, and a cluster may not have any.
    claims: Claims

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        """All of them; pods last, since they count on nodes that are known."""
        return (self.nodes, self.hardware, self.telemetry, self.bmcs, self.targets, self.twins, self.pods)

    async def run_pods(self) -> NoReturn:
        """Watch pods, once their claims can be looked up."""
        await self.claims.wait_settled()
        await self.pods.run()


def watch(client: KubeClient, settings: OperatorSettings, on_unknown: Callable[[Pod], None]) -> OperatorWatches:
    """Return the watches, not started; `on_unknown` gets each pod whose workload class is not known."""
    claims = Claims(client, settings.device_class_gpus_json)
    return OperatorWatches(
        nodes=Reflector(client, NODES, decode_node, label_selector=settings.node_selector),
        # Finished pods demand nothing.
        pods=Reflector(client, PODS, PodDecoder(on_unknown, claims.gpus), field_selector=ACTIVE_PODS),
        hardware=Reflector(client, NODE_HARDWARES, decode_kind(NodeHardware)),
        telemetry=Reflector(client, TELEMETRY_PROFILES, decode_kind(TelemetryProfile)),
        bmcs=Reflector(client, NODE_BMCS, decode_kind(NodeBMC)),
        targets=Reflector(client, NODE_POWER_PROFILES, decode_target),
        twins=Reflector(client, NODE_TWINS, decode_twin),
        claims=claims,
    )
