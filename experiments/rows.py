"""The rows of `runs.csv`: a line for each simulation, and what it was made of.

A row is kept when an experiment is run again as long as its inputs are the same: configuration, nodes and arm. Where
the code has changed since, the first row of an arm is simulated anew (`experiments.run`): only if it comes out the same
are the arm's other rows kept.
"""

import csv
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import joulie_core
import joulie_sim
from experiments.config import STEADY_PROTOCOLS, Experiment
from joulie_sim.engine.arms import ARMS

Row = dict[str, str]
#: Text that tells what a row was made of.
_STAMPS: Final = ("inputs", "code")
_DIGITS: Final = 12
#: An arm counts by itself.
_ARM_MODULES: Final = ("arms.py", "budget_arms.py", "packing_sleep_arms.py")
#: Whatever else they name, more rows do not change those that are there.
_NO_INPUTS: Final = {"directory", "overload", "seeds", "arms", "steady"}
#: Fields that rows of the protocol *steady* do not depend on.
_NOT_OF_STEADY: Final = _NO_INPUTS | {"jobs", "hours", "gpu_share"}


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """One simulation of an experiment."""

    protocol: str
    load: float
    seed: int
    arm: str

    @staticmethod
    def of(row: Row) -> "RunKey":
        """Return the simulation that a row is of."""
        return RunKey(row["protocol"], float(row["load"]), int(row["seed"]), row["arm"])


def planned(experiment: Experiment) -> list[RunKey]:
    """Return the simulations of an experiment, seed by seed."""
    return [
        RunKey(protocol, load, seed, arm)
        for seed in range(experiment.seeds)
        for protocol, load in experiment.protocols
        for arm in experiment.arms_of(protocol)
    ]


def read_rows(path: Path) -> dict[RunKey, Row]:
    """Return the rows of a file; none where it does not exist."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {RunKey.of(row): row for row in csv.DictReader(file)}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write all rows anew."""
    rows = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_table(path: Path) -> list[Row]:
    """Return the rows of a file that `append_row` writes, in order; none where it does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def append_row(path: Path, row: Row) -> None:
    """Add a row to a file, which is begun where it does not exist."""
    begun = path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if not begun:
            writer.writeheader()
        writer.writerow(row)


def text_row(figures: dict[str, Any]) -> Row:
    """Return a row as the file has it."""
    return {name: str(round(value, 5) if isinstance(value, float) else value) for name, value in figures.items()}


def figures_of(row: Row) -> Row:
    """Return a row without what it was made of."""
    return {name: value for name, value in row.items() if name not in _STAMPS}


def inputs_digest(experiment: Experiment, arm: str, protocol: str) -> str:
    """Return a digest of what a row depends on besides its key and the code."""
    steady = protocol in STEADY_PROTOCOLS
    excluded = _NOT_OF_STEADY if steady else _NO_INPUTS
    values = {field.name: getattr(experiment, field.name) for field in fields(experiment)}
    # Fields that are at their default do not count: a field that is new changes no other experiment.
    defaults = {field.name: field.default for field in fields(experiment)}
    values = {name: value for name, value in values.items() if name not in excluded and value != defaults[name]}
    if steady and experiment.steady is not None:
        values |= {"warm_up_hours": experiment.steady.warm_up_hours, "window_hours": experiment.steady.hours}
    nodes = experiment.directory / "nodes.yaml"
    return _digest(repr(values).encode(), nodes.read_bytes() if nodes.exists() else b"", repr(ARMS[arm]).encode())


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a digest of all code and constants that a simulation runs, but for the arms."""
    core, sim = (Path(module.__file__ or "").parent for module in (joulie_core, joulie_sim))
    files = [*core.rglob("*.py"), *core.rglob("*.toml"), sim / "hardware.py"]
    files += [path for name in ("engine", "physics", "workload") for path in (sim / name).rglob("*.py")]
    code = [path.read_bytes() for path in sorted(files) if path.name not in _ARM_MODULES]
    return _digest(np.__version__.encode(), *code)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:_DIGITS]
