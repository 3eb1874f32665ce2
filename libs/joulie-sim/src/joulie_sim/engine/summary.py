"""Figures of one simulation: energy, work done, and who was slowed down.

Stretch and slowdown (`joulie_sim.pod_figures`) are stated for each class of pods and each pool, as GPU jobs are few and
a common percentile hides them; and for each class and hardware family of the nodes on which the jobs ran. Work counts
as far as it was received, also of jobs that still run at the end. All of a simulation is measured, or a window of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.units import JOULES_PER_KWH
from joulie_sim.energy import SECONDS_PER_HOUR, kwh_until, per_core_second
from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.records import MINUTE_S, IdlePower, MeasuredWindow, MinuteRecords, SimulationResult
from joulie_sim.pod_figures import mean, percentile, slowdown, stretch, wait

_MILLI: Final = 1000.0
_POOLS: Final = ("cpu", "gpu")


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Jobs of one class in one pool; stretch and slowdown are of jobs that are done, 0 where there is none."""

    workload_class: str
    #: `cpu` or `gpu` by what the jobs request; or the GPU model, else CPU model, of the nodes on which they ran.
    pool: str
    jobs: int
    done: int
    #: Work received, times the GPUs of jobs that request some, times the cores of the others.
    work_device_hours: float
    stretch_mean: float
    stretch_p50: float
    stretch_p95: float
    stretch_p99: float
    #: Seconds from arrival to start.
    wait_p99_s: float
    slowdown_mean: float


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
    #: All jobs; those that are done; those that found no room on arrival where that drops them.
    jobs: int
    done: int
    dropped: int
    #: Work received, times the cores of the jobs, and times their GPUs: hours of the reference model.
    work_core_hours: float
    work_gpu_hours: float
    #: Mean shares of all cores and of all GPUs that jobs held over the measured time.
    cores_held: float
    gpus_held: float
    #: IT and facility energy per second of work of one hardware thread of the reference model; the work of jobs with
    #: GPUs counts with their cores, in seconds of the reference GPU.
    joules_per_core_second: float
    facility_joules_per_core_second: float
    transitions: int
    #: Times that a node was powered off within the measured time.
    power_cycles: int = 0
    #: Of the IT energy: nodes that were off, on the way to it, or booted; nodes that were on without jobs; and the idle
    #: power of nodes with jobs. As at the end of each minute; the rest is what jobs added.
    off_kwh: float = 0.0
    empty_kwh: float = 0.0
    working_idle_kwh: float = 0.0
    #: Number of nodes by model whose work per second is not published, and was taken as that of the reference model.
    unrated: dict[str, int] = {}
    #: By class and pool.
    groups: tuple[GroupSummary, ...]
    #: By class and hardware family; jobs that never ran are in none.
    hardware: tuple[GroupSummary, ...]

    @property
    def missed(self) -> int:
        """Jobs that are not done."""
        return self.jobs - self.done

    def it_kwh_until(self, end_s: float) -> float:
        """Return the IT energy up to a common end, with idle power from this arm's own end on."""
        return kwh_until(end_s, self.it_kwh, self.end_s, idle_kw=self.idle_kw)

    def facility_kwh_until(self, end_s: float) -> float:
        """Return the facility's energy up to a common end, with its power for idle nodes from this arm's own end on."""
        return kwh_until(end_s, self.facility_kwh, self.end_s, idle_kw=self.idle_facility_kw)

    def stretch_mean(self, workload_class: WorkloadClass) -> float | None:
        """Return the mean stretch of a class in all pools; None without a job that is done."""
        return self._mean_of(workload_class, lambda group: group.stretch_mean)

    def slowdown_mean(self, workload_class: WorkloadClass) -> float | None:
        """Return the mean slowdown of a class in all pools; None without a job that is done."""
        return self._mean_of(workload_class, lambda group: group.slowdown_mean)

    def _mean_of(self, workload_class: WorkloadClass, figure: Callable[[GroupSummary], float]) -> float | None:
        groups = [group for group in self.groups if group.workload_class == workload_class.value]
        done = sum(group.done for group in groups)
        return sum(figure(group) * group.done for group in groups) / done if done else None


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Figures of a simulation within its window; arrays over jobs."""

    length_s: float
    it_joules: float
    facility_joules: float
    watts: Floats
    #: Joules of `IdlePower`.
    idle_joules: IdlePower
    power_cycles: int
    #: Jobs that arrived within it, and when they started and were done; NaN where they were not.
    arrived: Bools
    started_s: Floats
    ended_s: Floats
    #: Seconds for which a job held its node, and seconds of work that it received.
    held_s: Floats
    received_s: Floats


def _measured(result: SimulationResult, jobs: Jobs, window: MeasuredWindow | None) -> _Measured:
    records, minutes = result.jobs, result.minutes
    bounds = MeasuredWindow(0.0, result.end_s) if window is None else window
    ended_s = np.where(np.isnan(records.ended_s), result.end_s, records.ended_s)
    overlap_s = np.minimum(ended_s, bounds.end_s) - np.maximum(records.started_s, bounds.begin_s)
    held_s = np.maximum(np.nan_to_num(overlap_s), 0.0)
    received_s = jobs.work_s - records.left_s
    watts = np.array(minutes.it_watts)
    if window is None:
        return _Measured(
            length_s=result.end_s,
            it_joules=result.it_joules,
            facility_joules=result.facility_joules,
            watts=watts,
            idle_joules=_idle_joules(minutes, np.diff(minutes.ends_s, prepend=0.0)),
            power_cycles=result.power_cycles,
            arrived=np.ones(len(jobs), dtype=np.bool_),
            started_s=records.started_s,
            ended_s=records.ended_s,
            held_s=held_s,
            received_s=received_s,
        )
    if result.end_s < window.end_s:
        raise ValueError(f"the simulation ends at {result.end_s:g} s, before the window that is measured")
    ends_s, ran_s = np.array(minutes.ends_s), ended_s - records.started_s
    within = (ends_s > window.begin_s) & (ends_s <= window.end_s)
    share = np.divide(held_s, ran_s, out=np.zeros(len(jobs)), where=ran_s > 0.0)
    return _Measured(
        length_s=window.end_s - window.begin_s,
        it_joules=float(watts[within].sum()) * MINUTE_S,
        facility_joules=float(np.array(minutes.facility_watts)[within].sum()) * MINUTE_S,
        watts=watts[within],
        idle_joules=_idle_joules(minutes, np.where(within, MINUTE_S, 0.0)),
        power_cycles=int(np.array(minutes.power_cycles)[within].sum()),
        arrived=(jobs.arrives_s >= window.begin_s) & (jobs.arrives_s < window.end_s),
        started_s=records.started_s,
        ended_s=records.ended_s,
        held_s=held_s,
        received_s=received_s * share,
    )


def _idle_joules(minutes: MinuteRecords, lengths_s: Floats) -> IdlePower:
    off, empty, working = (
        float((np.array(watts) * lengths_s).sum())
        for watts in (minutes.off_watts, minutes.empty_watts, minutes.working_idle_watts)
    )
    return IdlePower(off, empty, working)


def summarize(
    result: SimulationResult, jobs: Jobs, machines: Machines, window: MeasuredWindow | None = None
) -> SimulationSummary:
    """Return the figures of a simulation of these jobs on these nodes.

    Args:
        result: of the simulation.
        jobs: its workload.
        machines: its nodes.
        window: what is measured; None for all of it. Energy, work, use and power cycles are those of the window, with
            the work of a job spread evenly over the time in which it ran; jobs are those that arrived within it.

    Raises:
        ValueError: the simulation ends before the window does.
    """
    measured = _measured(result, jobs, window)
    core_s, gpu_s = (float((devices * measured.received_s).sum()) for devices in (jobs.cpu_milli / _MILLI, jobs.gpus))
    ramps = np.abs(np.diff(measured.watts))
    done = ~np.isnan(measured.ended_s)
    return SimulationSummary(
        end_s=result.end_s,
        it_kwh=measured.it_joules / JOULES_PER_KWH,
        facility_kwh=measured.facility_joules / JOULES_PER_KWH,
        peak_kw=float(measured.watts.max(initial=0.0)) / 1000.0,
        ramp_p99_kw=(percentile(ramps, 0.99) or 0.0) / 1000.0,
        idle_kw=result.idle_watts / 1000.0,
        idle_facility_kw=result.idle_facility_watts / 1000.0,
        jobs=int(measured.arrived.sum()),
        done=int((done & measured.arrived).sum()),
        dropped=result.dropped,
        work_core_hours=core_s / SECONDS_PER_HOUR,
        work_gpu_hours=gpu_s / SECONDS_PER_HOUR,
        cores_held=_share((jobs.cpu_milli * measured.held_s).sum(), machines.allocatable[0].sum() * measured.length_s),
        gpus_held=_share((jobs.gpus * measured.held_s).sum(), machines.gpus.sum() * measured.length_s),
        joules_per_core_second=per_core_second(measured.it_joules, core_s),
        facility_joules_per_core_second=per_core_second(measured.facility_joules, core_s),
        transitions=result.transitions,
        power_cycles=measured.power_cycles,
        off_kwh=measured.idle_joules.off / JOULES_PER_KWH,
        empty_kwh=measured.idle_joules.empty / JOULES_PER_KWH,
        working_idle_kwh=measured.idle_joules.working / JOULES_PER_KWH,
        unrated=machines.unrated,
        groups=_groups(jobs, measured, _POOLS, (jobs.gpus > 0).astype(np.int64)),
        hardware=_groups(jobs, measured, *_families(result, machines)),
    )


def _families(result: SimulationResult, machines: Machines) -> tuple[tuple[str, ...], Ints]:
    """Return the hardware families, and the index of that on which each job ran, -1 for jobs that never ran."""
    families = tuple(sorted({group.view.family for group in machines.groups}))
    of_group = np.array([families.index(group.view.family) for group in machines.groups], dtype=np.int64)
    # Node -1, of a job that was never placed, is the last entry.
    of_node = np.append(of_group[machines.group], -1)
    return families, of_node[result.jobs.node]


def _groups(jobs: Jobs, measured: _Measured, pools: tuple[str, ...], pool_of: Ints) -> tuple[GroupSummary, ...]:
    return tuple(
        _group(
            jobs,
            measured,
            (jobs.performance == (workload_class is WorkloadClass.PERFORMANCE)) & (pool_of == index),
            workload_class,
            pool,
        )
        for workload_class in WorkloadClass
        for index, pool in enumerate(pools)
    )


def _group(jobs: Jobs, measured: _Measured, members: Bools, workload_class: WorkloadClass, pool: str) -> GroupSummary:
    arrived = members & measured.arrived
    finished = arrived & ~np.isnan(measured.ended_s)
    times = (measured.ended_s[finished], jobs.work_s[finished])
    stretches = stretch(jobs.arrives_s[finished], *times)
    devices = np.where(jobs.gpus > 0, jobs.gpus, jobs.cpu_milli / _MILLI)
    received_s = (devices * measured.received_s)[members]
    return GroupSummary(
        workload_class=workload_class.value,
        pool=pool,
        jobs=int(arrived.sum()),
        done=int(finished.sum()),
        work_device_hours=float(received_s.sum()) / SECONDS_PER_HOUR,
        stretch_mean=mean(stretches) or 0.0,
        stretch_p50=percentile(stretches, 0.5) or 0.0,
        stretch_p95=percentile(stretches, 0.95) or 0.0,
        stretch_p99=percentile(stretches, 0.99) or 0.0,
        wait_p99_s=percentile(wait(jobs.arrives_s[finished], measured.started_s[finished]), 0.99) or 0.0,
        slowdown_mean=mean(slowdown(measured.started_s[finished], *times)) or 0.0,
    )


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
