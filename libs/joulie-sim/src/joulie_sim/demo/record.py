"""Record of a run: pods and their times, transitions of nodes, samples of power. No I/O.

Times are seconds since the start of the workload by the clock of the observer; the API server's timestamps in objects
have only whole seconds.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.units import JOULES_PER_KWH
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.pod_figures import slowdown, wait

#: A binding is observed some time after its decision, and the label of the node by another watch: a pod counts as
#: placed on every class that its node had within this time before.
PLACEMENT_GRACE_S: Final = 2.0
_TRANSITIONS_KEPT: Final = 1000


@dataclass(slots=True)
class PodTrack:
    """One pod of the workload; a time is None until it is reached."""

    name: str
    workload_class: WorkloadClass
    created_s: float
    node: str | None = None
    bound_s: float | None = None
    #: Classes of the node when the pod was placed; several if the node was in transition.
    placed_on: frozenset[SchedulableClass] = frozenset()
    running_s: float | None = None
    finished_s: float | None = None
    #: Seconds of work at full speed.
    work_s: float = 0.0

    @property
    def wait_s(self) -> float | None:
        """Seconds from creation to binding."""
        return None if self.bound_s is None else wait(self.created_s, self.bound_s)

    @property
    def slowdown(self) -> float | None:
        """Time from running to finished over the work; None for an unfinished pod."""
        if self.finished_s is None or self.running_s is None or self.work_s <= 0.0:
            return None
        return slowdown(self.running_s, self.finished_s, self.work_s)


@dataclass(frozen=True, slots=True)
class RecordedTransition:
    """A change of a node's schedulable class, or of what its server does."""

    at_s: float
    node: str
    before: SchedulableClass | Power
    after: SchedulableClass | Power


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """One node at one time; watts as the simulator reports them, or at the wall where servers sleep."""

    watts: float
    cap_watts: float
    running: int
    power: Power = Power.AWAKE


@dataclass(frozen=True, slots=True)
class NodeSums:
    """Sums over several nodes at one time."""

    nodes: int = 0
    watts: float = 0.0
    cap_watts: float = 0.0
    running: int = 0

    @staticmethod
    def of(members: Sequence[RecordedNode]) -> "NodeSums":
        """Return the sums."""
        return NodeSums(
            nodes=len(members),
            watts=sum(member.watts for member in members),
            cap_watts=sum(member.cap_watts for member in members),
            running=sum(member.running for member in members),
        )


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Pods of one workload class at one time."""

    pending: int = 0
    running: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one time."""

    at_s: float
    by_class: Mapping[SchedulableClass, NodeSums]
    by_power: Mapping[Power, NodeSums]
    pods: Mapping[WorkloadClass, PodCounts]
    #: CPU packages and GPUs, as the live simulator has them: watts now, and joules so far by exact integration.
    device_watts: float = 0.0
    device_joules: float = 0.0

    @property
    def watts(self) -> float:
        """Watts of all nodes."""
        return sum(each.watts for each in self.by_class.values())

    @property
    def counts(self) -> PodCounts:
        """Pods of all classes."""
        found = self.pods.values()
        return PodCounts(*(sum(getattr(each, stage) for each in found) for stage in ("pending", "running", "finished")))


def held(samples: Sequence[Sample], end_s: float) -> Iterable[tuple[Sample, float]]:
    """Yield each sample with the time for which it holds: until the next, the last until the end."""
    yield from ((sample, after.at_s - sample.at_s) for sample, after in pairwise(samples))
    yield from ((each, end_s - each.at_s) for each in samples[-1:])


def energy_kwh(samples: Sequence[Sample], end_s: float) -> dict[Power, float]:
    """Return the energy from the first sample to `end_s`, by what the servers do."""
    joules = dict.fromkeys(Power, 0.0)
    for sample, length_s in held(samples, end_s):
        for power, found in sample.by_power.items():
            joules[power] += found.watts * length_s
    return {power: found / JOULES_PER_KWH for power, found in joules.items()}


