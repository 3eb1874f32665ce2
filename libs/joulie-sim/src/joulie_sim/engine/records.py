"""Records of a simulation: the course of every job, and the state of the cluster every minute."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from joulie_sim.engine.arrays import Floats, Ints

MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """The part of a simulation that is measured: whole minutes since its start."""

    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class IdlePower:
    """Watts of all nodes that do not depend on what jobs do."""

    #: Of nodes that are off, on the way to it, or boot.
    off: float
    #: Idle power of nodes that are on and have no jobs, and of those that have some.
    empty: float
    working: float


@dataclass(frozen=True, slots=True, eq=False)
class JobRecords:
    """Arrays over jobs. A job that was not done has no end (NaN), one that never ran no start and node -1."""

    started_s: Floats
    ended_s: Floats
    node: Ints
    #: Work that a job has not received at the end: 0 for one that is done.
    left_s: Floats

    @staticmethod
    def empty(jobs: int) -> "JobRecords":
        """Return the records of jobs that have not started."""
        return JobRecords(
            np.full(jobs, np.nan), np.full(jobs, np.nan), np.full(jobs, -1, dtype=np.int64), np.full(jobs, np.nan)
        )


@dataclass(slots=True)
class MinuteRecords:
    """One entry for each minute, that is the last one until the end of the simulation; watts are means over it."""

    ends_s: list[float] = field(default_factory=list)
    it_watts: list[float] = field(default_factory=list)
    facility_watts: list[float] = field(default_factory=list)
    running_jobs: list[int] = field(default_factory=list)
    waiting_jobs: list[int] = field(default_factory=list)
    performance_nodes: list[int] = field(default_factory=list)
    draining_nodes: list[int] = field(default_factory=list)
    #: Off, and on the way up.
    asleep_nodes: list[int] = field(default_factory=list)
    waking_nodes: list[int] = field(default_factory=list)
    #: Times that a node was powered off within the minute.
    power_cycles: list[int] = field(default_factory=list)
    #: `IdlePower` at the end of the minute.
    off_watts: list[float] = field(default_factory=list)
    empty_watts: list[float] = field(default_factory=list)
    working_idle_watts: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    """Everything that a simulation leaves behind; energies since its start."""

    jobs: JobRecords
    minutes: MinuteRecords
    #: Joules of each node.
    node_joules: Floats
    it_joules: float
    facility_joules: float
    #: Watts of all nodes without a job and without caps; nodes that were off at the end stay off.
    idle_watts: float
    #: The facility's watts for these, as the mean over a day.
    idle_facility_watts: float
    end_s: float
    events: int
    #: Jobs that found no room on arrival, where that is the protocol.
    dropped: int
    transitions: int
    #: Times that a node was powered off.
    power_cycles: int = 0
    #: Times that a job was moved to empty its node.
    moved: int = 0
