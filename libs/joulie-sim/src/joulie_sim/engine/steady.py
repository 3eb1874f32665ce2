"""A load that lasts: jobs of lengths that do not depend on the load, whose number follows it.

The jobs are those of `joulie_sim.engine.synthetic`, with a stated mean and longest work and as many as offer the load:
`load * devices * time / (mean work * mean devices of a job)`, for the GPUs, and for the cores that jobs with GPUs
leave. The work of jobs with GPUs and of the others is scaled by a factor near 1 each, so that chance in the sizes of
jobs does not change what is offered. Lengths are those on the cluster's mean device, as in `synthetic`.
See docs/decisions/0037-steady-load.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.records import MeasuredWindow
from joulie_sim.engine.synthetic import ArrivalMix, WorkloadError, mean_rate, mean_request, synthetic_jobs

_MILLI: Final = 1000.0
#: Less than that of a batch, so that a load of 0.7 fits at the peak of the day, which is then 0.91.
_DIURNAL_SWING: Final = 0.3
#: Fewer than those of a batch, so that one array does not hold all GPUs of a few dozen nodes for hours.
_BURST_JOBS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyMix:
    """Parameters of a load that lasts."""

    #: Share of the GPUs, and of the cores, that the work occupies in the mean at full speed.
    load: float
    #: Time in which jobs arrive before the measured window, at least as long as the longest job takes; and the window.
    warm_up_s: float
    #: Whole days.
    window_s: float
    #: Seconds at full speed on the mean device of the cluster.
    mean_work_s: float = 3_600.0
    longest_work_s: float = 8 * 3_600.0
    performance_share: float = 0.3

    @property
    def measured(self) -> MeasuredWindow:
        """The part of the simulation that is to be measured."""
        return MeasuredWindow(self.warm_up_s, self.warm_up_s + self.window_s)


def steady_jobs(mix: SteadyMix, machines: Machines, seed: int) -> Jobs:
    """Return the workload for a cluster; the same arguments give the same jobs.

    Raises:
        WorkloadError: no node could hold the jobs, jobs with GPUs alone exceed the load of the cores, or the warm-up is
            shorter than the longest job takes on the slowest nodes.
    """
    if mix.warm_up_s < mix.longest_work_s / machines.slowest_share:
        raise WorkloadError(
            "the warm-up is shorter than the longest work on the slowest nodes: the window would begin with less of it"
        )
    length_s = mix.warm_up_s + mix.window_s
    mean = mean_request(machines)
    # The window is whole days and has the daily mean; the warm-up may have more or less.
    load = mix.load * mean_rate(length_s, _DIURNAL_SWING)
    # Jobs of one device that each device gets.
    offered = load * length_s / mix.mean_work_s
    gpu_jobs = offered * float(machines.gpus.sum()) / mean.gpus if mean.gpus else 0.0
    cpu_jobs = (offered * float(machines.allocatable[0].sum()) / _MILLI - gpu_jobs * mean.gpu_job_cores) / mean.cores
    if cpu_jobs < 0.0:
        raise WorkloadError("the cores of jobs with GPUs exceed the load; the nodes have too few cores per GPU")
    arrivals = ArrivalMix(
        jobs=round(gpu_jobs + cpu_jobs),
        window_s=length_s,
        load=load,
        longest_work_s=mix.longest_work_s,
        performance_share=mix.performance_share,
        gpu_share=gpu_jobs / (gpu_jobs + cpu_jobs),
        diurnal_swing=_DIURNAL_SWING,
        burst_jobs=_BURST_JOBS,
    )
    return synthetic_jobs(arrivals, machines, seed)