@dataclass(slots=True)
class RunRecord:
    """The record of a run so far."""

    pods: dict[str, PodTrack] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    transitions: deque[RecordedTransition] = field(default_factory=lambda: deque(maxlen=_TRANSITIONS_KEPT))
    transition_count: int = 0
    #: Of what servers do, from sample to sample.
    power_changes: deque[RecordedTransition] = field(default_factory=lambda: deque(maxlen=_TRANSITIONS_KEPT))
    classes: dict[str, SchedulableClass] = field(default_factory=dict)
    _powers: dict[str, Power] = field(default_factory=dict)
    #: Time of each node's last change, and its class before.
    _changed: dict[str, tuple[float, SchedulableClass]] = field(default_factory=dict)

    def node_seen(self, name: str, node_class: SchedulableClass, now_s: float) -> None:
        """Record the class of a node. The first one is not a transition."""
        before = self.classes.get(name)
        self.classes[name] = node_class
        if before is None or before is node_class:
            return
        self._changed[name] = (now_s, before)
        if before is not SchedulableClass.UNKNOWN:
            self.transition_count += 1
            self.transitions.append(RecordedTransition(now_s, name, before, node_class))

    def node_gone(self, name: str) -> None:
        """Remove a node."""
        self.classes.pop(name, None)
        self._changed.pop(name, None)

    def pod_created(self, name: str, workload_class: WorkloadClass, *, work_s: float, now_s: float) -> None:
        """Record that a pod is sent to the API server."""
        self.pods[name] = PodTrack(name, workload_class, created_s=now_s, work_s=work_s)

    def pod_seen(self, name: str, *, node: str | None, phase: str, now_s: float) -> None:
        """Record the state of a pod of the workload; ignore other pods."""
        track = self.pods.get(name)
        if track is None:
            return
        if node is not None and track.bound_s is None:
            track.node, track.bound_s = node, now_s
            track.placed_on = self._recently(node, now_s)
        if phase in ("Running", "Succeeded", "Failed") and track.running_s is None:
            track.running_s = now_s
        if phase in ("Succeeded", "Failed") and track.finished_s is None:
            track.finished_s = now_s

    def sample(
        self,
        readings: Mapping[str, RecordedNode],
        now_s: float,
        *,
        device_watts: float = 0.0,
        device_joules: float = 0.0,
    ) -> Sample:
        """Record a sample of all nodes and pods, and return it."""
        by_class: dict[SchedulableClass, list[RecordedNode]] = {node_class: [] for node_class in SchedulableClass}
        by_power: dict[Power, list[RecordedNode]] = {power: [] for power in Power}
        for name, reading in readings.items():
            by_class[self.classes.get(name, SchedulableClass.UNKNOWN)].append(reading)
            by_power[reading.power].append(reading)
            before = self._powers.get(name, reading.power)
            if before is not reading.power:
                self.power_changes.append(RecordedTransition(now_s, name, before, reading.power))
            self._powers[name] = reading.power
        sample = Sample(
            now_s,
            {node_class: NodeSums.of(members) for node_class, members in by_class.items()},
            {power: NodeSums.of(members) for power, members in by_power.items()},
            self.pod_counts(),
            device_watts,
            device_joules,
        )
        self.samples.append(sample)
        return sample

    def pod_counts(self) -> dict[WorkloadClass, PodCounts]:
        """Return the pods by class: pending until bound, running until finished."""
        found: Counter[tuple[WorkloadClass, str]] = Counter()
        for track in self.pods.values():
            stage = (
                "finished" if track.finished_s is not None else "running" if track.bound_s is not None else "pending"
            )
            found[track.workload_class, stage] += 1
        return {
            workload: PodCounts(found[workload, "pending"], found[workload, "running"], found[workload, "finished"])
            for workload in WorkloadClass
        }

    def tracks(self, workload_class: WorkloadClass) -> list[PodTrack]:
        """Return the pods of one class."""
        return [track for track in self.pods.values() if track.workload_class is workload_class]

    @property
    def unfinished(self) -> int:
        """Number of pods created and not finished."""
        return sum(track.finished_s is None for track in self.pods.values())

    def _recently(self, node: str, now_s: float) -> frozenset[SchedulableClass]:
        current = self.classes.get(node, SchedulableClass.UNKNOWN)
        changed_s, before = self._changed.get(node, (float("-inf"), current))
        return frozenset({current, before} if now_s - changed_s <= PLACEMENT_GRACE_S else {current})
