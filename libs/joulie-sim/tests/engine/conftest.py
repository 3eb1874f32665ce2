"""Small clusters and workloads for the engine."""

from dataclasses import replace

import numpy as np
import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs

_GIB = 1024**3


@pytest.fixture(scope="session")
def machines() -> Machines:
    return machines_of(default_nodes(40), Inventory.load())


def _equally_fast(machines: Machines) -> Machines:
    """Return nodes whose devices all do the work of the reference model: jobs take their work in seconds."""
    hardware = (group.hardware for group in machines.groups)
    equal = (
        replace(
            parts,
            cpu=parts.cpu and replace(parts.cpu, work_per_thread=1.0),
            gpu=parts.gpu and replace(parts.gpu, work_per_gpu=1.0),
        )
        for parts in hardware
    )
    groups = tuple(replace(group, hardware=parts) for group, parts in zip(machines.groups, equal, strict=True))
    return replace(machines, groups=groups)


@pytest.fixture(scope="session")
def equally_fast():
    """Return a function that makes all models of nodes as fast as the reference."""
    return _equally_fast


@pytest.fixture(scope="session")
def equal_machines(machines: Machines) -> Machines:
    return _equally_fast(machines)


@pytest.fixture(scope="session")
def busy_jobs(machines: Machines) -> Jobs:
    return synthetic_jobs(ArrivalMix(jobs=1500, window_s=7200.0, load=0.3), machines, seed=3)


@pytest.fixture(scope="session")
def equal_jobs():
    """Return a function that makes equal jobs without GPUs."""
    return _equal_jobs


def _equal_jobs(arrives_s: list[float], *, cores: int = 1, work_s: float = 100.0, performance: bool = False) -> Jobs:
    count = len(arrives_s)
    return Jobs(
        arrives_s=np.array(arrives_s),
        performance=np.full(count, performance),
        cpu_milli=np.full(count, 1000 * cores),
        memory_bytes=np.full(count, _GIB),
        gpus=np.zeros(count, dtype=np.int64),
        gpu_resource=np.zeros(count, dtype=np.int64),
        work_s=np.full(count, work_s),
        kind=np.zeros(count, dtype=np.int64),
        cpu_utilization=np.ones(count),
        gpu_utilization=np.zeros(count),
    )
