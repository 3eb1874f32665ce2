"""One simulation of a command: its progress bar, its cost and its result on disk."""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from joulie_sim.commands.protocol import settings_from
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.records import MeasuredWindow, SimulationResult
from joulie_sim.engine.results import Manifest, SimulationCost, sha256_of, versions, write_result
from joulie_sim.engine.simulation import Simulation
from joulie_sim.engine.summary import SimulationSummary, summarize

#: Arguments that do not decide what is simulated, or that the manifest has elsewhere.
_NO_INPUTS: Final = frozenset({"run", "out", "arm", "arms", "seed", "seeds", "loads", "load", "workers"})
_KIB_PER_MIB: Final = 1024.0

T = TypeVar("T")
R = TypeVar("R")


def simulate(
    arguments: argparse.Namespace,
    machines: Machines,
    jobs: Jobs,
    *,
    arm: str,
    seed: int,
    load: float,
    out: Path,
    window: MeasuredWindow | None = None,
) -> SimulationSummary:
    """Run one arm, with a progress bar on a terminal; write its result and return its figures.

    The figures are those of the window, and of the whole simulation without one.

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
    summary = summarize(result, jobs, machines, window)
    if window is not None:
        # Nothing is to be added to the energy of a window for an arm that ends later.
        summary = msgspec.structs.replace(summary, end_s=window.end_s)
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
    """Show a bar with the time that is left while the context lasts, on a terminal only; yield what moves it.

    Processes of `in_processes` show none: they would write over the bar of their parent.
    """
    console = Console(stderr=True)
    hidden = not console.is_terminal or multiprocessing.parent_process() is not None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=total)
        yield lambda completed: progress.update(task, completed=completed)


def in_processes(function: Callable[[T], R], tasks: Sequence[T], *, workers: int, title: str, unit: str) -> list[R]:
    """Return what a function returns for each task, in the order of the tasks.

    Args:
        function: called in processes of its own where there is more than one worker; it and the tasks can be pickled.
        tasks: its arguments.
        workers: number of processes.
        title: of the progress bar.
        unit: of the tasks, for the progress bar.
    """
    if workers == 1:
        return [function(task) for task in tasks]
    # Spawned: a fork would copy the threads of the plotting and Parquet libraries in whatever state they are.
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context) as pool,
        progress_bar(title, len(tasks), unit) as update,
    ):
        futures = [pool.submit(function, task) for task in tasks]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                update(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


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
