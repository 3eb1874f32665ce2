"""Joulie's decisions in the simulation: profile, state, caps and schedulable class of every node.

Policy, transition guard, caps and their clamping are `joulie_core`'s own functions, called as the operator and the
agents call them. What is left out is time: a decision is in force in the moment in which it is made. Nodes that are the
same for a decision share it.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import numpy as np

from joulie_core.caps import CapIntent, CapSettings, intent_for
from joulie_core.control.caps_resolve import PctCap, WattCap, WattRange, resolve_cpu_cap, resolve_gpu_cap
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import DRAINING, POWER_PROFILE
from joulie_core.policy import PolicyContext, build_policy
from joulie_core.scoring.filter import filter_node
from joulie_core.transition import NodeState, step
from joulie_core.twin import PowerBudget, budget_of, schedulable_class
from joulie_sim.engine.arrays import Bools
from joulie_sim.engine.machines import Machines
from joulie_sim.physics.parts import Controls

#: The operator plans this often, and whenever the demand changes where the policy follows it.
RECONCILE_INTERVAL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class PublishedNode:
    """Class, controls and budget in force on a node in one state."""

    schedulable_class: SchedulableClass
    controls: Controls
    budget: PowerBudget
    #: Whether the filter refuses performance pods.
    refused: bool


class ControlPlane:
    """The operator and the agents of all nodes.

    Args:
        machines: the nodes.
        policy: name of the policy.
        policy_values: its settings by field name.
        caps: caps of the profiles.
        plan_debounce_s: time from a change of demand to the plan that follows it, which later changes share.
        on_change: called with a node whose state has changed.

    Raises:
        KeyError: no such policy.
        pydantic.ValidationError: a setting is out of range.
    """

    def __init__(
        self,
        machines: Machines,
        *,
        policy: str,
        policy_values: Mapping[str, Any],
        caps: CapSettings,
        on_change: Callable[[int], None],
        plan_debounce_s: float = 0.0,
    ) -> None:
        self._policy = build_policy(policy, policy_values)
        self._machines = machines
        self._candidates = machines.candidates()
        self._caps = caps
        self._on_change = on_change
        self._plan_debounce_s = plan_debounce_s
        #: When the plan is due that follows the present demand; infinity if none is.
        self.plan_due_s = inf
        self._states = [NodeState.ACTIVE_PERFORMANCE] * len(machines)
        self._blocking = [0] * len(machines)
        self._performance_pods = 0
        #: Planned eco or not, by the policy's key: the candidates never change.
        self._plans: dict[Hashable, Bools] = {}
        #: Nodes that the last plan has in performance.
        self._supplying: int | None = None
        self._planned_eco: Bools = np.zeros(len(machines), dtype=np.bool_)
        self._published: dict[tuple[int, NodeState], PublishedNode] = {}
        self.transitions = 0

    def published(self, node: int) -> PublishedNode:
        """Return what is in force on a node."""
        key = (int(self._machines.group[node]), self._states[node])
        found = self._published.get(key)
        if found is None:
            found = self._published[key] = published_node(self._machines.groups[key[0]].view, key[1], self._caps)
        return found

    def plan(self, now_s: float) -> None:
        """Run the policy, and step every node whose plan it changes."""
        self.plan_due_s = inf
        context = PolicyContext(
            candidates=self._candidates,
            performance_pods=self._performance_pods,
            now=now_s,
            reconcile_interval_s=RECONCILE_INTERVAL_S,
            planned=self._supplying,
        )
        key = self._policy.plan_key(context)
        eco = self._plans.get(key)
        if eco is None:
            eco = self._plans[key] = self._planned(context)
        self._supplying = len(eco) - int(np.count_nonzero(eco))
        if eco is self._planned_eco:
            return
        changed = np.flatnonzero(eco != self._planned_eco)
        self._planned_eco = eco
        for node in changed:
            self._step(int(node), now_s)

    def arrived(self, now_s: float) -> None:
        """Count a performance pod that was created."""
        self._performance_pods += 1
        self._demand_changed(now_s)

    def bound(self, node: int) -> None:
        """Count a performance pod that was bound to a node."""
        self._blocking[node] += 1

    def ended(self, node: int, now_s: float) -> None:
        """Count a performance pod that has left its node."""
        self._performance_pods -= 1
        self._blocking[node] -= 1
        self._demand_changed(now_s)
        if self._states[node].draining:
            self._step(node, now_s)

    def dropped(self, now_s: float) -> None:
        """Count a performance pod that is gone without ever having been bound."""
        self._performance_pods -= 1
        self._demand_changed(now_s)

    def count(self, state: NodeState) -> int:
        """Return the number of nodes in a state."""
        return self._states.count(state)

    def _demand_changed(self, now_s: float) -> None:
        if not self._policy.follows_demand:
            return
        if self._plan_debounce_s:
            self.plan_due_s = min(self.plan_due_s, now_s + self._plan_debounce_s)
        else:
            self.plan(now_s)

    def _planned(self, context: PolicyContext) -> Bools:
        plan = self._policy.plan(context)
        profiles: Sequence[Profile] = [plan.profiles[name] for name in self._machines.names]
        return np.array([profile is Profile.ECO for profile in profiles], dtype=np.bool_)

    def _step(self, node: int, now_s: float) -> None:
        planned = Profile.ECO if self._planned_eco[node] else Profile.PERFORMANCE
        result = step(self._states[node], planned, self._blocking[node], now_s)
        if result.transition is not None:
            self.transitions += 1
            self._states[node] = result.state
            self._on_change(node)


def published_node(view: HardwareView, state: NodeState, caps: CapSettings) -> PublishedNode:
    """Return what is in force on a node of that hardware in that state."""
    intent = intent_for(state.profile, draining=state.draining, hardware=view, settings=caps)
    node_class = schedulable_class(state)
    labels = {POWER_PROFILE: state.profile.value, DRAINING: "true" if state.draining else "false"}
    judged = filter_node(WorkloadClass.PERFORMANCE, schedulable_class=node_class, stale=False, labels=labels)
    return PublishedNode(node_class, _controls(view, intent), budget_of(view, intent), refused=not judged.ok)


def _controls(view: HardwareView, intent: CapIntent) -> Controls:
    """Return the controls that the node's agent sets."""
    cpu, gpu, gpu_target = view.cpu, view.gpu, intent.gpu_target()
    cpu_range = WattRange(cpu.max_watts_per_socket, cpu.min_watts_per_socket) if cpu else WattRange()
    gpu_range = WattRange(gpu.max_watts, gpu.min_watts) if gpu else WattRange()
    return Controls(
        cpu_cap_watts=_watts(resolve_cpu_cap(intent.cpu_target(), cpu_range)),
        gpu_cap_watts=_watts(resolve_gpu_cap(gpu_target.power_cap if gpu_target else None, gpu_range)),
    )


def _watts(cap: WattCap | PctCap | None) -> float | None:
    if isinstance(cap, PctCap):
        raise TypeError("simulated hardware has a known range of caps")
    return None if cap is None else cap.cap_watts
