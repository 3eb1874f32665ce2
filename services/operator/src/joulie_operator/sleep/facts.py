"""The nodes and pods of the decision, from what is watched.

What is not known stays unknown: a node without a NodeBMC has no power facts, and one whose power is not known saves
nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from joulie_api.failures import Failures
from joulie_api.resources import NODES
from joulie_api.wire import Versioned
from joulie_core import labels
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import Condition, NodeBMC
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_bmc import DesiredPower, PowerOff, has_way_off, is_own_request
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.curves import node_curves
from joulie_core.quantity import QuantityError, parse_quantity
from joulie_core.sleep import NodePowerFacts, SleepNode, SleepPod, SleepRecord, SleepState
from joulie_core.sleep.model import UNREADABLE_POWER
from joulie_core.timestamps import epoch_seconds
from joulie_operator.sleep.nodes import WatchedNode
from joulie_operator.sleep.pods import PodRole, WatchedPod
from joulie_operator.sleep.records import marked_shutdown, state_label
from joulie_operator.sleep.surroundings import Surroundings
from joulie_operator.sleep.watches import WatchedCluster

#: Labels of nodes that the cluster itself needs; an external etcd is as much of it as the API server.
_CONTROL_PLANE = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd"))
#: Reasons of the condition PowerAsDesired with which a request has reached the BMC.
_TAKEN = frozenset({"AsDesired", "Changing", "NotFollowed"})
_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"

#: After which a pod that has room by this simulation is one that has none by kube-scheduler's rules.
OVERDUE_S: Final = 60.0
#: Returns the hardware of a managed node; None of any other.
HardwareOf = Callable[[NodeName], HardwareView | None]


@dataclass(frozen=True, slots=True)
class SleepFacts:
    """State of the cluster, as far as it is known at one moment.

    Attributes:
        nodes: by name.
        pending: the pods that kube-scheduler has found no node for.
        power: what the NodeBMCs say, by name; without those that cannot be judged.
    """

    nodes: Mapping[NodeName, SleepNode]
    pending: tuple[SleepPod, ...]
    power: Mapping[NodeName, NodePowerFacts] = field(default_factory=dict)


def gather(
    seen: WatchedCluster,
    records: Mapping[NodeName, SleepRecord],
    views: Mapping[NodeName, HardwareView | None],
    now_s: float,
    failures: Failures,
) -> SleepFacts:
    """Return the facts of this moment; a node that cannot be judged is one of which nothing is known.

    Args:
        seen: what is watched.
        records: of all nodes.
        views: hardware of the nodes; None of one that is not managed. A node without a view cannot be judged.
        now_s: the present time.
        failures: counts what fails.
    """
    around = Surroundings(seen.pods.values(), seen.claims, seen.volumes)
    # The DaemonSet of such a pod counts it as updated already, and waits for it to be available.
    waited_for = {pod.meant_for for pod in seen.pods.values() if pod.waits and pod.meant_for}
    pods = _on_nodes(seen)
    beside = {key: around.placed(node.node.labels, pods[key]) for key, node in seen.nodes.items()}
    quarantined = {name for name, record in records.items() if record.state is SleepState.QUARANTINED}
    rolling_out = {name for name, each in seen.daemon_sets.items() if each.rolling_out}
    powers = _powers(seen, failures)
    nodes: dict[NodeName, SleepNode] = {}
    for key, watched in seen.nodes.items():
        name = NodeName(key)
        has_bmc = name in seen.bmcs or name in seen.unread_bmcs
        power = powers.get(name, UNREADABLE_POWER) if has_bmc else None
        free = _allocatable(watched.node, failures)
        if free is not None and name in views:
            with failures.contained("judge node for sleep", node=name):
                nodes[name] = _node(
                    watched,
                    pods[name],
                    around,
                    beside=beside[key],
                    free=free,
                    power=power,
                    view=views[name],
                    quarantined=name in quarantined,
                    now_s=now_s,
                )
        if name not in nodes:
            nodes[name] = _unknown(watched, power, beside[key])
        elif seen.pods_unknown:
            nodes[name] = replace(nodes[name], protected_pods=None)
    held = {pod.node for pod in seen.pods.values() if pod.daemon_set in rolling_out} if rolling_out else set()
    for name in nodes.keys() & (waited_for | held):
        nodes[name] = replace(nodes[name], rollout_waiting=True)
    return SleepFacts(nodes, tuple(_pending(seen, around, now_s)), powers)


def _on_nodes(seen: WatchedCluster) -> Mapping[str, list[WatchedPod]]:
    """Return the pods that have a node, by its name."""
    pods: dict[str, list[WatchedPod]] = defaultdict(list)
    for pod in seen.pods.values():
        if pod.node is not None:
            pods[pod.node].append(pod)
    return pods


def _pending(seen: WatchedCluster, around: Surroundings, now_s: float) -> Iterator[SleepPod]:
    """Yield the pods that wait for a node, without those that wait for a claim or a volume that does not exist."""
    for pod in seen.pods.values():
        if pod.waits and pod.role is not PodRole.NODE_OWN:
            waiting = around.waiting(pod)
            if waiting is not None:
                since_s = pod.refused_since_s
                overdue = since_s is not None and now_s - since_s >= OVERDUE_S
                yield replace(waiting, overdue=True) if overdue else waiting


def _powers(seen: WatchedCluster, failures: Failures) -> dict[NodeName, NodePowerFacts]:
    """Return what the NodeBMCs say, without those that cannot be judged."""
    powers: dict[NodeName, NodePowerFacts] = {}
    for key, bmc in seen.bmcs.items():
        name = NodeName(key)
        with failures.contained("read power of node", node=name):
            powers[name] = power_facts(bmc)
    return powers


def _allocatable(node: Node, failures: Failures) -> dict[str, float] | None:
    """Return what pods may request of a node, by resource; None where that cannot be read, which is counted."""
    try:
        found = {resource: float(parse_quantity(amount)) for resource, amount in node.allocatable.items()}
    except QuantityError as error:
        failures.invalid_input(NODES.full_name, str(error), node=node.name)
        return None
    failures.valid_input(NODES.full_name, node=node.name)
    return found


def zone_of(seen: WatchedNode) -> str:
    """Return the zone as Kubernetes' node controller takes it."""
    return f"{seen.node.labels.get(_REGION, '')}/{seen.node.labels.get(_ZONE, '')}"


