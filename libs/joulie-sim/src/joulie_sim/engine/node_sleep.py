"""Nodes that sleep in a simulation: `joulie_core.sleep.decide`, and servers that take time to go off and on.

Jobs keep their node awake, but for those that consolidation may move: they are stopped, and start elsewhere without
some of their work. Every server goes off and comes up when it is asked to, and the BMC's answers are as old as the
decision. Groups are hardware families.
"""

from enum import Enum, auto

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.kinds.node_sleep_policy import SpareOf
from joulie_core.names import NodeName
from joulie_core.sleep import (
    ArrivalHistory,
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepRecord,
    SleepState,
    decide,
    intent_of,
)
from joulie_sim.engine.job_flow import JobFlow
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.movable_jobs import MovableJobs
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.node_sleep_settings import NodeSleepSettings
from joulie_sim.engine.placement import KubeScheduler
from joulie_sim.engine.running_nodes import RunningNodes


class _Power(Enum):
    ON = auto()
    GOING_OFF = auto()
    OFF = auto()
    BOOTING = auto()


_SEEN = {
    _Power.ON: PowerState.ON,
    _Power.GOING_OFF: PowerState.POWERING_OFF,
    _Power.OFF: PowerState.OFF,
    _Power.BOOTING: PowerState.POWERING_ON,
}


class NodeSleep:
    """The sleep of all nodes. Times must not fall from call to call.

    Args:
        machines: the nodes.
        settings: of the decision and of the servers.
        nodes: power and jobs of the nodes.
        scheduler: the choice among the nodes.
        flow: the jobs.
        movable: the jobs that may be moved.
    """

    def __init__(
        self,
        machines: Machines,
        settings: NodeSleepSettings,
        nodes: RunningNodes,
        scheduler: KubeScheduler,
        flow: JobFlow,
        *,
        movable: MovableJobs | None = None,
    ) -> None:
        self._movable = movable
        self._machines = machines
        self._settings = settings
        self._nodes = nodes
        self._scheduler = scheduler
        self._flow = flow
        #: Names of each node's resources, by their position in what is free of it. Those of GPUs that it does not have
        #: are absent, as on a Node: spare nodes may be counted by them.
        self._resources = [
            list(enumerate(("cpu", "memory", "pods")))
            + [(3 + row, name) for row, name in enumerate(machines.gpu_resources) if machines.gpus[row, node]]
            for node in range(len(machines))
        ]
        self._families = [machines.groups[group].view.family for group in machines.group]
        hardware = [machines.groups[group].hardware for group in machines.group]
        self._boot_s = [settings.boots_in_s(gpus=parts.gpu is not None) for parts in hardware]
        self._power = [_Power.ON] * len(machines)
        #: When a node that goes off or boots is there.
        self._there_s = [0.0] * len(machines)
        self._records: dict[NodeName, SleepRecord] = {}
        self._pods: dict[PlacementRequest, SleepPod] = {}
        self._history = ArrivalHistory()
        self._by_arrivals = settings.decision.min_awake.spare_of is SpareOf.ARRIVALS
        #: When the next decision is due.
        self.due_s = settings.interval_s
        self.power_cycles = 0

    def count(self, state: SleepState) -> int:
        """Return the number of nodes in a state."""
        return sum(record.state is state for record in self._records.values())

    def record(self, node: int) -> SleepRecord | None:
        """Return the record of a node; None before the first decision."""
        return self._records.get(self._machines.names[node])

    def decide(self, now_s: float) -> None:
        """Let servers arrive at what they were asked for, decide, and do it."""
        self.due_s = now_s + self._settings.interval_s
        for node, power in enumerate(self._power):
            if power in (_Power.GOING_OFF, _Power.BOOTING) and now_s >= self._there_s[node]:
                self._set_power(node, _Power.OFF if power is _Power.GOING_OFF else _Power.ON, now_s)
        settings = self._settings.decision
        nodes = [self._seen(node, now_s) for node in range(len(self._machines))]
        if self._by_arrivals:
            self._history.look(nodes, self._records, now_s, settings)
        cluster = SleepCluster(
            nodes=nodes,
            pending=[self._pod(request) for request in self._flow.pending(self._settings.most_pending)],
            expected=self._history.expected(now_s),
        )
        self._records = decide(cluster, self._records, now_s, settings)
        for node, name in enumerate(self._machines.names):
            self._carry_out(node, self._records[name].state, now_s)
        # After all nodes are closed that are to sleep, so that no job is moved to one of them.
        for node, name in enumerate(self._machines.names):
            if intent_of(self._records[name].state).evict:
                self._empty(node, now_s)

    def _carry_out(self, node: int, state: SleepState, now_s: float) -> None:
        intent, power = intent_of(state), self._power[node]
        if self._scheduler.powered.item(node) is intent.cordon:
            self._scheduler.powered[node] = not intent.cordon
            if not intent.cordon:
                self._flow.opened(node)
        if intent.power is DesiredPower.OFF and power is _Power.ON:
            self._there_s[node] = now_s + self._settings.off_s
            self._set_power(node, _Power.GOING_OFF, now_s)
            self.power_cycles += 1
        elif intent.power is DesiredPower.ON and power is _Power.OFF:
            self._there_s[node] = now_s + self._boot_s[node]
            self._set_power(node, _Power.BOOTING, now_s)

    def _empty(self, node: int, now_s: float) -> None:
        """Move the jobs of a node."""
        if self._movable is not None:
            for job in self._movable.on(node):
                self._flow.move(job, now_s, lost_s=self._movable.lost_s)

    def _set_power(self, node: int, power: _Power, now_s: float) -> None:
        self._power[node] = power
        watts = None
        if power is _Power.OFF:
            watts = self._settings.off_watts
        elif power is _Power.BOOTING:
            watts = self._settings.boot_over_idle * self._nodes.idle_watts_of(node)
        self._nodes.fix_watts(node, watts, now_s)

    def _seen(self, node: int, now_s: float) -> SleepNode:
        machines, power = self._machines, self._power[node]
        left = self._scheduler.left(node)
        jobs = machines.pods.item(node) - int(left[2])
        movable = self._movable.on(node) if self._movable is not None else {}
        # One job that stays keeps all of them.
        moves = len(movable) == jobs
        return SleepNode(
            name=machines.names[node],
            group=self._families[node],
            zone=machines.zones[node],
            free={name: left[position] for position, name in self._resources[node]},
            idle_watts=self._nodes.idle_watts_of(node),
            ready=power is _Power.ON,
            cordoned=not self._scheduler.powered.item(node),
            protected_pods=0 if moves else jobs,
            movable_pods=tuple(self._pod(request) for request in movable.values()) if moves else (),
            power=NodePowerFacts(
                state=_SEEN[power],
                sampled_at_s=now_s,
                reachable=True,
                wake_proven=True,
                off_allowed=True,
                boot_s=self._boot_s[node],
                watts=self._nodes.watts_of(node),
            ),
        )

    def _pod(self, request: PlacementRequest) -> SleepPod:
        pod = self._pods.get(request)
        if pod is None:
            requests = {"cpu": request.cpu_milli, "memory": request.memory_bytes, "pods": 1.0}
            if request.gpus:
                requests[self._machines.gpu_resources[request.gpu_row]] = float(request.gpus)
            pod = self._pods[request] = SleepPod(requests)
        return pod
