"""Table of all nodes and what is known of them, in the form in which requests use it.

The watches feed it; each change recomputes the state and the filter result of that node only. The rows of its scores
are made when a request needs them, and then kept until the next change. Nothing here calls the API server.

Guarantees: a twin past its threshold counts as stale from the first request after that moment, and every twin does
while the watches are silent. Wall time is used for the age of twins only, whose dates are in it; all else is monotonic.
Source: docs/decisions/0002-extender.md.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import fsum, inf
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.powerest.assumed import AssumedPods
from joulie_core.powerest.held import HeldDevices
from joulie_core.powerest.marginal import NodePower, marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.powerest.stated_ends import StatedEnds
from joulie_core.scoring.filter import FilterReason, FilterResult, is_sleeping
from joulie_core.scoring.policy import ExplainedScore
from joulie_core.scoring.prepared import AffineRow, ClusterSums
from joulie_core.scoring.registry import RUN_TIME_SCORES
from joulie_core.scoring.state import ClusterTerms, NodeSituation, TwinSnapshot
from joulie_core.scoring.supply import explain_with_supply, row_with_supply
from joulie_extender.node_entry import NodeEntry
from joulie_extender.pods import BoundPod
from joulie_extender.replies import refusal
from joulie_extender.scores import ScoredNodes, ScoreProfile, ScoreTable
from joulie_extender.supplies import DomainSupplies
from joulie_extender.table_config import TableConfig

#: Demands of which a node's watts are kept; pods in flight on one node have few.
_KEPT_WATTS: Final = 64
_ONE_OF_EACH: Final = PodDemand(cpu_cores=1.0, gpus=1.0, workload_class=WorkloadClass.PERFORMANCE)


class NodeTable:
    """All nodes. Watch handlers call the `on_` methods; a request calls `refresh`, then reads."""

    def __init__(
        self,
        config: TableConfig,
        *,
        read_power: Callable[[Node | None, NodeHardwareStatus | None], NodePower],
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self._read_power = read_power
        self._wall_clock = wall_clock
        self._clock = clock
        #: Every node of which a Node, a NodeHardware or a NodeTwin exists.
        self._entries: dict[NodeName, NodeEntry] = {}
        self._assumed = AssumedPods(config.telemetry_interval_s, config.assumed_window_s)
        #: Of the bound pods, whether or not a measurement has them.
        self._held = HeldDevices()
        self._ends = StatedEnds()
        #: Sums over the `counted` states of all entries.
        self._sums = ClusterSums()
        #: Scores of all entries.
        self._scores = ScoreTable(config.score_max, config.score)
        #: The same for standard pods: nodes that sleep.
        self._sleeping: dict[str, bytes] = {}
        #: Reasons that keep performance pods off nodes, as in the reply; nodes that accept them are left out.
        self._refusals: dict[str, bytes] = {}
        #: What power domains can still supply.
        self._supplies = DomainSupplies()
        #: No entry becomes stale before this moment of the wall clock.
        self._next_expiry_s = inf
        self._silent = False

    def on_node(self, key: str, old: Node | None, new: Node | None) -> None:
        """Update a Node that was added, changed or deleted."""
        if old and new and _hardware_of(old) == _hardware_of(new):
            return  # a heartbeat
        entry = self._entry(key)
        entry.node = new
        self._update(entry, hardware_changed=True)

    def on_hardware(self, key: str, _old: NodeHardwareStatus | None, new: NodeHardwareStatus | None) -> None:
        """Update a NodeHardware that was added, changed or deleted."""
        entry = self._entry(key)
        entry.hardware = new
        self._update(entry, hardware_changed=True)

    def on_twin(self, key: str, old: TwinSnapshot | None, new: TwinSnapshot | None) -> None:
        """Update a NodeTwin that was added, changed or deleted."""
        entry = self._entry(key)
        entry.twin = new
        # An update that is not dated anew repeats the measurement it had.
        if new and new.measured_watts is not None and (old is None or old.last_updated_s != new.last_updated_s):
            self._assumed.measure(entry.name, self._clock())
        self._update(entry)

    def on_pod(self, old: BoundPod | None, new: BoundPod | None, *, counted: bool) -> None:
        """Update a bound pod that appeared, changed or is gone; `counted`: measurements already contain it."""
        self._note_ends(old, new, counted=counted)
        changed: set[NodeName] = set()
        if (old and (old.node, old.demand)) != (new and (new.node, new.demand)):
            changed |= self._hold(old, new)
        if self.config.count_in_flight:
            if old and (new is None or new.uid != old.uid):
                changed |= self._assumed.forget(old.uid)
            if new and not counted and (old is None or (old.uid, old.node) != (new.uid, new.node)):
                changed |= self._assumed.bind(new.uid, new.node, new.demand, self._clock())
        self._update_all(changed)

    def expect_pod(self, uid: str, node: str, demand: PodDemand) -> None:
        """Note that a pod was scored and will probably be bound to the node."""
        if self.config.count_in_flight:
            self._update_all(self._assumed.expect(uid, NodeName(node), demand, self._clock()))

    def refresh(self, *, silent: bool) -> None:
        """Let twins and expectations age up to now; `silent`: nothing was heard of the cluster for too long."""
        self._update_all(self._assumed.expire(self._clock()))
        if silent != self._silent:
            self._silent = silent
            aged: Iterable[NodeEntry] = self._entries.values()
        elif self._wall_clock() > self._next_expiry_s:
            aged = [entry for entry in self._entries.values() if not entry.stale]
        else:
            return
        self._next_expiry_s = inf
        for entry in aged:
            self._update(entry)

    @property
    def terms(self) -> ClusterTerms:
        """Contribution of the cluster to every score."""
        return self._sums.terms

    def answer(self, names: Sequence[str], demand: PodDemand, run_s: float | None = None) -> ScoredNodes:
        """Score candidates for a pod, as the cluster is now; `run_s`: how long the pod runs at most, if it says so."""
        if run_s is None:
            return self._scores.answer(names, demand, self.terms)
        return self._scores.answer(names, demand, self.terms, self.covered(run_s))

    def covered(self, run_s: float | None) -> Mapping[str, int]:
        """Return the covered ninths of a pod's run time, of the nodes where it is above 0, as far as scores take it."""
        if run_s is None or self.config.score.name not in RUN_TIME_SCORES:
            return {}
        return self._ends.covered(run_s, self._wall_clock())

    def refusals(self, workload_class: WorkloadClass) -> Mapping[str, bytes]:
        """Members of the reply, by node name, of the nodes that refuse all pods of a class."""
        return self._refusals if workload_class is WorkloadClass.PERFORMANCE else self._sleeping

    def refusals_of(self, names: Sequence[str], demand: PodDemand) -> Mapping[str, bytes]:
        """Members of the reply, by node name, of the candidates that refuse a pod; nodes that are none may be there."""
        refused = self.refusals(demand.workload_class)
        if demand.workload_class is not WorkloadClass.PERFORMANCE or not self._supplies:
            return refused
        doubtful = self._supplies.doubtful(names, demand.cpu_cores, demand.gpus)
        short = {name: refusal(name, judged) for name in doubtful if (judged := self._short(name, demand)) is not None}
        return {**short, **refused} if short else refused

    def judge(self, entry: NodeEntry, demand: PodDemand, labels: Mapping[str, str] | None = None) -> FilterResult:
        """Judge a node for a pod, by other labels than the watched ones if given."""
        judged = entry.judge(demand.workload_class, labels)
        if judged.ok and demand.workload_class is WorkloadClass.PERFORMANCE:
            return self._short(entry.name, demand) or judged
        return judged

    def entry(self, name: str) -> NodeEntry:
        """Return the state of a node, which may be empty."""
        return self._entries.get(NodeName(name)) or NodeEntry(NodeName(name))

    def __iter__(self) -> Iterator[NodeEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def situation(self, entry: NodeEntry, covered: int = 0) -> NodeSituation:
        """Return what the node's scores are made of; `covered`: ninths of the pod's run time."""
        pue = entry.state.pue if self.config.weigh_pue and entry.state else None
        return NodeSituation(entry.state, entry.power, self.config.coefficients, entry.stale, pue, covered)

    def row(self, entry: NodeEntry, workload_class: WorkloadClass) -> AffineRow:
        """Return the node's row, in points of 100, for the current cluster."""
        return self._row(entry, ScoreProfile(workload_class, self.terms.trend_scale))

    def explain(self, entry: NodeEntry, demand: PodDemand, covered: int = 0) -> ExplainedScore:
        """Return the node's score for a pod by the plain form, in points of 100; `covered` as in `situation`."""
        return explain_with_supply(self.config.score, self.situation(entry, covered), demand, self.terms)

    def _row(self, entry: NodeEntry, profile: ScoreProfile) -> AffineRow:
        workload_class, trend_scale, covered = profile
        node = self.situation(entry, covered)
        return row_with_supply(self.config.score.row(node, workload_class, trend_scale), node)

    def _short(self, name: str, demand: PodDemand) -> FilterResult | None:
        """Return why the power domains above a node cannot supply a performance pod; None where they may."""
        entry = self._entries.get(NodeName(name)) if name in self._supplies else None
        return None if entry is None else self._supplies.judge(entry.name, self._watts(entry, demand))

    def _entry(self, key: str) -> NodeEntry:
        name = NodeName(key)
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = NodeEntry(name, power=self._read_power(None, None))
            self._scores.put(name, partial(self._row, entry))
        return entry

    def _hold(self, old: BoundPod | None, new: BoundPod | None) -> set[NodeName]:
        if new:
            self._held.add(new.node, new.demand)
        if old:
            self._held.remove(old.node, old.demand)
        return {pod.node for pod in (old, new) if pod}

    def _note_ends(self, old: BoundPod | None, new: BoundPod | None, *, counted: bool) -> None:
        stays = old is not None and new is not None and (old.node, old.uid) == (new.node, new.uid)
        if old and old.expected_s is not None and not (stays and new and new.expected_s is not None):
            self._ends.drop(old.node, old.uid)
        if new and new.expected_s is not None:
            now_s = self._wall_clock()
            bound_s = None if stays or counted else now_s
            self._ends.put(new.node, new.uid, new.expected_s, started_s=new.started_s, bound_s=bound_s, now_s=now_s)

    def _update_all(self, names: Iterable[NodeName]) -> None:
        for name in names:
            if name in self._entries:
                self._update(self._entries[name])

    def _update(self, entry: NodeEntry, *, hardware_changed: bool = False) -> None:
        """Recompute everything that depends on one node."""
        if entry.node is None and entry.hardware is None and entry.twin is None:
            self._count(entry, None)
            self._drop(entry.name)
            return
        if hardware_changed:
            entry.power, entry.watts, entry.unit_watts = self._read_power(entry.node, entry.hardware), {}, None
        before = entry.state, entry.stale
        self._age(entry)
        if hardware_changed or before != (entry.state, entry.stale):
            self._scores.forget(entry.name)
        judged = entry.judge(WorkloadClass.PERFORMANCE)
        if judged is entry.judged:
            return
        entry.judged = judged
        self._refusals.pop(entry.name, None)
        self._sleeping.pop(entry.name, None)
        if not judged.ok:
            self._refusals[entry.name] = refusal(entry.name, judged)
        if judged.reason is FilterReason.SLEEPING_NODE:
            self._sleeping[entry.name] = self._refusals[entry.name]

    def _age(self, entry: NodeEntry) -> None:
        """Set `state` and `stale`, and count what is fresh."""
        if entry.twin is None:
            entry.state, entry.stale = None, True
            self._supplies.drop(entry.name)
            self._count(entry, None)
            return
        threshold_s = self.config.staleness_threshold_s
        expected = self._assumed.expected(entry.name)
        entry.state = entry.twin.with_pods(
            self._assumed_watts(entry),
            self._held.cores(entry.name) + fsum(pod.cpu_cores * count for pod, count in expected.items()),
            self._held.gpus(entry.name) + fsum(pod.gpus * count for pod, count in expected.items()),
        )
        entry.stale = self._silent or entry.twin.stale(self._wall_clock(), threshold_s)
        self._supply(entry, entry.state)
        fresh = not entry.stale and entry.twin.last_updated_s is not None
        self._count(entry, entry.state if fresh and not is_sleeping(entry.labels) else None)
        if fresh and entry.twin.last_updated_s is not None:
            self._next_expiry_s = min(self._next_expiry_s, entry.twin.last_updated_s + threshold_s)

    def _supply(self, entry: NodeEntry, state: TwinSnapshot) -> None:
        if not state.supplies:
            self._supplies.drop(entry.name)
            return
        if entry.unit_watts is None:
            marginal = marginal_watts(_ONE_OF_EACH, entry.power, self.config.coefficients)
            entry.unit_watts = marginal.cpu_watts, marginal.gpu_watts
        # Figures that are too old are unknown; a pod in flight draws, whatever is known of its node.
        self._supplies.put(entry.name, state.supplies, state.assumed_watts, entry.unit_watts, known=not entry.stale)

    def _count(self, entry: NodeEntry, state: TwinSnapshot | None) -> None:
        """Have the state in the cluster's sums, or nothing of the node."""
        if entry.counted != state:
            if entry.counted is not None:
                self._sums.remove(entry.counted)
            if state is not None:
                self._sums.add(state)
            entry.counted = state

    def _assumed_watts(self, entry: NodeEntry) -> float:
        # What the pods will draw in the node, not what they cost the facility: no PUE here.
        return fsum(self._watts(entry, pod) * count for pod, count in self._assumed.counts(entry.name).items())

    def _watts(self, entry: NodeEntry, demand: PodDemand) -> float:
        watts = entry.watts.get(demand)
        if watts is None:
            if len(entry.watts) >= _KEPT_WATTS:
                entry.watts.clear()
            watts = marginal_watts(demand, entry.power, self.config.coefficients).total_watts
            entry.watts[demand] = watts
        return watts

    def _drop(self, name: NodeName) -> None:
        del self._entries[name]
        self._refusals.pop(name, None)
        self._sleeping.pop(name, None)
        self._supplies.drop(name)
        self._scores.drop(name)


def _hardware_of(node: Node) -> tuple[object, ...]:
    """Return the part of a Node that describes its hardware."""
    return node.labels, node.allocatable, node.capacity
