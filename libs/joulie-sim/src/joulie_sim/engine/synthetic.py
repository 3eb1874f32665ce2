"""A synthetic workload of any size, by a documented arrival process.

**Arrivals** are a Poisson process with a daily cycle and bursts, given their number. Its rate is proportional to
`1 + diurnal_swing * sin(2 pi (t - 9 h) / 24 h)`: the mean is reached at 9:00, the peak at 15:00, the minimum at 3:00,
with the workload starting at midnight. A share of the jobs (`burst_share`) arrives in bursts: equal jobs, such as those
of an array of a batch system, within a minute. Bursts follow the same daily cycle; their sizes are geometric.

**Requests.** A share of the jobs (`gpu_share`) requests 1, 2, 4 or 8 GPUs with 8 cores each; the others 1 to 32 cores.
Every core comes with 2 GiB of memory. The work is 60 % compute, 30 % memory, 10 % io. Class, kind of work, GPUs and
cores are independent of each other.

**Work** is log-normal with a sigma of 1.2, from 5 s to the length of the window: a tenth of the jobs have 4.7 times the
median or more, and half of all work. It is scaled so that, at full speed, jobs with GPUs occupy `load` of the GPUs over
the window, and all jobs together `load` of the cores. These times are those on devices of the cluster's mean: the work
is the time times the mean work per second of a thread, or of a GPU of the resource that the job requests.

The figures are those of a mixed batch cluster and not fitted to any one trace; a trace is replayed by the importers.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from joulie_sim.engine.arrays import Floats, Ints
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines

#: Swing of the rate of arrivals over the day, as a share of its mean.
DIURNAL_SWING: Final = 0.6
_DAY_S: Final = 86_400.0
_MEAN_RATE_AT_S: Final = 9 * 3_600.0
#: The rate is integrated in steps of a minute.
_STEP_S: Final = 60.0
_BURST_S: Final = 60.0
_CORES: Final = (1, 2, 4, 8, 16, 32)
_CORES_WEIGHTS: Final = (0.30, 0.22, 0.22, 0.14, 0.08, 0.04)
_GPUS: Final = (1, 2, 4, 8)
_GPUS_WEIGHTS: Final = (0.70, 0.14, 0.08, 0.08)
_CORES_PER_GPU: Final = 8
_MEMORY_PER_CORE: Final = 2 * 1024**3
_WORK_SIGMA: Final = 1.2
_LEAST_WORK_S: Final = 5.0
_BISECTIONS: Final = 60
#: Compute, memory, io: `tuple(WorkKind)`.
_KIND_SHARES: Final = (0.6, 0.3, 0.1)


class WorkloadError(Exception):
    """A workload cannot be made for the nodes; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalMix:
    """Parameters of a synthetic workload; shares are of all jobs, from 0 to 1."""

    jobs: int
    window_s: float
    #: Share of the scarcer resource that the work occupies over the window.
    load: float
    #: On the mean device; None: as long as the window.
    longest_work_s: float | None = None
    performance_share: float = 0.3
    gpu_share: float = 0.25
    diurnal_swing: float = DIURNAL_SWING
    burst_share: float = 0.3
    burst_jobs: float = 50.0


