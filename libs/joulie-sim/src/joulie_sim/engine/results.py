"""Results as files: a directory with the jobs and the minutes in Parquet, and a manifest in JSON."""

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from joulie_core.demand import WorkloadClass
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.records import SimulationResult
from joulie_sim.engine.summary import SimulationSummary

MANIFEST: Final = "manifest.json"
JOBS: Final = "jobs.parquet"
MINUTES: Final = "minutes.parquet"
_PACKAGES: Final = ("joulie-sim", "joulie-core", "numpy", "pyarrow")


class StoredResultError(Exception):
    """A directory holds no result; the message has the reason."""


class SimulationCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Time and memory of a simulation, without the making of its jobs."""

    cpu_s: float
    events: int
    events_per_cpu_s: float
    #: Of the process so far.
    peak_rss_mib: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Manifest of a simulation: what was simulated, by what, and the figures."""

    arm: str
    seed: int
    #: What makes the nodes and the jobs: the arguments of the command.
    inputs: dict[str, Any]
    nodes: int
    versions: dict[str, str]
    summary: SimulationSummary
    #: What the simulation cost: the only part that differs from run to run.
    cost: SimulationCost
    #: SHA-256 of the Parquet files by name; the same arguments and versions give the same.
    digests: dict[str, str] = {}


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {"python": sys.version.split()[0]} | {name: version(name) for name in _PACKAGES}


def write_result(directory: Path, manifest: Manifest, machines: Machines, jobs: Jobs, result: SimulationResult) -> None:
    """Write a result, and the digests of its files in the manifest; the directory is made where it does not exist.

    Raises:
        OSError: it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(_jobs_table(machines, jobs, result), directory / JOBS)
    minutes = result.minutes
    columns = {name: getattr(minutes, name) for name in minutes.__slots__}
    pq.write_table(pa.table(columns), directory / MINUTES)
    digests = {name: sha256_of(directory / name) for name in (JOBS, MINUTES)}
    manifest = msgspec.structs.replace(manifest, digests=digests)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    (directory / MANIFEST).write_bytes(text + b"\n")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a result.

    Raises:
        StoredResultError: there is none, or it is not valid.
    """
    try:
        return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise StoredResultError(f"{directory} holds no result: {error}") from error


def read_minutes(directory: Path) -> dict[str, list[float]]:
    """Read the minutes of a result, by column.

    Raises:
        StoredResultError: the file is missing or damaged.
    """
    try:
        columns: dict[str, list[float]] = pq.read_table(directory / MINUTES).to_pydict()
    except (OSError, pa.ArrowException) as error:
        raise StoredResultError(f"{directory} holds no minutes: {error}") from error
    return columns


def _jobs_table(machines: Machines, jobs: Jobs, result: SimulationResult) -> Any:
    classes = np.where(jobs.performance, WorkloadClass.PERFORMANCE.value, WorkloadClass.STANDARD.value)
    # Index -1, of a job that was never placed, is the last entry.
    names = np.array([*machines.names, ""])
    return pa.table(
        {
            "arrives_s": jobs.arrives_s,
            "started_s": result.jobs.started_s,
            "ended_s": result.jobs.ended_s,
            "left_s": result.jobs.left_s,
            "work_s": jobs.work_s,
            "workload_class": pa.array(classes).dictionary_encode(),
            "cpu_milli": jobs.cpu_milli,
            "gpus": jobs.gpus,
            "node": pa.array(names[result.jobs.node]).dictionary_encode(),
        }
    )
