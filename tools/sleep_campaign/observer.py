"""Violations of what Joulie promises, looked for beside it, at the servers and pods themselves.

Four figures have to be 0: pods that ran on a server when its power went; servers that Joulie has switched off and
neither lists nor wakes; pods that wait although a sleeping node fits them, for longer than its boot and a minute; and
nodes in quarantine, as every server here boots.
"""

import asyncio
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.sleep_campaign.api import CampaignApi
from tools.sleep_campaign.cluster import CampaignCluster
from tools.sleep_campaign.journal import Journal, stamp
from tools.sleep_campaign.placing import PlacingNode
from tools.sleep_campaign.pods import CampaignPod
from tools.sleep_campaign.servers import CampaignServer, ServerPhase
from tools.sleep_campaign.services import CampaignService

from joulie_core import labels
from joulie_core.sleep_state import SWITCHED_OFF, SleepState, labels_of

#: The last look at pods is so long before the request is sent, at most.
LOOK_S: Final = 0.05
#: After a start of a service: its lease, its first lists, its first decision, the first answers of all BMCs.
STARTS_S: Final = 120.0
#: A server that is off may be without a name for so long.
UNNAMED_S: Final = 120.0
#: A pod may wait for the boot and so long.
BEYOND_BOOT_S: Final = 60.0
_LOOK_S: Final = 10.0
#: Condition of the NodeBMC of a server that stays off until a person acts.
_LEFT_OFF: Final = "LeftOff"
_QUARANTINED: Final = SleepState.QUARANTINED.label
_STATES: Final = labels_of({*SWITCHED_OFF, SleepState.WAKING, SleepState.QUARANTINED})


@dataclass(frozen=True, slots=True)
class SleepViolation:
    """One thing that must not be; `node` is the one whose journal says more."""

    kind: str
    node: str
    what: str
    at_s: float


