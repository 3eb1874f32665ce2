"""Limits of GPU models that are lifted while performance jobs wait for one of that model."""

from collections.abc import Iterable

from joulie_core.class_caps.waiting import LiftedModels
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.running_nodes import RunningNodes


class LimitLifting:
    """Lifts the limits of nodes and puts them back in force.

    Args:
        machines: the nodes.
        nodes: where the limits are.
    """

    def __init__(self, machines: Machines, nodes: RunningNodes) -> None:
        self._nodes = nodes
        self._gpus = machines.gpus
        models = [group.view.gpu.model if group.view.gpu is not None else "" for group in machines.groups]
        self._models = [models[group] for group in machines.group]
        self._state = LiftedModels()
        #: By request, the models of nodes that could hold it if they were empty.
        self._could_hold: dict[PlacementRequest, frozenset[str]] = {}

    def follow(self, waiting: Iterable[PlacementRequest], now_s: float) -> None:
        """Take up what waits now."""
        before, waited = self._state, set[str]()
        for request in waiting:
            if request.performance and request.gpus:
                waited |= self._models_for(request)
        self._state = before.step(waited, now_s)
        changed = {model for model in self._models if model and (model in before) is not (model in self._state)}
        for node, model in enumerate(self._models) if changed else ():
            if model in changed:
                self._nodes.lift_limits(node, now_s, lifted=model in self._state)

    def _models_for(self, request: PlacementRequest) -> frozenset[str]:
        found = self._could_hold.get(request)
        if found is None:
            enough = self._gpus[request.gpu_row] >= request.gpus
            found = self._could_hold[request] = frozenset(
                model for model, holds in zip(self._models, enough.tolist(), strict=True) if holds
            )
        return found
