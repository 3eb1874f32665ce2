"""Summary of a run. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_sim.demo.record import PodTrack, RunRecord
from joulie_sim.demo.without_joulie import DemoComparison
from joulie_sim.energy import JOULES_PER_KWH
from joulie_sim.pod_figures import WaitFigures, mean

_THROUGHPUT_WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """Pods of one workload class. A mean is None if there are no values."""

    created: int
    finished: int
    waits: WaitFigures
    mean_slowdown: float | None
    #: Placed pods by the class of their node then; a node in transition counts as the class that suits the pod.
    placed_on: Mapping[SchedulableClass, int]

    def placed_share(self, node_class: SchedulableClass) -> float | None:
        """Return the share of the placed pods on nodes of one class; None before the first."""
        return self.placed_on.get(node_class, 0) / self.waits.bound if self.waits.bound else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a run."""

    duration_s: float
    nodes: int
    classes: Mapping[WorkloadClass, ClassSummary]
    energy_kwh: Mapping[SchedulableClass, float]
    mean_watts: float | None
    peak_watts: float | None
    transitions: int
    #: Maximum of pods bound per second over any five seconds.
    peak_pods_per_s: float
    #: Restarts of services that exited during the run.
    restarts: int = 0
    #: None for a run that was ended before its pods were done.
    without_joulie: DemoComparison | None = None


def summarize(
    record: RunRecord,
    *,
    duration_s: float,
    energy_joules: Mapping[SchedulableClass, float],
    slowdowns: Mapping[WorkloadClass, float | None] | None = None,
    restarts: int = 0,
) -> Summary:
    """Return the summary of a run; `slowdowns` are the exact ones of the simulator, used where given."""
    watts = [sample.watts for sample in record.samples]
    classes = {
        workload: _summarize_class(workload, record.tracks(workload), (slowdowns or {}).get(workload))
        for workload in WorkloadClass
    }
    return Summary(
        duration_s=duration_s,
        nodes=len(record.classes),
        classes=classes,
        energy_kwh={node_class: joules / JOULES_PER_KWH for node_class, joules in energy_joules.items()},
        mean_watts=mean(watts),
        peak_watts=max(watts, default=None),
        transitions=record.transition_count,
        peak_pods_per_s=peak_rate([track.bound_s for track in record.pods.values() if track.bound_s is not None]),
        restarts=restarts,
    )


def peak_rate(moments_s: Sequence[float], window_s: float = _THROUGHPUT_WINDOW_S) -> float:
    """Return the maximum of events per second over any window of this length."""
    moments = sorted(moments_s)
    most, first = 0, 0
    for last, moment in enumerate(moments):
        while moments[first] <= moment - window_s:
            first += 1
        most = max(most, last - first + 1)
    return most / window_s


def as_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as JSON values."""
    return {
        "durationSeconds": summary.duration_s,
        "nodes": summary.nodes,
        "energyKwh": {node_class.value: kwh for node_class, kwh in summary.energy_kwh.items()},
        "meanWatts": summary.mean_watts,
        "peakWatts": summary.peak_watts,
        "transitions": summary.transitions,
        "peakPodsPerSecond": summary.peak_pods_per_s,
        "serviceRestarts": summary.restarts,
        "withoutJoulie": None if summary.without_joulie is None else _comparison_json(summary.without_joulie),
        "pods": {
            workload.value: {
                "created": found.created,
                "bound": found.waits.bound,
                "finished": found.finished,
                "meanWaitSeconds": found.waits.mean_s,
                "p95WaitSeconds": found.waits.p95_s,
                "meanSlowdown": found.mean_slowdown,
                "placedOn": {node_class.value: count for node_class, count in found.placed_on.items()},
            }
            for workload, found in summary.classes.items()
        },
    }


def _comparison_json(found: DemoComparison) -> dict[str, Any]:
    arms = {"measured": found.measured, "simulated": found.simulated, "withoutJoulie": found.without}
    return {
        "savedPct": found.saved_pct,
        "errorPct": found.error_pct,
        **{
            name: {
                "energyKwh": arm.kwh,
                "meanSlowdown": {each.value: slowdown for each, slowdown in arm.slowdowns.items()},
                "transitions": arm.transitions,
            }
            for name, arm in arms.items()
        },
    }


def _summarize_class(workload: WorkloadClass, tracks: Sequence[PodTrack], slowdown: float | None) -> ClassSummary:
    seen = [track.slowdown for track in tracks if track.slowdown is not None]
    return ClassSummary(
        created=len(tracks),
        finished=sum(track.finished_s is not None for track in tracks),
        waits=WaitFigures.of(track.wait_s for track in tracks),
        mean_slowdown=slowdown if slowdown is not None else mean(seen),
        placed_on=Counter(_placement(workload, track) for track in tracks if track.placed_on),
    )


def _placement(workload: WorkloadClass, track: PodTrack) -> SchedulableClass:
    suits = SchedulableClass.PERFORMANCE if workload is WorkloadClass.PERFORMANCE else SchedulableClass.ECO
    return suits if suits in track.placed_on else min(track.placed_on)
