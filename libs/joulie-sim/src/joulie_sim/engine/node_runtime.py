"""The jobs of one node over time: speeds, power and the next completion.

Guarantees exact integration: power and speeds are constant between two calls. Jobs that always have the same speed
share a `WorkClock`, which counts the work that each of them has received since the clock was started; a job ends when
the clock shows what it showed at the job's start plus the job's work. So a change of speed costs the same for one job
and for a hundred.
"""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from joulie_core.power.draw import Draw, speed_at_frequency
from joulie_sim.engine.device_limits import NO_LIMITS, DeviceLimits
from joulie_sim.engine.power_model import LimitedGpuWork, NodePowerModel, SlowedCores
from joulie_sim.physics.parts import Controls, Hardware

#: Busy CPU is counted in whole millionths of a core, so that no sum drifts.
_MICRO: Final = 1_000_000
_NO_CONTROLS: Final = Controls()
#: GPU utilization, sensitivity, whether devices are limited and whether GPU work waits for memory, as in `WorkClock`.
_ClockKey = tuple[float | None, float | None, bool, bool]


class WorkClock:
    """Work received by jobs of one speed."""

    __slots__ = ("ends", "gpu_utilization", "limited", "memory_bound", "received_s", "sensitivity", "work_per_s")

    def __init__(
        self,
        gpu_utilization: float | None,
        sensitivity: float | None,
        limited: bool,  # noqa: FBT001
        memory_bound: bool,  # noqa: FBT001
    ) -> None:
        #: Utilization of the GPUs of these jobs; None for jobs without GPUs.
        self.gpu_utilization = gpu_utilization
        #: To the CPUs' frequency; None for jobs that use no CPU.
        self.sensitivity = sensitivity
        #: Whether the devices of these jobs have the limits of standard pods.
        self.limited = limited
        #: Whether the work of these jobs on GPUs waits for memory; only told apart where clocks are limited.
        self.memory_bound = memory_bound
        self.work_per_s = 1.0
        self.received_s = 0.0
        #: (reading of the clock at the end of the job, job), the next one first.
        self.ends: list[tuple[float, int]] = []


class RunningJob(NamedTuple):
    """Load of a node by a job while it runs."""

    busy_cores: float
    gpus: int
    gpu_utilization: float
    #: See `joulie_core.power.draw.SENSITIVITY`.
    sensitivity: float
    #: Whether its devices have the limits of standard pods.
    limited: bool = False
    #: Whether its work on GPUs waits for memory.
    memory_bound: bool = False


