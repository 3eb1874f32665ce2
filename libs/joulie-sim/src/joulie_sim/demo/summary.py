"""Summary of a run. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.units import JOULES_PER_KWH
from joulie_sim.demo.record import PodTrack, RunRecord, energy_kwh
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.demo.without_joulie import DemoComparison
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
    """Summary of a run; times are simulated seconds.

    Where no node sleeps, `power_offs` is None and `energy_by_power_kwh` is empty.
    """

    duration_s: float
    nodes: int
    classes: Mapping[WorkloadClass, ClassSummary]
    energy_kwh: Mapping[SchedulableClass, float]
    mean_watts: float | None
    peak_watts: float | None
    transitions: int
    #: Maximum of pods bound per second of the clock over any five seconds.
    peak_pods_per_s: float
    #: Restarts of services that exited during the run.
    restarts: int = 0
    #: Simulated seconds per second of the clock.
    speed: float = 1.0
    power_offs: int | None = None
    energy_by_power_kwh: Mapping[Power, float] = field(default_factory=dict)
    most_asleep: int = 0
    #: None for a run that was ended before its pods were done.
    without_joulie: DemoComparison | None = None

    @property
    def total_kwh(self) -> float:
        """Energy of all nodes."""
        return sum(self.energy_kwh.values())


def summarize(
    record: RunRecord,
    *,
    duration_s: float,
    energy_joules: Mapping[SchedulableClass, float],
    slowdowns: Mapping[WorkloadClass, float | None] | None = None,
    restarts: int = 0,
    speed: float = 1.0,
    power_offs: int | None = None,
) -> Summary:
    """Return the summary of a run.

    Args:
        record: of the run.
        duration_s: of the workload, in simulated seconds.
        energy_joules: of the nodes of each class.
        slowdowns: the exact ones of the simulator, used where given.
        restarts: of services.
        speed: simulated seconds per second of the clock.
        power_offs: of servers; None where no node sleeps.
    """
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
        peak_pods_per_s=peak_rate(
            [track.bound_s / speed for track in record.pods.values() if track.bound_s is not None]
        ),
        restarts=restarts,
        speed=speed,
        power_offs=power_offs,
        energy_by_power_kwh={} if power_offs is None else energy_kwh(record.samples, duration_s),
        most_asleep=max((sample.by_power[Power.ASLEEP].nodes for sample in record.samples), default=0),
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
        "simulatedSecondsPerSecond": summary.speed,
        "sleep": None if summary.power_offs is None else _sleep_json(summary),
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


def _sleep_json(summary: Summary) -> dict[str, Any]:
    return {
        "powerOffs": summary.power_offs,
        "mostAsleep": summary.most_asleep,
        "energyKwh": {power.value: kwh for power, kwh in summary.energy_by_power_kwh.items()},
    }


def _comparison_json(found: DemoComparison) -> dict[str, Any]:
    lowest, highest = found.range_pct
    return {
        "savedPct": found.saved_pct,
        "savedPctLowest": lowest,
        "savedPctHighest": highest,
        "savedOfTheBetterPct": found.saved_of_better_pct,
        "errorPct": found.error_pct,
        **{
            name: {
                "energyKwh": arm.kwh,
                "meanSlowdown": {each.value: slowdown for each, slowdown in arm.slowdowns.items()},
                "meanWaitSeconds": {each.value: waits.mean_s for each, waits in arm.waits.items()},
                "p95WaitSeconds": {each.value: waits.p95_s for each, waits in arm.waits.items()},
                "transitions": arm.transitions,
                "powerOffs": arm.power_offs,
            }
            for name, arm in (
                ("measured", found.measured),
                ("simulated", found.simulated),
                ("withoutJoulie", found.without),
                ("packingWithoutJoulie", found.packing),
            )
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
