"""Files of published measurements: SPECpower_ssj2008 results, and sweeps of GPU power limits.

Both are CSV with a header; columns may be in any order, and columns that are not needed are not read. What a file holds
is recognised by its columns. An error names file, line and column.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Loads of a server result, percent.
LOADS_PCT: Final = tuple(range(0, 101, 10))
_WATTS: Final = ("idle_watts", *(f"watts_at_{load}pct" for load in LOADS_PCT[1:]))
_SERVER_COLUMNS: Final = ("vendor", "cpu_model", "cpu_make", "chips", "tdp_watts_per_chip", "memory_gib", *_WATTS)
_JOB_COLUMNS: Final = ("dataset", "network", "batch_size", "optimizer")
_GPU_COLUMNS: Final = (*_JOB_COLUMNS, "power_limit", "time_per_epoch", "average_power")


class ResultError(Exception):
    """A file that cannot be used; the message names file, line and column as far as there are any."""

    def __init__(self, path: Path, reason: str, *, line: int | None = None, column: str | None = None) -> None:
        place = f"{path}" + (f":{line}" if line is not None else "") + (f": column {column}" if column else "")
        super().__init__(f"{place}: {reason}")


class FitError(Exception):
    """Results that no constants can be fitted to."""


@dataclass(frozen=True, slots=True)
class ServerResult:
    """One published result of one server, at the wall."""

    #: Who built the server.
    vendor: str
    cpu_model: str
    #: Who made its CPUs, as the inventory names the vendor of a CPU.
    cpu_vendor: str
    sockets: int
    #: Per package.
    tdp_watts: float
    memory_gib: float
    #: At loads 0, 10, ... 100 %.
    wall_watts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CappedRun:
    """One job at one power limit."""

    limit_watts: float
    seconds: float
    watts: float


@dataclass(frozen=True, slots=True)
class GpuJob:
    """One training job at several power limits."""

    name: str
    #: At the highest limit: there the job is taken to draw its natural power and to have its full speed.
    free: CappedRun
    #: At all lower limits, the highest first.
    capped: tuple[CappedRun, ...]


@dataclass(frozen=True, slots=True)
class GpuResults:
    """The jobs of one GPU model."""

    name: str
    jobs: tuple[GpuJob, ...]


def read_results(path: Path) -> tuple[ServerResult, ...] | GpuResults:
    """Return the results of a file.

    Raises:
        ResultError: the file cannot be read, has no results or other columns, or a value cannot be used.
    """
    rows = list(_rows(path))
    header = rows[0][1] if rows else {}
    if "watts_at_100pct" in header:
        return tuple(_server(path, line, row) for line, row in rows)
    return GpuResults(path.stem, _jobs(path, rows))


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ResultError(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ResultError(path, f"is no UTF-8 text (byte {error.start})") from error
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        header = next(reader, [])
        _check_header(path, header)
        found = False
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                missing = header[len(row)] if len(row) < len(header) else None
                reason = f"has {len(row)} values and the header {len(header)}"
                raise ResultError(path, reason, line=reader.line_num, column=missing)
            found = True
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise ResultError(path, str(error), line=reader.line_num) from error
    if not found:
        raise ResultError(path, "has no results", line=reader.line_num)


def _check_header(path: Path, header: Sequence[str]) -> None:
    present = set(header)
    wanted = _SERVER_COLUMNS if present.intersection(_WATTS) else _GPU_COLUMNS
    if not present.intersection(_SERVER_COLUMNS + _GPU_COLUMNS):
        kinds = f"server results ({', '.join(_SERVER_COLUMNS[:5])}, ...) nor of GPU runs ({', '.join(_GPU_COLUMNS)})"
        raise ResultError(path, f"has neither the columns of {kinds}", line=1)
    missing = next((column for column in wanted if column not in present), None)
    if missing is not None:
        raise ResultError(path, "is missing", line=1, column=missing)
    repeated = next((column for column in header if header.count(column) > 1), None)
    if repeated is not None:
        raise ResultError(path, "is there twice", line=1, column=repeated)


def _number(path: Path, line: int, row: Mapping[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ResultError(path, f"{row[column]!r} is no number above 0", line=line, column=column)
    return value


def _server(path: Path, line: int, row: Mapping[str, str]) -> ServerResult:
    chips = _number(path, line, row, "chips")
    if chips != int(chips):
        raise ResultError(path, f"{row['chips']!r} is no whole number", line=line, column="chips")
    watts = tuple(_number(path, line, row, column) for column in _WATTS)
    if watts[0] >= watts[-1]:
        raise ResultError(path, f"idle {watts[0]:g} W is not below full load", line=line, column="idle_watts")
    maker = {"intel": "Intel", "amd": "AMD"}.get(row["cpu_make"].strip().lower(), row["cpu_make"].strip())
    return ServerResult(
        vendor=row["vendor"].strip(),
        cpu_model=row["cpu_model"].strip(),
        cpu_vendor=maker,
        sockets=int(chips),
        tdp_watts=_number(path, line, row, "tdp_watts_per_chip"),
        memory_gib=_number(path, line, row, "memory_gib"),
        wall_watts=watts,
    )


def _jobs(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]]) -> tuple[GpuJob, ...]:
    runs: dict[str, dict[float, CappedRun]] = defaultdict(dict)
    for line, row in rows:
        run = CappedRun(*(_number(path, line, row, column) for column in _GPU_COLUMNS[len(_JOB_COLUMNS) :]))
        job = runs["/".join(row[column].strip() for column in _JOB_COLUMNS)]
        if run.limit_watts in job:
            raise ResultError(path, "the job has this limit twice", line=line, column="power_limit")
        job[run.limit_watts] = run
    jobs = [_job(name, list(by_limit.values())) for name, by_limit in runs.items() if len(by_limit) > 1]
    if not jobs:
        raise ResultError(path, "has no job with two limits", column="power_limit")
    return tuple(jobs)


def _job(name: str, runs: list[CappedRun]) -> GpuJob:
    free, *capped = sorted(runs, key=lambda run: run.limit_watts, reverse=True)
    return GpuJob(name, free, tuple(capped))
