"""The scale of a run's times. No I/O.

Scaled: the work of pods and the energy (the simulator's speed), arrivals, the times of servers (boot, power-off), and
the times of the sleep policy. Not scaled: what programs take, such as scheduling, back-off of kube-scheduler, watches
and the passes of the services, and the deadlines after which a boot or a power-off has failed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Seconds that are simulated in one second of the clock."""

    speed: float

    def clock_s(self, simulated_s: float) -> float:
        """Return seconds of the clock for simulated seconds."""
        return simulated_s / self.speed

    def simulated_s(self, clock_s: float) -> float:
        """Return simulated seconds for seconds of the clock."""
        return clock_s * self.speed

    def whole_clock_s(self, simulated_s: int) -> int:
        """Return whole seconds of the clock, at least one: fields of a policy have no smaller step."""
        return max(1, round(self.clock_s(simulated_s)))