def power_facts(bmc: Versioned[NodeBMC]) -> NodePowerFacts:
    """Return what a NodeBMC says."""
    spec, status = bmc.model.spec, bmc.model.status
    own = is_own_request(bmc.metadata.annotations, spec.desired_power)
    return NodePowerFacts(
        state=status.power_state,
        sampled_at_s=epoch_seconds(status.sampled_at),
        reachable=_holds(status.conditions, "Reachable"),
        wake_proven=_holds(status.conditions, "WakeProven"),
        off_allowed=spec.power_off is PowerOff.ALLOWED,
        way_off=status.capability is None or has_way_off(spec, status.capability.reset_types),
        requested=DesiredPower.UNMANAGED if own else spec.desired_power,
        boot_s=status.boot_seconds,
        switched_off=marked_shutdown(bmc.metadata.annotations),
        on_taken=spec.desired_power is DesiredPower.ON and _is_taken(bmc),
        watts=status.power_watts,
    )


def _is_taken(bmc: Versioned[NodeBMC]) -> bool:
    """Return whether the desired power of this version of the object was requested of the BMC."""
    found = next((each for each in bmc.model.status.conditions if each.type == "PowerAsDesired"), None)
    return found is not None and found.observed_generation == bmc.metadata.generation and found.reason in _TAKEN


def idle_watts(view: HardwareView | None) -> float:
    """Return the power of a server without work, at the wall, by its model; 0 if unknown."""
    curves = node_curves(view) if view is not None else None
    if view is None or curves is None:
        return 0.0
    gpus = view.gpu.count * view.gpu.spec.idle_watts if view.gpu is not None else 0.0
    return curves.wall_watts[0] + gpus_at_wall(gpus, view.gpu_max_watts)


def _node(
    seen: WatchedNode,
    pods: Iterable[WatchedPod],
    around: Surroundings,
    *,
    beside: tuple[SleepPod, ...],
    free: dict[str, float],
    power: NodePowerFacts | None,
    view: HardwareView | None,
    quarantined: bool,
    now_s: float,
) -> SleepNode:
    node = seen.node
    protected = 0
    movable: list[SleepPod] = []
    for pod in pods:
        for name, amount in pod.fit.requests.items():
            free[name] = free.get(name, 0.0) - amount
        if pod.role is PodRole.PROTECTED:
            protected += 1
        elif pod.role is PodRole.MOVABLE:
            moved = around.moved(pod)
            if moved is None:
                protected += 1
            else:
                movable.append(moved)
    return SleepNode(
        name=node.name,
        group=view.family if view is not None else "",
        zone=zone_of(seen),
        labels=node.labels,
        taints=seen.lasting_taints,
        free=free,
        idle_watts=idle_watts(view),
        control_plane=any(key in node.labels for key in _CONTROL_PLANE),
        unschedulable=node.unschedulable or node.deleting,
        ready=seen.ready,
        cordoned=seen.cordoned,
        protected_pods=protected,
        movable_pods=tuple(movable),
        pods=beside,
        power=power,
        wake_requested=_is_requested(node.annotations.get(labels.AWAKE_UNTIL), now_s),
        maintenance=seen.maintenance is not None,
        boot_id=seen.boot_id,
        quarantine_cleared=quarantined and node.labels.get(labels.SLEEP_STATE) != state_label(SleepState.QUARANTINED),
    )


def _unknown(seen: WatchedNode, power: NodePowerFacts | None, beside: tuple[SleepPod, ...]) -> SleepNode:
    """Return a node of which neither hardware nor pods are known: it is not put to sleep, and no other counts on it."""
    return SleepNode(
        name=seen.node.name,
        group="",
        zone=zone_of(seen),
        labels=seen.node.labels,
        free={},
        idle_watts=0.0,
        ready=seen.ready,
        unschedulable=seen.node.unschedulable or seen.node.deleting,
        cordoned=seen.cordoned,
        maintenance=seen.maintenance is not None,
        boot_id=seen.boot_id,
        protected_pods=None,
        pods=beside,
        power=power,
    )


def _is_requested(awake_until: str | None, now_s: float) -> bool:
    """Return whether a person wants the node awake; a time that cannot be read has not come yet."""
    until_s = epoch_seconds(awake_until)
    return awake_until is not None and (until_s is None or now_s < until_s)


def _holds(conditions: Iterable[Condition], kind: str) -> bool | None:
    found = next((each for each in conditions if each.type == kind), None)
    if found is None or found.status is ConditionStatus.UNKNOWN:
        return None
    return found.status is ConditionStatus.TRUE
