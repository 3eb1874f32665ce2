"""One simulation of a command: its progress bar, its cost and its result on disk."""

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from joulie_sim.commands.protocol import settings_from
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.records import SimulationResult
from joulie_sim.engine.results import Manifest, SimulationCost, sha256_of, versions, write_result
from joulie_sim.engine.simulation import Simulation
from joulie_sim.engine.summary import SimulationSummary, summarize

#: Arguments that do not decide what is simulated, or that the manifest has elsewhere.
_NO_INPUTS: Final = frozenset({"run", "out", "arm", "arms", "seed", "seeds", "loads", "load", "workers"})
_KIB_PER_MIB: Final = 1024.0


def simulate(
    arguments: argparse.Namespace, machines: Machines, jobs: Jobs, *, arm: str, seed: int, load: float, out: Path
) -> SimulationSummary:
    """Run one arm, with a progress bar on a terminal; write its result and return its figures.

    Raises:
        OSError: the result cannot be written, or an input cannot be read again for its digest.
    """
    with progress_bar(f"{arm}, seed {seed}", len(jobs), "jobs") as update:
        simulation = Simulation(
            machines,
            jobs,
            ARMS[arm],
            settings_from(arguments, seed=seed),
            on_progress=lambda _now_s, done: update(done),
        )
        started_s = time.process_time()
        result = simulation.run()
        cost = _cost(result, time.process_time() - started_s)
    summary = summarize(result, jobs, machines)
    manifest = Manifest(
        arm=arm,
        seed=seed,
        inputs=_inputs(arguments, load),
        nodes=len(machines),
        versions=versions(),
        summary=summary,
        cost=cost,
    )
    write_result(out, manifest, machines, jobs, result)
    return summary


@contextmanager
def progress_bar(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time that is left while the context lasts, on a terminal only; yield what moves it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda completed: progress.update(task, completed=completed)


def _cost(result: SimulationResult, cpu_s: float) -> SimulationCost:
    return SimulationCost(
        cpu_s=cpu_s,
        events=result.events,
        events_per_cpu_s=result.events / cpu_s if cpu_s else 0.0,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MIB,
    )


def _inputs(arguments: argparse.Namespace, load: float) -> dict[str, Any]:
    """Return the arguments that make nodes, jobs and protocol, with the digests of the files that they name."""
    inputs: dict[str, Any] = {"load": load}
    for name, value in vars(arguments).items():
        if name in _NO_INPUTS:
            continue
        inputs[name] = str(value) if isinstance(value, Path) else value
        if isinstance(value, Path) and value.is_file():
            inputs[f"{name}_sha256"] = sha256_of(value)
    return inputs
