"""Kubernetes around Joulie: kubelets, the controllers of pods and Nodes, kube-scheduler, and the eviction API.

A pod runs only where a kubelet has taken it, and only while its server has power. A Node whose kubelet is silent is not
ready after a grace period, and its pods are deleted five minutes later; pods of a deleted Node are deleted as well.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tools.sleep_campaign.api import CampaignApi
from tools.sleep_campaign.journal import SITE, Journal
from tools.sleep_campaign.placing import PlacingNode, takes
from tools.sleep_campaign.pods import CampaignPod, PodTemplate, manifest
from tools.sleep_campaign.servers import CampaignServer, ServerPhase
from tools.sleep_campaign.virtual_time import START_S

from joulie_core import labels
from joulie_core.scoring.filter import is_sleeping
from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_node

_NAMESPACE: Final = "default"
#: After which the node controller takes a kubelet for silent, and after which it deletes pods of its node.
_SILENT_S, _EVICTED_S = 40.0, 300.0
#: After which pods of a Node that does not exist are deleted.
_ORPHANED_S: Final = 40.0
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_ENDS_S: Final = (1.0, 15.0)
_KEPT_S: Final = 60.0
_NOT_ALLOWED, _NOT_FOUND, _CREATED = 429, 404, 201
_CPUS: Final = 16


@dataclass(slots=True)
class Workload:
    """Pods of one template; `replicas` are kept running by their controller."""

    template: PodTemplate
    replicas: int


class CampaignCluster:
    """The cluster; `pods` by name are what there is, and the API server has the same."""

    def __init__(self, api: CampaignApi, dice: Random, journal: Journal) -> None:
        self.pods: dict[str, CampaignPod] = {}
        self.workloads: dict[str, Workload] = {}
        self.servers: dict[str, CampaignServer] = {}
        #: Whether kube-scheduler goes on without the extender, which keeps every pod off nodes that sleep.
        self.without_extender = False
        self._api, self._dice, self._journal = api, dice, journal
        self._loop = asyncio.get_running_loop()
        self._nodes: dict[str, tuple[int, PlacingNode | None]] = {}
        self._silent_since_s: dict[str, float] = {}
        self._tainted_at_s: dict[str, float] = {}
        self._missing_since_s: dict[str, float] = {}
        self._removed_at_s: dict[str, float] = {}
        self._seen_changes = -1
        self._dirty = True
        self._numbers: defaultdict[str, int] = defaultdict(int)
        #: Pods that were made.
        self.made = 0
        api.evict = self._evict

    # --- what there is ------------------------------------------------------------------------------------------------

    def node(self, name: str) -> PlacingNode | None:
        """Return a Node; None where it is deleted."""
        version = self._api.version("Node", name)
        known = self._nodes.get(name)
        if known is None or known[0] != version:
            found = self._api.get("Node", name) if version else None
            known = self._nodes[name] = version, None if found is None else PlacingNode.read(found)
        return known[1]

    def on(self, name: str) -> list[CampaignPod]:
        """Return the pods that are bound to a node and have not ended."""
        return [pod for pod in self.pods.values() if pod.node == name and not pod.finished]

    def running_on(self, server: CampaignServer) -> list[CampaignPod]:
        """Return the pods that a server would take along if its power went now."""
        return [pod for pod in self.on(server.name) if pod.boot and pod.counts]

    def could_take(self, pod: CampaignPod, node: PlacingNode) -> bool:
        """Return whether kube-scheduler would place a pod on a node."""
        mates = (each for each in self.pods.values() if each.template.app == pod.template.app)
        bound = [each for each in mates if each.node and not each.finished]
        return takes(pod, node, self.on(node.name), bound)

    # --- what is made and ended ---------------------------------------------------------------------------------------

    def add_server(self, server: CampaignServer, marks: Mapping[str, str]) -> None:
        """Add a server whose kubelet has registered its Node."""
        self.servers[server.name] = server
        self._register(server, marks)

    def make(self, template: PodTemplate, *, runs_s: float = float("inf"), node: str = "") -> CampaignPod:
        """Make a pod; with a node that a person has named, it is bound to it."""
        self._numbers[template.app] += 1
        self.made += 1
        pod = CampaignPod(f"{template.app}-{self._numbers[template.app]}", template, self._loop.time(), runs_s)
        if node:
            pod.node, pod.bound_at_s, pod.by_hand = node, self._loop.time(), not pod.is_of_node
            pod.past_taint = self._is_tainted(node)
            self._journal.note(node, f"pod: {pod.name} made on it" + (" by hand" if pod.by_hand else ""))
        self.pods[pod.name] = pod
        self._api.put(manifest(pod))
        self._dirty = True
        return pod

    def end(self, pod: CampaignPod) -> None:
        """Delete a pod: at once where it is not bound, else when its kubelet has ended it."""
        if pod.finished or not pod.node:
            self._forget(pod)
        elif not pod.ending:
            pod.ending = True
            self._removed_at_s[pod.name] = self._loop.time() + self._dice.uniform(*_ENDS_S)
            now = rfc3339(START_S + self._loop.time(), "seconds")
            self._api.patch("Pod", pod.name, {"metadata": {"deletionTimestamp": now}}, _NAMESPACE)

    def _forget(self, pod: CampaignPod) -> None:
        del self.pods[pod.name]
        self._removed_at_s.pop(pod.name, None)
        self._api.remove("Pod", pod.name, _NAMESPACE)
        self._dirty = True

    def _is_tainted(self, name: str) -> bool:
        node = self.node(name)
        return node is not None and any(key == labels.ASLEEP_TAINT for key, _ in node.taints)

    def _evict(self, _namespace: str, name: str) -> int:
        pod = self.pods.get(name)
        if pod is None:
            return _NOT_FOUND
        template = pod.template
        if template.min_available and not pod.ending and pod.boot:
            healthy = [each for each in self.pods.values() if each.template.app == template.app and each.boot]
            if sum(not each.ending and not each.finished for each in healthy) <= template.min_available:
                return _NOT_ALLOWED
        self._journal.note(pod.node or SITE, f"evicted: {name}")
        self.end(pod)
        return _CREATED

    # --- power --------------------------------------------------------------------------------------------------------

    def shuts_down(self, server: CampaignServer) -> None:
        """Have a kubelet that knows of the shutdown say so."""
        self._report(server, ready=False)

    def pods_ended(self, server: CampaignServer) -> None:
        """Have a kubelet that knows of the shutdown end its pods."""
        for pod in self.running_on(server):
            self._finish(pod, "Failed")

    def went_off(self, server: CampaignServer) -> None:
        """End everything that runs on a server, as its power does."""
        for pod in self.on(server.name):
            pod.boot = 0
        self._silent_since_s[server.name] = self._loop.time()

    def came_up(self, server: CampaignServer) -> None:
        """Have the kubelet of a server report, and register its Node where there is none."""
        self._silent_since_s.pop(server.name, None)
        if self._api.get("Node", server.name) is None:
            self._register(server, {"pool": "sleepy"})
        self._report(server, ready=True)

    def _register(self, server: CampaignServer, marks: Mapping[str, str]) -> None:
        node = make_node(server.name, labels=marks, cpu=_CPUS, memory="64Gi", cpu_model="AMD EPYC 7763", cpu_sockets=2)
        node["status"]["nodeInfo"] = {"bootID": server.boot_id}
        self._api.put(node)
        self._missing_since_s.pop(server.name, None)

    def _report(self, server: CampaignServer, *, ready: bool) -> None:
        """Write the readiness of a Node, with the taints that the node controller derives of it."""
        node = self._api.get("Node", server.name)
        if node is None:
            return
        condition = {
            "type": "Ready",
            "status": "True" if ready else "Unknown",
            "reason": "KubeletReady" if ready else "NodeStatusUnknown",
            "lastTransitionTime": rfc3339(START_S + self._loop.time(), "seconds"),
        }
        others = [each for each in node["status"].get("conditions", ()) if each["type"] != "Ready"]
        taints = [each for each in node["spec"].get("taints") or () if each["key"] != _UNREACHABLE]
        if not ready:
            taints += [{"key": _UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        info = {"nodeInfo": {"bootID": server.boot_id}} if ready else {}
        status = {"conditions": [*others, condition], **info}
        self._api.patch("Node", server.name, {"spec": {"taints": taints}, "status": status})
        self._journal.note(server.name, f"kubelet: {'ready' if ready else 'silent'}")

    # --- controllers --------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what all controllers and kubelets do in a moment; nothing while the API server is away."""
        if self._api.away:
            return
        now_s = self._loop.time()
        for name, since_s in [*self._silent_since_s.items()]:
            if since_s + _SILENT_S <= now_s < float("inf"):
                self._silent_since_s[name], self._tainted_at_s[name] = float("inf"), now_s
                self._report(self.servers[name], ready=False)
        self._follow_nodes(now_s)
        self._run_pods(now_s)
        self._keep_replicas()
        self._schedule()

    def _end_all(self, pods: Iterable[CampaignPod]) -> None:
        for pod in list(pods):
            self.end(pod)

    def _follow_nodes(self, now_s: float) -> None:
        for name, server in self.servers.items():
            node = self.node(name)
            if node is None:
                since_s = self._missing_since_s.setdefault(name, now_s)
                if now_s - since_s > _ORPHANED_S:
                    for pod in self.on(name):
                        self._forget(pod)
                    # A kubelet registers its Node once in its life: a person restarts it, where the server stays on.
                    if server.phase is ServerPhase.UP:
                        self.came_up(server)
                continue
            keys = {key for key, effect in node.taints if effect == "NoExecute"}
            if keys:
                # Every pod tolerates a silent kubelet for some minutes, and no other such taint.
                tolerated_s = _EVICTED_S if keys == {_UNREACHABLE} else 0.0
                found = (pod for pod in self.on(name) if not pod.template.tolerates_all and not pod.is_of_node)
                self._end_all(
                    pod
                    for pod in found
                    if now_s - max(pod.bound_at_s, self._tainted_at_s.get(name, 0.0)) >= tolerated_s
                )

    def _run_pods(self, now_s: float) -> None:
        for pod in list(self.pods.values()):
            if pod.finished and now_s > pod.started_at_s + pod.runs_s + _KEPT_S:
                self._forget(pod)
                continue
            server = self.servers.get(pod.node)
            if server is not None and server.has_kubelet and not pod.finished:
                self._run_pod(pod, server, now_s)

    def _run_pod(self, pod: CampaignPod, server: CampaignServer, now_s: float) -> None:
        """Do what a kubelet does for a pod in a moment."""
        if pod.ending:
            if now_s >= self._removed_at_s[pod.name]:
                self._forget(pod)
        elif pod.boot:
            if now_s >= pod.started_at_s + pod.runs_s:
                self._finish(pod, "Succeeded")
        elif server.takes_pods:
            pod.boot, pod.started_at_s = server.boots, now_s
            self._write_phase(pod, "Running")
        elif pod.counts:
            pod.started_at_s = now_s
            self._journal.note(server.name, f"refused: {pod.name}")
            self._finish(pod, "Failed")

    def _finish(self, pod: CampaignPod, phase: str) -> None:
        pod.finished, pod.boot = True, 0
        pod.runs_s = min(pod.runs_s, self._loop.time() - pod.started_at_s)
        self._dirty = True
        self._write_phase(pod, phase)

    def _write_phase(self, pod: CampaignPod, phase: str) -> None:
        self._api.patch("Pod", pod.name, {"status": {"phase": phase}}, _NAMESPACE)

    def _keep_replicas(self) -> None:
        found: defaultdict[str, list[CampaignPod]] = defaultdict(list)
        for pod in self.pods.values():
            found[pod.template.app].append(pod)
        for app, workload in self.workloads.items():
            pods, template = found[app], workload.template
            if template.owner == "DaemonSet":
                missing = {name for name in self.servers if self.node(name)} - {pod.node for pod in pods}
                for name in sorted(missing):
                    self.make(template, node=name)
                continue
            active = [pod for pod in pods if not pod.finished and not pod.ending]
            for pod in active[workload.replicas :]:
                self.end(pod)
            # The pod of a local volume keeps its name, so that there is one at a time.
            blocked = template.owner == "StatefulSet" and len(pods) >= workload.replicas
            if not blocked:
                for _ in range(workload.replicas - len(active)):
                    self.make(template)

    # --- kube-scheduler -----------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        changes = self._api.changes("Node")
        if not self._dirty and changes == self._seen_changes:
            return
        self._dirty, self._seen_changes = False, changes
        waiting = [pod for pod in self.pods.values() if not pod.node and not pod.finished]
        if not waiting:
            return
        nodes = [node for name in self.servers if (node := self.node(name)) is not None]
        if not self.without_extender:
            nodes = [node for node in nodes if not is_sleeping(node.labels)]
        for pod in waiting:
            fitting = [node for node in nodes if self.could_take(pod, node)]
            if fitting:
                self._bind(pod, max(fitting, key=lambda node: (self._used(node.name), node.name)))
            elif not pod.unschedulable:
                pod.unschedulable = True
                self._write_conditions(pod, "False", "Unschedulable")

    def _used(self, name: str) -> float:
        return sum(pod.template.cpu for pod in self.on(name))

    def _bind(self, pod: CampaignPod, node: PlacingNode) -> None:
        pod.node, pod.bound_at_s, pod.unschedulable = node.name, self._loop.time(), False
        pod.past_taint = self._is_tainted(node.name)
        self._journal.note(node.name, f"pod: {pod.name} bound")
        self._api.patch("Pod", pod.name, {"spec": {"nodeName": node.name}}, _NAMESPACE)
        self._write_conditions(pod, "True", "")

    def _write_conditions(self, pod: CampaignPod, status: str, reason: str) -> None:
        condition: dict[str, Any] = {"type": "PodScheduled", "status": status}
        if reason:
            message = f"0/{len(self.servers)} nodes are available"
            condition |= {"reason": reason, "message": message}
        self._api.patch("Pod", pod.name, {"status": {"conditions": [condition]}}, _NAMESPACE)
