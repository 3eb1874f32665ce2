"""The accounts of a day: watts and energy by power state, pods that wait, and what sleep has to do with it. No I/O.

Times and energies are those of the day.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.sleep_state import SleepState
from joulie_sim.demo.record import PodTrack
from joulie_sim.energy import JOULES_PER_KWH


class Power(StrEnum):
    """State of a server, by its simulated BMC and the label of its node."""

    AWAKE = "awake"
    #: From the request to power on until the node takes pods.
    WAKING = "waking"
    #: Off: on standby.
    ASLEEP = "asleep"


@dataclass(frozen=True, slots=True)
class ServerReading:
    """One server at one moment."""

    power: Power
    watts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySample:
    """The cluster at one moment; watts are at the wall."""

    at_s: float
    watts: Mapping[Power, float]
    nodes: Mapping[Power, int]
    pending: int
    running: int
    finished: int
    #: CPU packages and GPUs, as the live simulator has them: watts now, and joules so far by exact integration.
    device_watts: float
    device_joules: float

    @property
    def total_watts(self) -> float:
        """Watts of all servers."""
        return sum(self.watts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDay:
    """Observations of one arm."""

    title: str
    samples: Sequence[DaySample]
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


def power_of(bmc_state: str, sleep_state: str | None) -> Power:
    """Return what a server does; a server that is going off counts as awake, since it draws as much.

    Args:
        bmc_state: `PowerState` by Redfish of the simulated BMC.
        sleep_state: label of the node; None without it.
    """
    if bmc_state == PowerState.OFF:
        return Power.ASLEEP
    waking = bmc_state == PowerState.POWERING_ON or sleep_state == SleepState.WAKING.label
    return Power.WAKING if waking else Power.AWAKE


def add_up(readings: Iterable[ServerReading]) -> tuple[dict[Power, float], dict[Power, int]]:
    """Return watts and number of the servers by what they do."""
    watts, nodes = dict.fromkeys(Power, 0.0), dict.fromkeys(Power, 0)
    for reading in readings:
        watts[reading.power] += reading.watts
        nodes[reading.power] += 1
    return watts, nodes


def energy_kwh(samples: Sequence[DaySample], end_s: float) -> dict[Power, float]:
    """Return the energy from the first sample to `end_s`: each sample holds until the next, the last until the end."""
    joules = dict.fromkeys(Power, 0.0)
    for sample, until_s in _held(samples, end_s):
        for power, watts in sample.watts.items():
            joules[power] += watts * (until_s - sample.at_s)
    return {power: found / JOULES_PER_KWH for power, found in joules.items()}


def sampling_error_pct(samples: Sequence[DaySample]) -> float:
    """Return the energy of the devices by their samples over the exact one, minus 1, in percent."""
    first, last = samples[0], samples[-1]
    sampled = sum(
        sample.device_watts * max(0.0, until_s - sample.at_s) for sample, until_s in _held(samples, last.at_s)
    )
    return 100.0 * (sampled / (last.device_joules - first.device_joules) - 1.0)


def mean_over(samples: Sequence[DaySample], from_s: float, to_s: float) -> "MeanSample | None":
    """Return the means over a part of the day; None without a sample in it."""
    found = [sample for sample in samples if from_s <= sample.at_s < to_s]
    if not found:
        return None
    count = len(found)
    return MeanSample(
        watts={power: sum(sample.watts[power] for sample in found) / count for power in Power},
        nodes={power: sum(sample.nodes[power] for sample in found) / count for power in Power},
        pending=sum(sample.pending for sample in found) / count,
        running=sum(sample.running for sample in found) / count,
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


def _held(samples: Sequence[DaySample], end_s: float) -> list[tuple[DaySample, float]]:
    """Return each sample with the time until which it holds."""
    return [*((sample, after.at_s) for sample, after in pairwise(samples)), *((each, end_s) for each in samples[-1:])]
