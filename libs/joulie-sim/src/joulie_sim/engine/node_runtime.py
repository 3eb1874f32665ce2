"""The jobs of one node over time: speeds, power and the next completion.

Guarantees exact integration: power and speeds are constant between two calls. Jobs that always have the same speed
share a `WorkClock`, which counts the work that each of them has received since the clock was started; a job ends when
the clock shows what it showed at the job's start plus the job's work. So a change of speed costs the same for one job
and for a hundred.
"""

import heapq
from math import inf
from typing import Final, NamedTuple

from joulie_sim.engine.power_model import NodePowerModel
from joulie_sim.physics.parts import Controls, Hardware

#: Busy CPU is counted in whole millionths of a core, so that no sum drifts.
_MICRO: Final = 1_000_000
#: GPU utilization and sensitivity, as in `WorkClock`.
_ClockKey = tuple[float | None, float | None]


class WorkClock:
    """Work received by jobs of one speed."""

    __slots__ = ("ends", "gpu_utilization", "received_s", "sensitivity", "speed")

    def __init__(self, gpu_utilization: float | None, sensitivity: float | None) -> None:
        #: Utilization of the GPUs of these jobs; None for jobs without GPUs.
        self.gpu_utilization = gpu_utilization
        #: To the CPUs' frequency; None for jobs that use no CPU.
        self.sensitivity = sensitivity
        self.speed = 1.0
        self.received_s = 0.0
        #: (reading of the clock at the end of the job, job), the next one first.
        self.ends: list[tuple[float, int]] = []


class RunningJob(NamedTuple):
    """What a job does to its node while it runs."""

    busy_cores: float
    gpus: int
    gpu_utilization: float
    #: See `joulie_core.power.draw.SENSITIVITY`.
    sensitivity: float


class NodeRuntime:
    """One node. `now_s` must not fall from call to call."""

    __slots__ = (
        *("_busy_micro", "_clocks", "_due", "_gpus", "_gpus_held", "_model"),
        *("controls", "device_watts", "now_s", "watts"),
    )

    def __init__(self, hardware: Hardware, model: NodePowerModel) -> None:
        self._model = model
        self._gpus = hardware.gpu.count if hardware.gpu is not None else 0
        self._clocks: dict[_ClockKey, WorkClock] = {}
        self._busy_micro = 0
        #: GPUs held by jobs, by their utilization.
        self._gpus_held: dict[float, int] = {}
        self._due: WorkClock | None = None
        self.controls = Controls()
        self.now_s = 0.0
        #: At the wall.
        self.watts = 0.0
        #: Of CPU packages and GPUs, which is what agents measure.
        self.device_watts = 0.0
        self.settle()

    def start(self, job: int, running: RunningJob, work_s: float) -> None:
        """Start a job now; `settle` has to follow."""
        key = (running.gpu_utilization if running.gpus else None, running.sensitivity if running.busy_cores else None)
        clock = self._clocks.get(key)
        if clock is None:
            clock = self._clocks[key] = WorkClock(*key)
        heapq.heappush(clock.ends, (clock.received_s + work_s, job))
        self._hold(running, 1)

    def release(self, running: RunningJob) -> None:
        """Return what a completed job held; `settle` has to follow."""
        self._hold(running, -1)

    def advance(self, now_s: float) -> None:
        """Let the jobs work until `now_s`, which is not after the next completion."""
        elapsed_s = now_s - self.now_s
        if elapsed_s > 0.0:
            for clock in self._clocks.values():
                clock.received_s += clock.speed * elapsed_s
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
            del self._clocks[clock.gpu_utilization, clock.sensitivity]
        return done

    def settle(self) -> float:
        """Compute power and speeds of the present jobs; return when the next one completes, infinity if none does."""
        server = self._model.server(self._busy_micro / _MICRO, self.controls)
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
            if clock.gpu_utilization is not None:
                # The slowest device that the jobs use decides.
                speed = min(speed, self._model.gpu(clock.gpu_utilization, self.controls).speed)
            clock.speed = speed
            if speed > 0.0:
                end_s = self.now_s + max(0.0, clock.ends[0][0] - clock.received_s) / speed
                if end_s < next_s:
                    next_s, self._due = end_s, clock
        return next_s

    def _gpu_watts(self) -> float:
        watts, held = 0.0, 0
        for utilization, count in self._gpus_held.items():
            watts += count * self._model.gpu(utilization, self.controls).watts
            held += count
        return watts + (self._gpus - held) * self._model.gpu(0.0, self.controls).watts

    def _hold(self, running: RunningJob, sign: int) -> None:
        self._busy_micro += sign * round(running.busy_cores * _MICRO)
        if running.gpus:
            held = self._gpus_held.get(running.gpu_utilization, 0) + sign * running.gpus
            if held:
                self._gpus_held[running.gpu_utilization] = held
            else:
                del self._gpus_held[running.gpu_utilization]