def synthetic_jobs(mix: ArrivalMix, machines: Machines, seed: int) -> Jobs:
    """Return the workload for a cluster; the same arguments give the same jobs.

    Raises:
        WorkloadError: no node could hold the jobs, they are too few for the load, or jobs with GPUs alone exceed it.
    """
    source = np.random.Generator(np.random.PCG64(seed))
    arrives_s, template = _arrivals(mix, source)
    count = mix.jobs
    largest = _largest_cores(machines)
    sizes, weights = _core_sizes(machines)
    resource = source.choice(max(1, len(machines.gpu_resources)), size=count, p=_gpu_weights(machines))
    with_gpu = source.random(count) < mix.gpu_share
    gpus = np.where(with_gpu, _gpu_counts(source, machines, resource), 0).astype(np.int64)
    with_gpu = gpus > 0
    few_cores = source.choice(sizes, size=count, p=weights)
    cores = np.where(with_gpu, np.minimum(_CORES_PER_GPU * gpus, largest), few_cores).astype(np.int64)
    work = np.exp(_WORK_SIGMA * source.standard_normal(count))
    performance = source.random(count) < mix.performance_share
    cpu_use = np.where(with_gpu, _shares(source, 0.3, 0.6, count), _shares(source, 0.6, 1.0, count))
    gpu_use = np.where(with_gpu, _shares(source, 0.6, 1.0, count), 0.0)
    kind = source.choice(len(_KIND_SHARES), size=count, p=_KIND_SHARES)
    work_per_s = np.full(count, machines.mean_work_per_thread)
    if with_gpu.any():
        work_per_s[with_gpu] = machines.mean_work_per_gpu[resource[with_gpu]]
    gpus, cores = gpus[template], cores[template]
    return Jobs(
        arrives_s=arrives_s,
        performance=performance[template],
        cpu_milli=cores * 1000,
        memory_bytes=cores * _MEMORY_PER_CORE,
        gpus=gpus,
        gpu_resource=np.where(with_gpu, resource, 0).astype(np.int64)[template],
        work_s=_scaled(mix, machines, cores.astype(np.float64), gpus.astype(np.float64), work[template])
        * work_per_s[template],
        kind=kind.astype(np.int64)[template],
        cpu_utilization=cpu_use[template],
        gpu_utilization=gpu_use[template],
        gpu_resources=machines.gpu_resources,
    )


@dataclass(frozen=True, slots=True)
class MeanRequest:
    """Mean requests of jobs: those without GPUs, and those with GPUs."""

    cores: float
    gpus: float
    gpu_job_cores: float


def mean_request(machines: Machines) -> MeanRequest:
    """Return what the jobs of `synthetic_jobs` request in the mean; no GPUs where no node has any.

    Raises:
        WorkloadError: no node could hold the jobs.
    """
    sizes, weights = _core_sizes(machines)
    gpus = gpu_job_cores = 0.0
    if machines.gpus.any():
        for share, most in zip(_gpu_weights(machines), machines.gpus.max(axis=1), strict=True):
            counts = np.minimum(_GPUS, most)
            cores = np.minimum(_CORES_PER_GPU * counts, _largest_cores(machines))
            gpus += float(share * (counts * _GPUS_WEIGHTS).sum())
            gpu_job_cores += float(share * (cores * _GPUS_WEIGHTS).sum())
    return MeanRequest(float((sizes * weights).sum()), gpus, gpu_job_cores)


def _largest_cores(machines: Machines) -> int:
    return int(machines.allocatable[0].max() / 1000.0)


def _core_sizes(machines: Machines) -> tuple[Ints, Floats]:
    """Return the cores of jobs without GPUs, and the share of the jobs that has each."""
    sizes = np.array([cores for cores in _CORES if cores <= _largest_cores(machines)], dtype=np.int64)
    if not len(sizes):
        raise WorkloadError("no node has a whole core")
    weights = np.array(_CORES_WEIGHTS[: len(sizes)])
    return sizes, weights / weights.sum()


def _shares(source: np.random.Generator, low: float, high: float, count: int) -> Floats:
    """Return uniform shares in whole percent, so that many jobs are alike."""
    shares: Floats = np.rint(source.uniform(low, high, count) * 100.0) / 100.0
    return shares


def _arrivals(mix: ArrivalMix, source: np.random.Generator) -> tuple[Floats, Ints]:
    """Return the arrivals in order, and for each job the index of the job whose properties it has."""
    template = np.arange(mix.jobs, dtype=np.int64)
    arrives_s = _diurnal(mix, source, mix.jobs)
    in_bursts = int(mix.jobs * mix.burst_share)
    first = mix.jobs - in_bursts
    while first < mix.jobs:
        size = min(mix.jobs - first, int(source.geometric(1.0 / mix.burst_jobs)))
        template[first : first + size] = first
        arrives_s[first : first + size] = arrives_s[first] + source.random(size) * _BURST_S
        first += size
    np.minimum(arrives_s, mix.window_s, out=arrives_s)
    order = np.argsort(arrives_s, kind="stable")
    return arrives_s[order], template[order]


