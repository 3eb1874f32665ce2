"""Limits of GPUs that are lifted while performance jobs wait for them, by the decision of the operator.

They are lifted at once, and back in force as late as a node sets them (`joulie_sim.engine.settling_jobs`).
Nodes of the same hardware stand for each other: a job could take all of them, or none.
"""

from collections.abc import Iterable
from math import inf

from joulie_core.class_caps.waiting import GpuNode, GpuRequest, LiftedNodes, LiftRule, nodes_to_lift
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.running_nodes import RunningNodes
from joulie_sim.engine.settling_jobs import SET_AFTER_S


class LimitLifting:
    """Lifts the limits of nodes and puts them back in force; sees jobs start and end, for the GPUs that are free.

    Args:
        machines: the nodes.
        nodes: where the limits are.
        rule: when they are lifted.
    """

    def __init__(self, machines: Machines, nodes: RunningNodes, rule: LiftRule) -> None:
        self._nodes = nodes
        self._rule = rule
        self._group: list[int] = machines.group.tolist()
        self._resources = machines.gpu_resources
        #: Models, what one node offers, and the GPUs of all, by group.
        self._models = [group.view.gpu.model if group.view.gpu is not None else "" for group in machines.groups]
        self._offers: list[dict[str, float]] = [{} for _ in machines.groups]
        self._totals = [0.0 for _ in machines.groups]
        for node, group in enumerate(self._group):
            offer = dict(zip(self._resources, machines.gpus[:, node].astype(float).tolist(), strict=True))
            self._offers[group] = offer
            self._totals[group] += sum(offer.values())
        self._held = [0.0 for _ in machines.groups]
        self._held_by: dict[int, tuple[int, int]] = {}
        self._state = LiftedNodes()
        #: As of the last event.
        self._waited_for: frozenset[str] = frozenset()
        #: When the limits of a group that are no longer lifted are back in force.
        self._back_s: dict[int, float] = {}
        #: When something changes without an event of another kind; infinity if nothing does.
        self.due_s = inf

    def started(self, job: int, node: int, request: PlacementRequest) -> None:
        """Take a job that was bound to a node."""
        self._held_by[job] = self._group[node], request.gpus
        self._held[self._group[node]] += request.gpus

    def ended(self, job: int) -> None:
        """Take a job that has ended."""
        group, gpus = self._held_by.pop(job)
        self._held[group] -= gpus

    def follow(self, waiting: Iterable[tuple[PlacementRequest, float]], now_s: float) -> None:
        """Take up what waits now, each with the time since when; at each event."""
        asking = [(each, since_s) for each, since_s in waiting if each.performance and each.gpus]
        waited = {self._request(each) for each, since_s in asking if now_s >= since_s + self._rule.grace_s}
        before, waited_until_now = self._state, self._waited_for
        self._waited_for = nodes_to_lift(waited, self._gpu_nodes(), self._rule)
        self._state = before.step(self._waited_for | waited_until_now, now_s, self._rule)
        self._apply(before, now_s)
        begins_s = (since_s + self._rule.grace_s for _, since_s in asking)
        due_s = (*begins_s, *self._back_s.values(), self._state.due_s(self._rule))
        self.due_s = min((each for each in due_s if each > now_s), default=inf)

    def _apply(self, before: LiftedNodes, now_s: float) -> None:
        """Lift the limits of the groups that were not lifted before, and put those back in force that are settled."""
        changed: dict[int, bool] = {}
        for group in range(len(self._models)):
            was_lifted, lifted = str(group) in before, str(group) in self._state
            if lifted and not was_lifted:
                self._back_s.pop(group, None)
                changed[group] = True
            elif was_lifted and not lifted:
                self._back_s[group] = now_s + SET_AFTER_S
            elif self._back_s.get(group, inf) <= now_s:
                del self._back_s[group]
                changed[group] = False
        for node, group in enumerate(self._group) if changed else ():
            if group in changed:
                self._nodes.lift_limits(node, now_s, lifted=changed[group])

    def _request(self, request: PlacementRequest) -> GpuRequest:
        return GpuRequest(((self._resources[request.gpu_row], float(request.gpus)),))

    def _gpu_nodes(self) -> list[GpuNode]:
        return [
            GpuNode(str(group), model, self._offers[group], total=self._totals[group], free=self._free(group))
            for group, model in enumerate(self._models)
            if model
        ]

    def _free(self, group: int) -> float:
        return self._totals[group] - self._held[group]
