"""Tables of model errors on result files, as text."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median

import numpy as np

from joulie_core.hardware.power_curve import CapResponse
from joulie_core.power.server import ServerModels
from joulie_sim.calibrate.gpus import GpuErrors, evaluate_gpu, left_out_errors
from joulie_sim.calibrate.results import GpuResults, ServerResult
from joulie_sim.calibrate.servers import (
    MeasuredErrors,
    ServerErrors,
    evaluate_servers,
    fit_servers,
    generation,
    left_out,
    measured_left_out,
)

_SERVER_HEAD = ("server power, error in %", "results", "mean", "median", "p90")
_GPU_HEAD = ("GPU speed under a cap", "jobs", "caps", "error", "bias", "above", "draw")


def servers_report(results: Sequence[ServerResult], models: ServerModels) -> str:
    """Return the errors of models on server results: by what is known of a server, then by group of CPUs."""
    rows = _error_rows("", evaluate_servers(results, models))
    for name in sorted({generation(result) for result in results}):
        errors = evaluate_servers([result for result in results if generation(result) == name], models)
        rows.append(_server_row(f"  {name}, idle and maximum known", errors.known_pct))
        rows.append(_server_row(f"  {name}, TDP alone", errors.tdp_pct))
    return _table(_SERVER_HEAD, rows)


def servers_left_out_report(results: Sequence[ServerResult]) -> str:
    """Return the errors on results that the models are not fitted to: of each server vendor, generation, CPU vendor."""
    measured = measured_left_out(results, fit_servers(results))
    rows = [
        *_measured_rows(measured),
        *_error_rows("server vendor left out: ", left_out(results, lambda each: each.vendor)),
        *_error_rows("generation left out: ", left_out(results, generation)),
        *_error_rows("CPU vendor left out: ", left_out(results, lambda each: each.cpu_vendor)),
    ]
    return _table(_SERVER_HEAD, rows)


def gpus_report(files: Sequence[GpuResults], response: CapResponse) -> str:
    """Return the errors of a law on sweeps of power limits, one row per file."""
    return _table(_GPU_HEAD, [_gpu_row(each.name, evaluate_gpu(each.jobs, response)) for each in files])


def gpus_left_out_report(files: Sequence[GpuResults]) -> str:
    """Return the errors on each file of a law that is fitted to the others, with its constants."""
    rows = [
        _gpu_row(f"{name} left out: s {law.static_share:.2f}, e {law.exponent:.2f}", errors)
        for name, law, errors in left_out_errors(files)
    ]
    return _table(_GPU_HEAD, rows)


def _error_rows(prefix: str, errors: ServerErrors) -> list[tuple[str, ...]]:
    bases = [
        ("idle and maximum known", errors.known_pct),
        ("TDP and memory", errors.tdp_memory_pct),
        ("TDP alone", errors.tdp_pct),
        ("measured curve", errors.measured_pct),
    ]
    return [_server_row(prefix + name, values) for name, values in bases if values]


def _measured_rows(errors: MeasuredErrors) -> list[tuple[str, ...]]:
    rows = [_server_row("result left out: measured curve", errors.left_out_pct)] if errors.left_out_pct else []
    return [*rows, ("  the only result of its model", str(errors.single), "-", "-", "-")]


def _server_row(name: str, errors_pct: Sequence[float]) -> tuple[str, ...]:
    high = float(np.quantile([*errors_pct], 0.9))
    return (name, str(len(errors_pct)), f"{fmean(errors_pct):.1f}", f"{median(errors_pct):.1f}", f"{high:.1f}")


def _gpu_row(name: str, errors: GpuErrors) -> tuple[str, ...]:
    draw = "-" if errors.draw_over_cap is None else f"{errors.draw_over_cap:.2f}"
    above = "-" if errors.measured_above_cost is None else f"{errors.measured_above_cost:.3f}"
    error, bias = ("-", "-") if not errors.binding else (f"{errors.binding_mae:.3f}", f"{errors.binding_bias:+.3f}")
    return (name, str(errors.jobs), str(errors.binding), error, bias, above, draw)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
