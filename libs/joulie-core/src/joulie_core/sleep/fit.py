"""Where pods have room: resources, node selectors, required node affinity, taints and tolerations.

Pod affinity, spreading and volumes are not simulated: a pod that waits for one of them has room here.
"""

from collections.abc import Iterable, Mapping

from joulie_core.pod import Term
from joulie_core.sleep.model import NodeTaint, SleepNode, SleepPod

#: Effect of a taint that keeps no pod away.
_PREFER = "PreferNoSchedule"


class NodeRoom:
    """What is left of a node while pods are placed on it."""

    __slots__ = ("free", "node", "used")

    def __init__(self, node: SleepNode) -> None:
        self.node = node
        self.free = dict(node.free)
        #: Whether a pod was placed.
        self.used = False

    def take(self, pod: SleepPod) -> bool:
        """Place a pod if there is room; return whether it was placed."""
        free = self.free
        if any(free.get(resource, 0.0) < amount for resource, amount in pod.requests.items() if amount > 0.0):
            return False
        if not admits(self.node, pod):
            return False
        for resource, amount in pod.requests.items():
            free[resource] = free.get(resource, 0.0) - amount
        self.used = True
        return True


def without_room(pods: Iterable[SleepPod], rooms: Iterable[NodeRoom]) -> list[SleepPod]:
    """Place pods, each in the first room that takes it; return those that none takes."""
    rooms = list(rooms)
    return [pod for pod in pods if not any(room.take(pod) for room in rooms)]


def admits(node: SleepNode, pod: SleepPod) -> bool:
    """Return whether a node's labels and taints admit a pod."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    if pod.required_terms is not None and not any(_term_holds(term, node.labels) for term in pod.required_terms):
        return False
    return all(_tolerated(taint, pod) for taint in node.taints)


def _tolerated(taint: NodeTaint, pod: SleepPod) -> bool:
    return taint.effect == _PREFER or any(toleration.tolerates(taint) for toleration in pod.tolerations)


def _term_holds(term: Term, labels: Mapping[str, str]) -> bool:
    # Kubernetes: a term without any expression or field matches no node. Fields name nodes; which is not known here.
    if not term.expressions and not term.has_fields:
        return False
    return all(each.holds(labels.get(each.key)) for each in term.expressions)
