"""The writes about one node: its record with label and taint, its condition, its power, and evictions.

Guarantees that a record is stored before it is carried out, and only on the version of the Node that it was decided by;
the same holds for the desired power and its NodeBMC. All methods raise KubeError.
"""

from typing import Any, Final

import msgspec

from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.node_pods import pod_in_the_way
from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES
from joulie_api.wire import Versioned
from joulie_api.wire.nodes import WireTaint
from joulie_core import labels
from joulie_core.kinds import NodeBMC, NodeSleepPolicyStatus
from joulie_core.kinds.base import ConditionStatus, set_condition
from joulie_core.kinds.node_bmc import LEFT_OFF, DesiredPower
from joulie_core.sleep import SleepRecord, SleepState, intent_of
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.left_off import WAYS_OUT, OffReason
from joulie_operator.sleep.nodes import SLEEP_CONDITION, WatchedNode
from joulie_operator.sleep.pods import WatchedPod
from joulie_operator.sleep.power_requests import SleepPowerRequest
from joulie_operator.sleep.records import mark_text, marked_shutdown, state_label, stored_text

#: Between what the condition of a Node says of its sleep and of a maintenance.
MAINTENANCE_IN_MESSAGE: Final = "; maintenance: "


class SleepWriter:
    """The writes; nothing is sent where the object already is as it shall be."""

    def __init__(self, reads: KubeClient, writes: FencedWriter) -> None:
        self._reads = reads
        self._writes = writes

    async def store(self, seen: WatchedNode, record: SleepRecord, *, changed: bool) -> bool:
        """Store a record with the label and the taint that belong to it; return whether a write was needed."""
        node, cordon = seen.node, intent_of(record.state).cordon
        label = state_label(record.state)
        metadata: dict[str, Any] = {}
        if changed:
            metadata["annotations"] = {labels.SLEEP_RECORD: stored_text(record)}
        if node.labels.get(labels.SLEEP_STATE) != label:
            metadata["labels"] = {labels.SLEEP_STATE: label}
        spec = {} if seen.cordoned is cordon else {"taints": _taints(seen, cordon=cordon)}
        if not metadata and not spec:
            return False
        metadata["resourceVersion"] = node.resource_version
        await self._writes.patch(NODES, node.name, {"metadata": metadata, **({"spec": spec} if spec else {})})
        return True

    async def show(self, seen: WatchedNode, record: SleepRecord) -> None:
        """Write the condition of the Node; one that has never slept gets none, unless a person works on its server."""
        maintenance = seen.maintenance
        reason = record.state.value
        message = f"{reason}: {record.reason.value.replace('_', ' ')}"
        if maintenance is not None:
            message += f"{MAINTENANCE_IN_MESSAGE}{maintenance}"
        noted = maintenance is not None or MAINTENANCE_IN_MESSAGE in seen.sleep_message
        same = seen.sleep_reason == reason and not (noted and seen.sleep_message != message)
        if same or (not seen.sleep_reason and record.state is SleepState.AWAKE and maintenance is None):
            return
        asleep = record.state is SleepState.ASLEEP
        condition = {
            "type": SLEEP_CONDITION,
            "status": "True" if asleep else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(record.since_s, "seconds"),
            "lastHeartbeatTime": rfc3339(record.since_s, "seconds"),
        }
        await self._writes.apply(NODES, seen.node.name, {"status": {"conditions": [condition]}}, status=True)

    async def show_left_off(self, bmc: Versioned[NodeBMC], reason: OffReason | None, *, now_s: float) -> None:
        """Write the condition of a NodeBMC whose server stays off until a person acts; `reason` None: it does not."""
        text = None if reason is None else WAYS_OUT.get(reason)
        found = next((each for each in bmc.model.status.conditions if each.type == LEFT_OFF), None)
        status = ConditionStatus.FALSE if text is None else ConditionStatus.TRUE
        if found is None and text is None:
            return
        name = "Handled" if reason is None or text is None else "".join(map(str.capitalize, reason.value.split("_")))
        if found is not None and (found.status, found.reason) == (status, name):
            return
        message = f"Joulie switched the server off, and {text}" if text else ""
        (condition,) = set_condition(
            () if found is None else (found,),
            LEFT_OFF,
            status,
            name,
            message,
            now=rfc3339(now_s, "seconds"),
            generation=bmc.metadata.generation,
        )
        await self._writes.apply(NODE_BMCS, bmc.name, {"status": {"conditions": [condition.dump()]}}, status=True)

    def differs(self, bmc: Versioned[NodeBMC], request: SleepPowerRequest) -> bool:
        """Return whether `request_power` would write."""
        annotations, power = bmc.metadata.annotations, request.power
        written, marked = annotations.get(labels.REQUESTED_POWER), labels.SWITCHED_OFF in annotations
        if request.marked and not marked:
            return True
        if power is DesiredPower.UNMANAGED:
            return written is not None or (request.is_on and marked)
        return (written, bmc.model.spec.desired_power) != (power.value, power)

    async def request_power(self, bmc: Versioned[NodeBMC], request: SleepPowerRequest, *, now_s: float) -> bool:
        """Write the desired power, or withdraw it (`Unmanaged`); return whether a write was needed.

        A value that a person has written stays, unless another one is requested. The mark of a server that Joulie has
        switched off is written in the same request, and removed only with a withdrawal after On was confirmed.
        """
        if not self.differs(bmc, request):
            return False
        value = None if request.power is DesiredPower.UNMANAGED else request.power.value
        change: dict[str, str | None] = {"desiredPower": value}
        before = bmc.metadata.annotations
        if value is None and bmc.model.spec.desired_power != before.get(labels.REQUESTED_POWER):
            change = {}
        annotations: dict[str, str | None] = {labels.REQUESTED_POWER: value}
        shutdown = marked_shutdown(before)
        if request.is_on and labels.SWITCHED_OFF in before:
            annotations[labels.SWITCHED_OFF] = None
        elif request.marked or (shutdown is not None and not request.is_on):
            # Until now the power-off may have been carried out.
            known = shutdown.boot_id if shutdown is not None and request.boot_id is None else request.boot_id
            annotations[labels.SWITCHED_OFF] = mark_text(now_s, known or "")
        metadata = {"resourceVersion": bmc.metadata.resource_version, "annotations": annotations}
        await self._writes.patch(NODE_BMCS, bmc.name, {"metadata": metadata, **({"spec": change} if change else {})})
        return True

    async def is_empty(self, name: str) -> bool:
        """Ask the API server, and not the watch, whether only pods are left that end with the node."""
        return await pod_in_the_way(self._reads, name) is None

    async def evict(self, pod: WatchedPod) -> None:
        """Evict a pod within the budgets. Raise as `joulie_api.client.KubeClient.evict`."""
        await self._writes.evict(pod.name, pod.namespace)

    async def publish(self, policy: str, status: NodeSleepPolicyStatus) -> None:
        """Write the status of a policy."""
        await self._writes.apply(NODE_SLEEP_POLICIES, policy, {"status": status.dump()}, status=True)


def _taints(seen: WatchedNode, *, cordon: bool) -> list[dict[str, Any]]:
    """Return all taints of a Node, with or without that of sleeping nodes."""
    kept = [taint for taint in seen.taints if taint.key != labels.ASLEEP_TAINT]
    if cordon:
        kept.append(WireTaint(labels.ASLEEP_TAINT, "NoSchedule"))
    taints: list[dict[str, Any]] = msgspec.to_builtins(kept)
    return taints
