"""Tells the resource manager how much longer each pod of the node may run, as the API server's objects say.

Guarantees that what is told is decided by the rule of limits of GPUs; that nothing is told from a copy of the pods that
is incomplete or old, so that what was told before ends by itself; and that a text of an object leaves this process as
one of a few values only.
Source: docs/decisions/0067-class-limits-on-cores.md.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from joulie_api.client import KubeClient
from joulie_api.namespaces import NamespacesWatch
from joulie_api.reflector import Reflector
from joulie_api.resources import PODS
from joulie_api.wire import decode_pod
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.held_limit import HolderPods
from joulie_core.class_caps.pod_consent import TOLD_EVERY_S, PodConsent, told_consent
from joulie_core.holders.records import PODS_TOLERANCE_S, NodePod, node_pod


@dataclass(frozen=True, slots=True)
class ToldConsent:
    """The consent of one pod, as it is told."""

    namespace: str
    pod: str
    #: As the kubelet has it.
    uid: str
    consent: PodConsent

    def message(self) -> pb.PodConsent:
        """Return the message."""
        slowdown = self.consent.slowdown
        return pb.PodConsent(
            namespace=self.namespace,
            pod=self.pod,
            pod_uid=self.uid,
            allowed="" if slowdown is None else slowdown.allowed,
            source="" if slowdown is None else slowdown.source,
            consents=self.consent.consents,
        )


class PodConsentsWatch:
    """The pods of one node, and all Namespaces, as far as they say how much longer pods may run.

    Args:
        client: client of the API server.
        node_name: name of the node.
        default: of the cluster, where neither a pod nor its Namespace says so.
        default_is_consent: whether that is the consent of the owners.
    """

    def __init__(
        self, client: KubeClient, node_name: str, *, default: AllowedSlowdown, default_is_consent: bool
    ) -> None:
        self._pods: Reflector[NodePod] = Reflector(
            client, PODS, lambda raw: node_pod(decode_pod(raw)), field_selector=f"spec.nodeName={node_name}"
        )
        self._namespaces = NamespacesWatch(client)
        self._default = default
        self._default_is_consent = default_is_consent
        #: Counts the times of telling: what has not changed is told again.
        self._turn = 0

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """The watches, to be run."""
        return self._pods, self._namespaces.reflector

    @property
    def turn(self) -> int:
        """Differs where the same is to be told again."""
        return self._turn

    def current(self) -> tuple[ToldConsent, ...] | None:
        """Return what the pods that have not ended allow; None while pods are not known, or Namespaces were not."""
        if self._pods.is_stale(PODS_TOLERANCE_S) or not self._namespaces.reflector.synced.is_set():
            return None
        pods = {key: pod for key, pod in self._pods.store.items() if key not in self._pods.invalid and pod.active}
        known = HolderPods(pods, self._namespaces.annotations, self._default, self._default_is_consent)
        return tuple(
            ToldConsent(each.namespace, each.name, each.cgroup_uid, told_consent(each, known)) for each in pods.values()
        )

    async def run(self, wake: Callable[[], None]) -> NoReturn:
        """Call a function after each change, and when the same is to be told again, until cancelled."""
        for reflector in self.reflectors:
            reflector.subscribe(lambda _key, _old, _new: wake())
        while True:
            wake()
            await asyncio.sleep(TOLD_EVERY_S)
            self._turn += 1