class SleepObserver:
    """Looks at a site; `violations` are what it has found.

    Pods that were bound after the last look, past the taint, are counted apart, by the seconds from the request:
    `races` are those that their kubelet has ended in order, `unended` those of kubelets without a
    `shutdownGracePeriod`, and `untainted` those that found no taint, which a person had removed after the last look.
    """

    def __init__(
        self, cluster: CampaignCluster, api: CampaignApi, services: Sequence[CampaignService], journal: Journal
    ) -> None:
        self.violations: list[SleepViolation] = []
        #: What happened to the node of each until then.
        self.logs: list[list[str]] = []
        self.races: list[float] = []
        self.unended: list[float] = []
        self.untainted: list[float] = []
        #: When a person removed Joulie's taint last, by node.
        self.taint_removed_at_s: dict[str, float] = {}
        #: How often power went.
        self.offs = 0
        #: Since when there was no outage of the API server; and of BMCs, by node.
        self.api_since_s = 0.0
        self.bmc_since_s: dict[str, float] = {}
        #: Since when a policy acts, None while none does; and since when no clock has been changed.
        self.policy_since_s: float | None = 0.0
        self.calm_since_s = 0.0
        #: Nodes that people have for themselves.
        self.taken: set[str] = set()
        self._cluster, self._api, self._services, self._journal = cluster, api, services, journal
        self._loop = asyncio.get_running_loop()
        self._looked_at_s = 0.0
        self._unnamed_since_s: dict[str, float] = {}
        self._quarantined: set[str] = set()
        self._sleeping_since_s: dict[str, float] = {}

    # --- pods cut -----------------------------------------------------------------------------------------------------

    def asked_off(self, server: CampaignServer) -> None:
        """Look at the pods on a server at the moment at which a shutdown begins, which its kubelet may end before."""
        if server.graceful:
            self._judge(server, at_request=True)

    def power_goes(self, server: CampaignServer) -> None:
        """Look at the pods that run on a server at the moment at which its power goes."""
        self.offs += 1
        self._judge(server, at_request=False)

    def _judge(self, server: CampaignServer, *, at_request: bool) -> None:
        for pod in self._cluster.running_on(server):
            after_s = pod.bound_at_s - server.asked_at_s
            if after_s >= -LOOK_S and pod.past_taint:
                # After the last look, past a taint that keeps pods away; nothing of Joulie can take the request back.
                (self.races if at_request else self.unended).append(after_s)
                continue
            removed_at_s = self.taint_removed_at_s.get(server.name)
            if removed_at_s is not None and server.asked_at_s - LOOK_S <= removed_at_s <= pod.bound_at_s:
                self.untainted.append(after_s)
                continue
            how = "by hand" if pod.by_hand else "by kube-scheduler"
            side = "after" if after_s >= 0 else "before"
            what = f"{pod.name} ({pod.template.owner or 'bare'}), bound {how} {abs(after_s):.3f} s {side} the request"
            self._found("pod cut", server.name, what, min(pod.bound_at_s, server.asked_at_s) - 300)

    # --- looked at from time to time ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Look for servers that are off and not named, and for pods that wait too long."""
        now_s = self._loop.time()
        if now_s - self._looked_at_s < _LOOK_S:
            return
        self._looked_at_s = now_s
        calm_s = self._calm_since_s()
        sleeping: dict[str, PlacingNode] = {}
        for name, server in self._cluster.servers.items():
            self._look_at(server, now_s, calm_s)
            self._look_for_quarantine(name)
            node = self._wakeable(server, calm_s)
            if node is None:
                self._sleeping_since_s.pop(name, None)
            else:
                self._sleeping_since_s.setdefault(name, now_s)
                sleeping[name] = node
        for pod in list(self._cluster.pods.values()):
            self._look_for(pod, sleeping, now_s)

    def _calm_since_s(self) -> float | None:
        """Return since when everything of Joulie could work; None while something cannot."""
        starts = [service.since_s for service in self._services]
        if self._api.away or None in starts:
            return None
        return max(*(start for start in starts if start is not None), self.api_since_s, self.calm_since_s) + STARTS_S

    def _look_at(self, server: CampaignServer, now_s: float, calm_s: float | None) -> None:
        off = server.is_off and server.by_service
        if calm_s is None or now_s < calm_s or not off or self._is_named(server.name):
            self._unnamed_since_s.pop(server.name, None)
            return
        since_s = self._unnamed_since_s.setdefault(server.name, now_s)
        if since_s < float("inf") and now_s - since_s > UNNAMED_S:
            self._unnamed_since_s[server.name] = float("inf")
            since_s = min(since_s, server.changed_at_s)
            self._found("unknown off", server.name, f"off, and not named since {stamp(since_s)}", since_s - 600)

    def _look_for_quarantine(self, name: str) -> None:
        node = self._cluster.node(name)
        if node is None or node.labels.get(labels.SLEEP_STATE) != _QUARANTINED:
            self._quarantined.discard(name)
        elif name not in self._quarantined:
            self._quarantined.add(name)
            self._found("quarantined", name, "in quarantine, and its server boots", self._loop.time() - 3 * 3600)

    def uninstalled(self, named: Container[str] = ()) -> None:
        """Look at what is off after an uninstall, besides what it has named."""
        for name, server in self._cluster.servers.items():
            if server.is_off and server.by_service and name not in named:
                since_s = server.changed_at_s
                self._found("unknown off", name, f"off since {stamp(since_s)}, and uninstalled", since_s - 600)

    def _is_named(self, name: str) -> bool:
        """Return whether Joulie lists a server as off, or wakes it."""
        node, bmc = self._api.get("Node", name), self._api.get("NodeBMC", name)
        if node is not None and _label(node, labels.SLEEP_STATE) in _STATES:
            return True
        if bmc is None:
            return False
        conditions = bmc.get("status", {}).get("conditions", ())
        left_off = any((each["type"], each["status"]) == (_LEFT_OFF, "True") for each in conditions)
        return left_off or bmc["spec"].get("desiredPower") == "On"

    def _wakeable(self, server: CampaignServer, calm_s: float | None) -> PlacingNode | None:
        """Return a node that sleeps or is woken as it will be when it is awake; None of any that must not be woken."""
        now_s, name = self._loop.time(), server.name
        asleep = server.by_service and server.phase in {ServerPhase.OFF, ServerPhase.STARTING, ServerPhase.BOOTING}
        bmc_s = self.bmc_since_s.get(name, 0.0) + STARTS_S
        if not asleep or calm_s is None or now_s < max(calm_s, bmc_s) or name in self.taken:
            return None
        node = self._cluster.node(name)
        if self.policy_since_s is None or node is None or node.unschedulable or not self._api.version("NodeBMC", name):
            return None
        lasting = tuple(
            taint for taint in node.taints if not taint[0].startswith((labels.PREFIX, "node.kubernetes.io/"))
        )
        return PlacingNode(node.name, node.labels, lasting, unschedulable=False, cpu=node.cpu)

    def _look_for(self, pod: CampaignPod, sleeping: Mapping[str, PlacingNode], now_s: float) -> None:
        if pod.ending or not pod.counts or pod.boot or (pod.node and pod.node not in sleeping):
            pod.waits_since_s = None
            return
        if pod.node:
            fitting = [pod.node]
        elif pod.unschedulable:
            fitting = [name for name, node in sleeping.items() if self._cluster.could_take(pod, node)]
        else:
            return
        if not fitting:
            pod.waits_since_s = None
            return
        pod.waits_since_s = now_s if pod.waits_since_s is None else pod.waits_since_s
        # One that has slept for long enough.
        slept = [name for name in fitting if self._sleeping_since_s[name] <= pod.waits_since_s]
        limit_s = max((self._cluster.servers[name].boot_s for name in slept), default=float("inf"))
        if now_s - pod.waits_since_s > limit_s + BEYOND_BOOT_S and not pod.reported:
            pod.reported = True
            bound = f", bound to {pod.node}" if pod.node else ""
            what = f"{pod.name} ({pod.template.owner or 'bare'}{_needs(pod)}){bound} waits since "
            what += f"{stamp(pod.waits_since_s)}, and fits {', '.join(slept[:5])}"
            self._found("stuck", slept[0], what, pod.waits_since_s - 300)

    def _found(self, kind: str, node: str, what: str, since_s: float) -> None:
        self._journal.note(node, f"VIOLATION: {kind}: {what}")
        self.violations.append(SleepViolation(kind, node, what, self._loop.time()))
        self.logs.append(self._journal.about(node, since_s=since_s))


def _label(obj: Mapping[str, Any], key: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(key, ""))


def _needs(pod: CampaignPod) -> str:
    template = pod.template
    found = {
        "tolerates everything": template.tolerates_all,
        "local volume": bool(template.volume_node),
        "apart": template.apart,
        "together": template.together,
    }
    return "".join(f", {name}" for name, holds in found.items() if holds)
