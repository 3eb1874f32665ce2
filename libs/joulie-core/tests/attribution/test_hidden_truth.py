"""Coverage, width and error of the energy by pod on simulated nodes, of which only counters are seen."""

import math
import random
from dataclasses import dataclass

import pytest

from joulie_core.attribution.cpus import PackagesInterval, WattsBand, packages_energy
from joulie_core.attribution.fit import fitted_watts

CORES = 16
#: Watts of a thread that has its core for itself, at the least demanding work; two threads of a core draw 1.3 times it.
LEAST_WATTS = 2.0
SMT_WATTS = 1.3
MOST_TIMES = 4.0
#: Of the packages in deep and in shallow sleep states; how deep they sleep depends on the load.
IDLE = WattsBand(36.0, 44.0)
#: From half of a core that two threads share to a whole core with the most demanding work.
BUSY = WattsBand(LEAST_WATTS * SMT_WATTS / 2.0, LEAST_WATTS * MOST_TIMES)
SECONDS = 10.0


@dataclass(frozen=True)
class Truth:
    """One interval: what is measured, and what each pod drew in joules."""

    interval: PackagesInterval
    joules: dict[str, float]
    idle_joules: float


def intervals(seed: int, count: int, *, pods: int = 8, system: bool = True) -> list[Truth]:
    """Return intervals of one node with pods that have 1 to 4 times the watts per CPU second."""
    rng = random.Random(seed)
    times = {f"pod-{number}": rng.uniform(1.0, MOST_TIMES) for number in range(pods)}
    system_times = rng.uniform(1.0, MOST_TIMES)
    return [_interval(rng, times, system_times if system else 0.0) for _ in range(count)]


def _interval(rng: random.Random, times: dict[str, float], system_times: float) -> Truth:
    cpu = {pod: SECONDS * rng.uniform(0.0, 2.0 * CORES / len(times)) for pod in times}
    system = SECONDS * rng.uniform(0.0, 0.5) if system_times else 0.0
    total = math.fsum(cpu.values()) + system
    threads = min(1.0, total / (SECONDS * 2 * CORES))
    # The second threads of cores are used when all cores are: the more of them, the less each CPU second draws.
    doubled = max(0.0, 2.0 * threads - 1.0)
    per_thread = LEAST_WATTS * (1.0 - doubled * (1.0 - SMT_WATTS / 2.0))
    idle = SECONDS * (IDLE.lowest + (IDLE.highest - IDLE.lowest) * min(1.0, 2.0 * threads))
    joules = {pod: times[pod] * per_thread * seconds for pod, seconds in cpu.items()}
    counter = idle + math.fsum(joules.values()) + system_times * per_thread * system
    measured = PackagesInterval(SECONDS, counter, total, cpu)
    return Truth(measured, joules, idle)


NODES = range(10)
#: Intervals that are judged, after as many as the fit has seen.
FITTED, JUDGED = 120, 20


def _figures() -> tuple[float, float, float]:
    covered, widths, errors, share_errors = [], [], [], []
    for seed in NODES:
        truths = intervals(seed, FITTED + JUDGED)
        watts = fitted_watts([truth.interval for truth in truths[:FITTED]], BUSY, IDLE)
        for truth in truths[FITTED:]:
            result = packages_energy(truth.interval, BUSY, IDLE, watts)
            active = truth.interval.joules - IDLE.lowest * truth.interval.seconds
            plain = truth.interval.joules - result.idle_joules
            for pod in result.pods:
                true = truth.joules[pod.holder]
                covered.append(pod.lower_joules - 1e-6 <= true <= pod.upper_joules + 1e-6)
                widths.append((pod.upper_joules - pod.lower_joules) / active)
                errors.append(abs(pod.joules - true))
                share = (truth.interval.pod_cpu_seconds[pod.holder] or 0.0) / (truth.interval.node_cpu_seconds or 1.0)
                share_errors.append(abs(share * plain - true))
    return sum(covered) / len(covered), sum(widths) / len(widths), math.fsum(errors) / math.fsum(share_errors)


def test_the_bounds_cover_the_truth_and_are_narrow_and_the_point_is_better_than_shares_of_cpu_time():
    coverage, width, error = _figures()
    print(f"coverage {coverage:.1%}, width {width:.1%} of all active energy, error {error:.2f} of CPU-time shares")
    assert coverage >= 0.95
    assert width <= 0.5
    assert error <= 1 / 3


@pytest.mark.parametrize("pods", [1, 2, 3])
def test_few_pods_are_covered_too(pods):
    for truth in intervals(5, 40, pods=pods):
        for pod in packages_energy(truth.interval, BUSY, IDLE).pods:
            assert pod.lower_joules - 1e-6 <= truth.joules[pod.holder] <= pod.upper_joules + 1e-6


def test_the_lower_bounds_of_two_pods_fit_into_the_counter_and_both_truths_into_the_bounds():
    (truth,) = intervals(3, 1, pods=2, system=False)
    both = {pod.holder: pod for pod in packages_energy(truth.interval, BUSY, IDLE).pods}
    assert math.fsum(pod.lower_joules for pod in both.values()) <= truth.interval.joules
    assert all(pod.lower_joules <= truth.joules[name] <= pod.upper_joules for name, pod in both.items())
