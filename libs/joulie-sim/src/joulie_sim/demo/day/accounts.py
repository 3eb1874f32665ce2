"""The accounts of a day: watts and energy by power state, pods that wait, and what sleep has to do with it. No I/O.

Times and energies are those of the day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joulie_sim.demo.record import PodTrack, Sample, held
from joulie_sim.demo.sleeping.power import Power


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDay:
    """Observations of one arm."""

    title: str
    samples: Sequence[Sample]
    #: By pod name.
    pods: Mapping[str, PodTrack]
    #: When the last pod ended; None if one did not.
    ended_s: float | None
    #: Mean of all pods that are done.
    slowdown: float | None
    #: From the decision to wake a node until it takes pods, in seconds of the day.
    wakes_s: Sequence[float] = ()
    power_offs: int = 0
    restarts: int = 0


def sampling_error_pct(samples: Sequence[Sample]) -> float:
    """Return the energy of the devices by their samples over the exact one, minus 1, in percent."""
    first, last = samples[0], samples[-1]
    sampled = sum(sample.device_watts * length_s for sample, length_s in held(samples, last.at_s))
    return 100.0 * (sampled / (last.device_joules - first.device_joules) - 1.0)


def mean_over(samples: Sequence[Sample], from_s: float, to_s: float) -> "MeanSample | None":
    """Return the means over a part of the day; None without a sample in it."""
    found = [sample for sample in samples if from_s <= sample.at_s < to_s]
    if not found:
        return None
    count = len(found)
    return MeanSample(
        watts={power: sum(sample.by_power[power].watts for sample in found) / count for power in Power},
        nodes={power: sum(sample.by_power[power].nodes for sample in found) / count for power in Power},
        pending=sum(sample.counts.pending for sample in found) / count,
        running=sum(sample.counts.running for sample in found) / count,
    )


@dataclass(frozen=True, slots=True)
class MeanSample:
    """Means over several samples."""

    watts: Mapping[Power, float]
    nodes: Mapping[Power, float]
    pending: float
    running: float


def waits_for_sleep_s(asleep: Mapping[str, PodTrack], awake: Mapping[str, PodTrack]) -> dict[str, float]:
    """Return by how much longer each pod waited with sleep than without; pods that never got a node are left out."""
    found = {}
    for name, pod in asleep.items():
        other = awake.get(name)
        if pod.wait_s is not None and other is not None and other.wait_s is not None:
            found[name] = max(0.0, pod.wait_s - other.wait_s)
    return found
