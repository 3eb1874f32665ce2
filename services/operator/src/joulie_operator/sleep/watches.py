"""The objects that the decision about sleep reads.

Nodes are all of the cluster, since the limit of a zone counts all of its nodes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joulie_api.client import KubeClient
from joulie_api.reflector import LocalCopy, Reflector, stale_reasons
from joulie_api.resources import (
    DAEMON_SETS,
    NODE_SLEEP_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
)
from joulie_api.wire import Versioned, decode_kind
from joulie_core.kinds import NodeBMC, NodeSleepPolicy
from joulie_operator.sleep.daemon_sets import WatchedDaemonSet, read_daemon_set
from joulie_operator.sleep.nodes import WatchedNode
from joulie_operator.sleep.pods import WatchedPod
from joulie_operator.sleep.volumes import WatchedClaim, WatchedVolume, read_claim, read_volume


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCluster:
    """Everything that is read, by name, at one moment."""

    nodes: Mapping[str, WatchedNode]
    pods: Mapping[str, WatchedPod]
    daemon_sets: Mapping[str, WatchedDaemonSet]
    bmcs: Mapping[str, Versioned[NodeBMC]]
    policies: Mapping[str, Versioned[NodeSleepPolicy]]
    claims: Mapping[str, WatchedClaim]
    volumes: Mapping[str, WatchedVolume]
    #: Whether there is a pod of which no version could be read: it may be on any node.
    pods_unknown: bool
    #: NodeBMCs of which no version could be read.
    unread_bmcs: frozenset[str]


class SleepWatches:
    """The watches; `own` are not started, the others are watches of the operator."""

    def __init__(
        self,
        client: KubeClient,
        nodes: LocalCopy[WatchedNode],
        pods: LocalCopy[WatchedPod],
        bmcs: LocalCopy[Versioned[NodeBMC]],
    ) -> None:
        daemon_sets = Reflector(client, DAEMON_SETS, read_daemon_set)
        policies = Reflector(client, NODE_SLEEP_POLICIES, decode_kind(NodeSleepPolicy))
        claims = Reflector(client, PERSISTENT_VOLUME_CLAIMS, read_claim)
        volumes = Reflector(client, PERSISTENT_VOLUMES, read_volume)
        self.own: tuple[Reflector[Any], ...] = (daemon_sets, policies, claims, volumes)
        self.all: tuple[LocalCopy[Any], ...] = (*self.own, nodes, pods, bmcs)
        self._pods = pods
        self._bmcs = bmcs
        self._stores = (nodes.store, pods.store, daemon_sets.store, bmcs.store, policies.store)
        self._volumes = claims.store, volumes.store

    def seen(self) -> WatchedCluster:
        """Return what is seen now."""
        nodes, pods, daemon_sets, bmcs, policies = self._stores
        claims, volumes = self._volumes
        return WatchedCluster(
            nodes=dict(nodes),
            pods=dict(pods),
            daemon_sets=dict(daemon_sets),
            bmcs=dict(bmcs),
            policies=dict(policies),
            claims=dict(claims),
            volumes=dict(volumes),
            pods_unknown=any(key not in pods for key in self._pods.invalid),
            unread_bmcs=frozenset(key for key in self._bmcs.invalid if key not in bmcs),
        )

    def on_waiting_pod(self, notify: Callable[[], None]) -> None:
        """Call `notify` for each pod that begins to wait for a node."""

        def on_pod(_: str, old: WatchedPod | None, new: WatchedPod | None) -> None:
            if new is not None and new.waits and not (old is not None and old.waits):
                notify()

        self._pods.subscribe(on_pod)

    def stale_reason(self) -> str | None:
        """Return which of them must not be believed, and why; None where all may."""
        return stale_reasons(self.all)
