"""Sleeping nodes under everything that can happen: nodes, BMCs, pods and a controller that restarts."""

from dataclasses import replace
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.sleep import (
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
    intent_of,
)
from joulie_core.sleep.machine import STALE_AFTER_S

_SETTINGS = SleepSettings(
    min_awake={"count": 1, "spare": 1},
    idle_seconds=120.0,
    min_awake_seconds=60.0,
    consolidation={"mode": "Act", "below_percent": 50},
)
_CORES = 8.0
_STEP_S = 60.0
_OFF = (SleepState.POWERING_OFF, SleepState.ASLEEP)
_ASIDE = (*_OFF, SleepState.CORDONED, SleepState.DRAINING, SleepState.WAKING)


class World(RuleBasedStateMachine):
    """Eight machines in two zones; each decision is carried out, or lost with the controller."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.records: dict[str, SleepRecord] = {}
        self.nodes: dict[str, SleepNode] = {}
        self.pending: list[SleepPod] | None = []
        self.before: dict[str, SleepRecord] = {}

    @initialize()
    def start(self) -> None:
        for number in range(8):
            self._put(
                SleepNode(
                    name=f"n{number}",
                    group="gpu" if number % 4 == 3 else "cpu",
                    zone="east" if number < 4 else "west",
                    free={"cpu": _CORES},
                    idle_watts=100.0 + number,
                    ready=True,
                    protected_pods=0,
                    power=NodePowerFacts(
                        state=PowerState.ON, sampled_at_s=0.0, reachable=True, wake_proven=True, off_allowed=True
                    ),
                )
            )

    def _put(self, node: SleepNode, **changes: Any) -> None:
        self.nodes[node.name] = replace(node, **changes)

    @rule(number=st.integers(0, 7), pods=st.sampled_from([None, 0, 0, 1]), cores=st.sampled_from([0, 0, 2]))
    def pods_change(self, number, pods, cores):
        """Pods come and go; on a node that is off there is none."""
        node = self.nodes[f"n{number}"]
        if node.power.state is PowerState.ON:
            movable = (SleepPod({"cpu": float(cores)}),) if cores else ()
            self._put(node, protected_pods=pods, movable_pods=movable, free={"cpu": _CORES - cores})

    @rule(number=st.integers(0, 7), known=st.sampled_from([True, True, None, False]))
    def bmc_reachable(self, number, known):
        node = self.nodes[f"n{number}"]
        self._put(node, power=replace(node.power, reachable=known))

    @rule(number=st.integers(0, 7), proven=st.sampled_from([True, True, None]))
    def wake_proven(self, number, proven):
        node = self.nodes[f"n{number}"]
        self._put(node, power=replace(node.power, wake_proven=proven))

    @rule(number=st.integers(0, 7), ready=st.sampled_from([True, None, False]))
    def kubelet_changes(self, number, ready):
        node = self.nodes[f"n{number}"]
        self._put(node, ready=ready if node.power.state is PowerState.ON else False)

    @rule(number=st.integers(0, 7), flag=st.sampled_from(["unschedulable", "rollout_waiting", "control_plane"]))
    def flag_changes(self, number, flag):
        node = self.nodes[f"n{number}"]
        self._put(node, **{flag: not getattr(node, flag)})

    @rule(pods=st.one_of(st.none(), st.lists(st.sampled_from([2.0, 8.0]), max_size=6)))
    def pods_wait(self, pods):
        self.pending = None if pods is None else [SleepPod({"cpu": cores}) for cores in pods]

    @rule(number=st.integers(0, 7))
    def bmc_answers(self, number):
        node = self.nodes[f"n{number}"]
        self._put(node, power=replace(node.power, sampled_at_s=self.now_s))

    def _carry_out(self, node: SleepNode, *, evicts: bool) -> None:
        record = self.records[node.name]
        intent = intent_of(record.state)
        changes: dict[str, Any] = {"cordoned": intent.cordon}
        if intent.evict and evicts:
            changes |= {"movable_pods": (), "free": {"cpu": _CORES}}
        if intent.power is DesiredPower.OFF:
            # The machine is cut off: this is what must not happen under a pod.
            if node.power.state is PowerState.ON and record.since_s != self.now_s:
                assert not node.protected_pods
            changes |= {"power": replace(node.power, state=PowerState.OFF), "ready": False}
        elif intent.power is DesiredPower.ON:
            changes |= {"power": replace(node.power, state=PowerState.ON), "ready": True}
        self._put(node, **changes)

    @rule(
        steps=st.integers(1, 15),
        answered=st.sampled_from([True, True, False]),
        obeyed=st.booleans(),
        evicts=st.booleans(),
    )
    def time_passes(self, steps, answered, obeyed, evicts):
        """Decisions follow each other; BMCs answer or not, machines do what they are asked to, or nothing."""
        for _ in range(steps):
            self.now_s += _STEP_S
            for node in list(self.nodes.values()) if answered else ():
                self._put(node, power=replace(node.power, sampled_at_s=self.now_s))
            self.decide()
            for node in list(self.nodes.values()) if obeyed else ():
                self._carry_out(node, evicts=evicts)

    @rule()
    def decide(self):
        self.before = dict(self.records)
        cluster = SleepCluster(nodes=list(self.nodes.values()), pending=self.pending)
        self.records = decide(cluster, self.records, self.now_s, _SETTINGS)
        self._check_decision()

    def _check_decision(self) -> None:
        for name, record in self.records.items():
            before = self.before.get(name)
            node = self.nodes[name]
            if before is None or record.state is before.state:
                continue
            if record.state in (SleepState.CORDONED, SleepState.DRAINING) or (
                record.state is SleepState.POWERING_OFF and before.state is SleepState.DRAINING
            ):
                assert self._known_to_be_allowed(node)
            if record.state is SleepState.CORDONED:
                self._check_limits(node)
            if record.state is SleepState.POWERING_OFF:
                assert node.cordoned
                assert node.empty
            if record.state is SleepState.ASLEEP:
                assert node.power.state is PowerState.OFF
                assert node.ready is False

    def _known_to_be_allowed(self, node: SleepNode) -> bool:
        power = node.power
        known = power.reachable and power.wake_proven and self.now_s - power.sampled_at_s <= STALE_AFTER_S
        flagged = node.unschedulable or node.rollout_waiting or node.control_plane
        return bool(known and node.ready and node.protected_pods == 0 and not flagged)

    def _check_limits(self, chosen: SleepNode) -> None:
        assert self.pending is not None
        zone = [node for node in self.nodes.values() if node.zone == chosen.zone]
        down = [node for node in zone if self.records[node.name].state in _ASIDE or node.ready is not True]
        assert 2 * len(down) <= len(zone)
        serving = [
            node
            for node in self.nodes.values()
            if node.group == chosen.group
            and self.records[node.name].state in (SleepState.AWAKE, SleepState.QUARANTINED)
            and node.ready
            and not node.unschedulable
        ]
        assert len(serving) >= _SETTINGS.min_awake.count
        assert sum(node.empty for node in serving) >= _SETTINGS.min_awake.spare or not chosen.empty

    @invariant()
    def a_node_is_asked_to_go_off_only_through_the_states_before(self):
        for name, record in self.records.items():
            before = self.before.get(name)
            if before is not None and record.state in _OFF and before.state not in _OFF:
                assert before.state in (SleepState.DRAINING, SleepState.WAKING)

    @invariant()
    def the_record_is_all_that_a_restarted_controller_needs(self):
        cluster = SleepCluster(nodes=list(self.nodes.values()), pending=self.pending)
        copied = {name: replace(record) for name, record in self.records.items()}
        assert decide(cluster, copied, self.now_s, _SETTINGS) == decide(cluster, self.records, self.now_s, _SETTINGS)


TestWorld = World.TestCase
TestWorld.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
