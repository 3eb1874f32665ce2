"""CPU time of the processes of a wave, without what they use at rest."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.host.usage import cpu_s


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU time by process, in seconds, at one instant.

    Attributes:
        at_s: the monotonic clock.
        used_s: what each process has used since its start.
    """

    at_s: float
    used_s: Mapping[str, float]


@dataclass(slots=True)
class CpuMeter:
    """Reads processes and subtracts what they use at rest.

    Attributes:
        processes: the processes by their names in tables; processes of one name are summed.
        at_rest: CPU seconds per second without pods, by name.
    """

    processes: Mapping[str, tuple[ServiceProcess, ...]]
    at_rest: dict[str, float] = field(default_factory=dict)

    def read(self) -> CpuReading:
        """Read all running processes; a process that is not running has used nothing."""
        used = {
            name: sum(cpu_s(process.pid) for process in processes if process.running)
            for name, processes in self.processes.items()
        }
        return CpuReading(time.monotonic(), used)

    def rest(self, first: CpuReading, last: CpuReading) -> None:
        """Take what was used between two readings as the use at rest."""
        duration_s = last.at_s - first.at_s
        self.at_rest = {name: (used_s - first.used_s[name]) / duration_s for name, used_s in last.used_s.items()}

    def between(self, first: CpuReading, last: CpuReading) -> dict[str, float]:
        """Return the CPU seconds between two readings beyond the use at rest, by name."""
        duration_s = last.at_s - first.at_s
        return {
            name: used_s - first.used_s[name] - self.at_rest.get(name, 0.0) * duration_s
            for name, used_s in last.used_s.items()
        }
