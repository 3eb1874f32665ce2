"""Figures of one simulation: energy, work done, and who was slowed down.

Slowdown is the time from arrival to completion over the work: the time that the job would take alone at full speed.
It is stated for each class of pods and each pool, as GPU jobs are few and a common percentile hides them.
"""

from typing import Final

import msgspec
import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_sim.engine.arrays import Bools, Floats
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.records import SimulationResult

_JOULES_PER_KWH: Final = 3.6e6
_SECONDS_PER_HOUR: Final = 3600.0
_POOLS: Final = ("cpu", "gpu")


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Jobs of one class in one pool; figures of slowdown are of jobs that are done, 0 where there is none."""

    workload_class: str
    pool: str
    jobs: int
    done: int
    #: Work of the jobs that are done, times their cores or GPUs.
    work_device_hours: float
    slowdown_mean: float
    slowdown_p50: float
    slowdown_p95: float
    slowdown_p99: float
    #: Time from start to completion over the work: what caps cost.
    running_slowdown_mean: float


class SimulationSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One arm."""

    end_s: float
    it_kwh: float
    facility_kwh: float
    #: Of one-minute means; a ramp is the difference of two consecutive ones.
    peak_kw: float
    ramp_p99_kw: float
    idle_kw: float
    idle_facility_kw: float
    jobs: int
    done: int
    #: IT energy per second of work of one hardware thread, of all jobs that are done.
    joules_per_core_second: float
    transitions: int
    groups: tuple[GroupSummary, ...]

    @property
    def missed(self) -> int:
        """Jobs that are not done."""
        return self.jobs - self.done

    def it_kwh_until(self, end_s: float) -> float:
        """Return the IT energy up to a common end, with idle power from this arm's own end on."""
        return self.it_kwh + self.idle_kw * max(0.0, end_s - self.end_s) / _SECONDS_PER_HOUR

    def facility_kwh_until(self, end_s: float) -> float:
        """Return the facility's energy up to a common end, with its power for idle nodes from this arm's own end on."""
        return self.facility_kwh + self.idle_facility_kw * max(0.0, end_s - self.end_s) / _SECONDS_PER_HOUR

    def slowdown_mean(self, workload_class: WorkloadClass) -> float:
        """Return the mean slowdown of a class in all pools."""
        groups = [group for group in self.groups if group.workload_class == workload_class.value]
        done = sum(group.done for group in groups)
        return sum(group.slowdown_mean * group.done for group in groups) / done if done else 0.0


def summarize(result: SimulationResult, jobs: Jobs) -> SimulationSummary:
    """Return the figures of a simulation of these jobs."""
    done = ~np.isnan(result.jobs.ended_s)
    core_seconds = float((jobs.cpu_milli / 1000.0 * jobs.work_s)[done].sum())
    watts = np.array(result.minutes.it_watts)
    ramps = np.abs(np.diff(watts))
    return SimulationSummary(
        end_s=result.end_s,
        it_kwh=result.it_joules / _JOULES_PER_KWH,
        facility_kwh=result.facility_joules / _JOULES_PER_KWH,
        peak_kw=float(watts.max(initial=0.0)) / 1000.0,
        ramp_p99_kw=float(np.percentile(ramps, 99)) / 1000.0 if len(ramps) else 0.0,
        idle_kw=result.idle_watts / 1000.0,
        idle_facility_kw=result.idle_facility_watts / 1000.0,
        jobs=len(jobs),
        done=int(done.sum()),
        joules_per_core_second=result.it_joules / core_seconds if core_seconds else 0.0,
        transitions=result.transitions,
        groups=tuple(
            _group(result, jobs, done, workload_class, pool) for workload_class in WorkloadClass for pool in _POOLS
        ),
    )


def _group(result: SimulationResult, jobs: Jobs, done: Bools, workload_class: WorkloadClass, pool: str) -> GroupSummary:
    members = (jobs.performance == (workload_class is WorkloadClass.PERFORMANCE)) & ((jobs.gpus > 0) == (pool == "gpu"))
    finished = members & done
    work_s = jobs.work_s[finished]
    slowdown = (result.jobs.ended_s - jobs.arrives_s)[finished] / work_s
    running = (result.jobs.ended_s - result.jobs.started_s)[finished] / work_s
    devices = jobs.gpus[finished] if pool == "gpu" else jobs.cpu_milli[finished] / 1000.0
    return GroupSummary(
        workload_class=workload_class.value,
        pool=pool,
        jobs=int(members.sum()),
        done=int(finished.sum()),
        work_device_hours=float((devices * work_s).sum()) / _SECONDS_PER_HOUR,
        slowdown_mean=_mean(slowdown),
        slowdown_p50=_percentile(slowdown, 50),
        slowdown_p95=_percentile(slowdown, 95),
        slowdown_p99=_percentile(slowdown, 99),
        running_slowdown_mean=_mean(running),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