class NodeRuntime:
    """One node. `now_s` must not fall from call to call.

    Args:
        hardware: what the node has.
        model: its power and speeds.
        limits: of devices that limited jobs hold; may be replaced, `settle` has to follow.
    """

    __slots__ = (
        *("_busy_micro", "_clocks", "_due", "_gpus", "_gpus_held", "_limited_controls", "_limited_micro"),
        *("_cpu_work_per_s", "_gpu_work_per_s", "_model"),
        *("controls", "device_watts", "limits", "now_s", "watts"),
    )

    def __init__(self, hardware: Hardware, model: NodePowerModel, limits: DeviceLimits = NO_LIMITS) -> None:
        self._model = model
        self.limits = limits
        self._cpu_work_per_s = hardware.work_per_s(gpus=False)
        self._gpu_work_per_s = hardware.work_per_s(gpus=True)
        self._gpus = hardware.gpu.count if hardware.gpu is not None else 0
        self._clocks: dict[_ClockKey, WorkClock] = {}
        self._busy_micro = 0
        #: Part of the above that limited jobs keep busy.
        self._limited_micro = 0
        #: GPUs held by jobs, by their utilization, whether they are limited, and whether they wait for memory.
        self._gpus_held: dict[tuple[float, bool, bool], int] = {}
        self._due: WorkClock | None = None
        #: Controls and limits, and what the limits of devices make of the controls.
        self._limited_controls: tuple[Controls, DeviceLimits, Controls] | None = None
        self.controls = Controls()
        self.now_s = 0.0
        #: At the wall.
        self.watts = 0.0
        #: Of CPU packages and GPUs, which is what agents measure.
        self.device_watts = 0.0
        self.settle()

    @property
    def has_jobs(self) -> bool:
        """Whether jobs run."""
        return bool(self._clocks)

    @property
    def gpus_held(self) -> int:
        """GPUs that jobs hold."""
        return sum(self._gpus_held.values())

    def start(self, job: int, running: RunningJob, work_s: float) -> None:
        """Start a job now; `settle` has to follow."""
        key = (
            running.gpu_utilization if running.gpus else None,
            running.sensitivity if running.busy_cores else None,
            running.limited,
            running.memory_bound,
        )
        clock = self._clocks.get(key)
        if clock is None:
            clock = self._clocks[key] = WorkClock(*key)
        heapq.heappush(clock.ends, (clock.received_s + work_s, job))
        self._hold(running, 1)

    def stop(self, job: int) -> float:
        """Remove a job that runs, up to now, and return the work that it has not received yet; `release` has to follow.

        Raises:
            KeyError: it does not run here.
        """
        for key, clock in self._clocks.items():
            kept = [each for each in clock.ends if each[1] != job]
            if len(kept) < len(clock.ends):
                (end,) = (end for end, each in clock.ends if each == job)
                heapq.heapify(kept)
                clock.ends = kept
                if not kept:
                    del self._clocks[key]
                return max(0.0, end - clock.received_s)
        raise KeyError(job)

    def release(self, running: RunningJob) -> None:
        """Return what a job held that was completed or stopped; `settle` has to follow."""
        self._hold(running, -1)

    def change(self, job: int, before: RunningJob, after: RunningJob) -> None:
        """Let a job that runs load the node otherwise from now on; `settle` has to follow.

        Raises:
            KeyError: it does not run here.
        """
        left_s = self.stop(job)
        self.release(before)
        self.start(job, after, left_s)

    def uncapped_watts(self) -> float:
        """Return what the CPU packages and GPUs would draw with the present jobs, without caps and limits."""
        watts = self._model.server(self._busy_micro / _MICRO, _NO_CONTROLS).packages.watts
        held = 0
        for (utilization, _, _), count in self._gpus_held.items():
            watts += count * self._model.gpu(utilization, _NO_CONTROLS).watts
            held += count
        return watts + (self._gpus - held) * self._model.gpu(0.0, _NO_CONTROLS).watts

    def advance(self, now_s: float) -> None:
        """Let the jobs work until `now_s`, which is not after the next completion."""
        elapsed_s = now_s - self.now_s
        if elapsed_s > 0.0:
            for clock in self._clocks.values():
                clock.received_s += clock.work_per_s * elapsed_s
            self.now_s = now_s

    def complete(self) -> list[int]:
        """Remove the jobs that end at the planned completion, up to which the node was advanced, and return them."""
        clock = self._due
        assert clock is not None, "a completion was planned"
        # Exactly the planned reading: rounding must not leave a rest of work.
        clock.received_s = max(clock.received_s, clock.ends[0][0])
        done = []
        while clock.ends and clock.ends[0][0] <= clock.received_s:
            done.append(heapq.heappop(clock.ends)[1])
        if not clock.ends:
            del self._clocks[clock.gpu_utilization, clock.sensitivity, clock.limited, clock.memory_bound]
        return done

    def left(self) -> Iterator[tuple[int, float]]:
        """Return each running job and the work that it has not received yet."""
        for clock in self._clocks.values():
            for end, job in clock.ends:
                yield job, max(0.0, end - clock.received_s)

    def settle(self) -> float:
        """Compute power and speeds of the present jobs; return when the next one completes, infinity if none does."""
        limit = self.limits.cpu_frequency_share if self._limited_micro else None
        cores = None if limit is None else SlowedCores(self._limited_micro / _MICRO, limit)
        server = self._model.server(self._busy_micro / _MICRO, self.controls, cores)
        packages, self.watts = server.packages, server.wall_watts
        self.device_watts = packages.watts
        if self._gpus:
            gpu_watts = self._gpu_watts()
            self.device_watts += gpu_watts
            self.watts += self._model.wall_watts(gpu_watts)
        slowed = packages.slowed
        next_s, self._due = inf, None
        for clock in self._clocks.values():
            speed = 1.0
            if slowed and clock.sensitivity is not None:
                speed = packages.speed(clock.sensitivity)
            if limit is not None and clock.limited and clock.sensitivity is not None:
                # Caps of packages and of cores seldom meet: neither makes the other's slowdown less.
                speed *= speed_at_frequency(limit, clock.sensitivity)
            if clock.gpu_utilization is not None:
                # The slowest device that the jobs use decides.
                speed = min(speed, self._gpu(clock.gpu_utilization, clock.limited, clock.memory_bound).speed)
            work_per_s = speed * (self._cpu_work_per_s if clock.gpu_utilization is None else self._gpu_work_per_s)
            clock.work_per_s = work_per_s
            if work_per_s > 0.0:
                end_s = self.now_s + max(0.0, clock.ends[0][0] - clock.received_s) / work_per_s
                if end_s < next_s:
                    next_s, self._due = end_s, clock
        return next_s

    def _gpu(self, utilization: float, limited: bool, memory_bound: bool) -> Draw:  # noqa: FBT001
        if not limited:
            return self._model.gpu(utilization, self.controls)
        clock_share = self.limits.gpu_clock_share
        clock = None if clock_share is None else LimitedGpuWork(clock_share, memory_bound)
        return self._model.gpu(utilization, self._under_limits(), clock)

    def _under_limits(self) -> Controls:
        """Return the controls of GPUs that limited jobs hold."""
        controls, kept = self.controls, self._limited_controls
        if kept is None or kept[0] is not controls or kept[1] is not self.limits:
            cap_watts, limited = self.limits.gpu_cap_watts, controls
            if cap_watts is not None and cap_watts < (controls.gpu_cap_watts or inf):
                limited = replace(controls, gpu_cap_watts=cap_watts)
            kept = self._limited_controls = controls, self.limits, limited
        return kept[2]

    def _gpu_watts(self) -> float:
        watts, held = 0.0, 0
        for (utilization, limited, memory_bound), count in self._gpus_held.items():
            watts += count * self._gpu(utilization, limited, memory_bound).watts
            held += count
        return watts + (self._gpus - held) * self._model.gpu(0.0, self.controls).watts

    def _hold(self, running: RunningJob, sign: int) -> None:
        micro = sign * round(running.busy_cores * _MICRO)
        self._busy_micro += micro
        if running.limited:
            self._limited_micro += micro
        if running.gpus:
            key = (running.gpu_utilization, running.limited, running.memory_bound)
            held = self._gpus_held.get(key, 0) + sign * running.gpus
            if held:
                self._gpus_held[key] = held
            else:
                del self._gpus_held[key]