def _diurnal(mix: ArrivalMix, source: np.random.Generator, count: int) -> Floats:
    """Return independent times with the density of the daily cycle."""
    return daily_cycle(source.random(count), mix.window_s, mix.diurnal_swing)


def daily_cycle(shares: Floats, window_s: float, swing: float) -> Floats:
    """Return the times by which these shares of all jobs have arrived, by inversion of the rate's integral.

    Args:
        shares: from 0 to 1.
        window_s: length of the workload, which starts at midnight.
        swing: of the rate over the day, as `ArrivalMix.diurnal_swing`.
    """
    times, rate = _daily_rate(window_s, swing)
    integral = np.concatenate(([0.0], np.cumsum((rate[1:] + rate[:-1]) / 2.0)))
    arrives_s: Floats = np.interp(shares * integral[-1], integral, times)
    return arrives_s


def mean_rate(window_s: float, swing: float) -> float:
    """Return the mean rate of arrivals over a workload as a share of that over whole days; arguments as above."""
    return float(_daily_rate(window_s, swing)[1].mean())


def _daily_rate(window_s: float, swing: float) -> tuple[Floats, Floats]:
    times = np.arange(0.0, window_s + _STEP_S, _STEP_S)
    return times, 1.0 + swing * np.sin(2 * np.pi * (times - _MEAN_RATE_AT_S) / _DAY_S)


def _gpu_weights(machines: Machines) -> Floats:
    totals = machines.gpus.sum(axis=1).astype(np.float64)
    return totals / totals.sum() if len(totals) and totals.sum() else np.ones(1)


def _gpu_counts(source: np.random.Generator, machines: Machines, resource: Ints) -> Ints:
    """Return numbers of GPUs, at most those of the largest node of the resource; 0 for a cluster without."""
    if not len(machines.gpu_resources):
        return np.zeros(len(resource), dtype=np.int64)
    most = machines.gpus.max(axis=1)[resource]
    counts: Ints = np.minimum(source.choice(_GPUS, size=len(resource), p=_GPUS_WEIGHTS), most)
    return counts


def _scaled(mix: ArrivalMix, machines: Machines, cores: Floats, gpus: Floats, work: Floats) -> Floats:
    """Return the seconds on the mean device that offer the load."""
    with_gpu = gpus > 0
    core_s = float(machines.allocatable[0].sum()) / 1000.0 * mix.window_s * mix.load
    longest_s = mix.window_s if mix.longest_work_s is None else mix.longest_work_s
    work_s = work.copy()
    if with_gpu.any():
        gpu_s = float(machines.gpus.sum()) * mix.window_s * mix.load
        work_s[with_gpu] = _fitted(work[with_gpu], gpus[with_gpu], gpu_s, longest_s)
    left = core_s - float((cores * work_s)[with_gpu].sum())
    if left <= 0.0:
        raise WorkloadError("the cores of jobs with GPUs exceed the load; the nodes have too few cores per GPU")
    if not with_gpu.all():
        work_s[~with_gpu] = _fitted(work[~with_gpu], cores[~with_gpu], left, longest_s)
    return work_s


def _fitted(work: Floats, devices: Floats, device_s: float, longest_s: float) -> Floats:
    """Return the work times one factor, within bounds, so that all of it takes `device_s` on its devices."""
    if float(devices.sum()) * longest_s <= device_s:
        raise WorkloadError("so few jobs cannot offer the load; more jobs or less load is needed")

    def bounded(factor: float) -> Floats:
        clipped: Floats = np.clip(work * factor, _LEAST_WORK_S, longest_s)
        return clipped

    # Bisection of the logarithm: the total rises with the factor.
    low, high = -12.0, 12.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        if float((devices * bounded(10.0**middle)).sum()) <= device_s:
            low = middle
        else:
            high = middle
    return bounded(10.0**low)
