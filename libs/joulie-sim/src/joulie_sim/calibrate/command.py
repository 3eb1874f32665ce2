"""`joulie-sim calibrate`: errors of the shipped models on result files, and the fit of their constants."""

import argparse
import sys
from importlib.resources import files
from pathlib import Path

from joulie_core.hardware.inventory import Inventory
from joulie_core.power.server import ServerModels
from joulie_sim.calibrate.constants import render_constants
from joulie_sim.calibrate.report import gpus_left_out_report, gpus_report, servers_left_out_report, servers_report
from joulie_sim.calibrate.results import FitError, GpuResults, ResultError, ServerResult, read_results

_EPILOG = """\
Files are CSV, recognised by their columns: server results (SPECpower_ssj2008: vendor, cpu_model, cpu_make, chips,
tdp_watts_per_chip, memory_gib, idle_watts, watts_at_10pct ... watts_at_100pct), and runs of GPU jobs at several power
limits (Zeus: dataset, network, batch_size, optimizer, power_limit, time_per_epoch, average_power).

Columns of the GPU table: caps below natural power; mean absolute and mean error of the speed there; median cost of caps
well above natural power, which the model takes as 0; measured power over the cap.

example:
  joulie-sim calibrate --check specpower/results.csv zeus-gpu-caps/v100.csv
"""
_EXIT_DIFFERENT = 1
_EXIT_USAGE = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command; its `run` takes the parsed arguments and returns the exit status."""
    parser = subparsers.add_parser(
        "calibrate",
        help="errors of the power models on published measurements",
        description="State the errors of the shipped power models on result files, or fit their constants to them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="print the errors on these files")
    action.add_argument("--fit", nargs="+", type=Path, metavar="FILE", help="write the constants that fit these files")
    parser.add_argument(
        "--left-out",
        action="store_true",
        help="with --check, also fit without each vendor, generation and GPU of the files, and print the errors on it",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="with --fit, where to write; default: power_models.toml of joulie-core",
    )
    parser.add_argument(
        "--compare", action="store_true", help="with --fit, write nothing; exit 1 where the constants are others"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, 1 where `--compare` finds a difference, or 2 with a message for files it cannot use."""
    try:
        if arguments.check:
            return _check(arguments.check, left_out=arguments.left_out)
        return _fit(arguments.fit, arguments.output, compare=arguments.compare)
    except (ResultError, FitError) as error:
        sys.stderr.write(f"joulie-sim calibrate: {error}\n")
        return _EXIT_USAGE


def _check(paths: list[Path], *, left_out: bool) -> int:
    servers, gpus = _read(paths)
    tables = []
    if servers:
        tables.append(servers_report(servers, ServerModels.load()))
        if left_out:
            tables.append(servers_left_out_report(servers))
    if gpus:
        tables.append(gpus_report(gpus, Inventory.load().generic_gpu(None).curve.response))
        if left_out and len(gpus) > 1:
            tables.append(gpus_left_out_report(gpus))
    sys.stdout.write("\n\n".join(tables) + "\n")
    return 0


def _fit(paths: list[Path], output: Path | None, *, compare: bool) -> int:
    servers, gpus = _read(paths)
    if not (servers and gpus):
        missing = "sweeps of GPU power limits" if servers else "server results"
        sys.stderr.write(f"joulie-sim calibrate: a fit needs {missing} too\n")
        return _EXIT_USAGE
    target = output or Path(str(files("joulie_core.hardware").joinpath("power_models.toml")))
    text = render_constants(servers, gpus)
    same = target.is_file() and target.read_text(encoding="utf-8") == text
    if compare or same:
        sys.stdout.write(f"{target}: {'unchanged' if same else 'other constants'}\n")
        return 0 if same else _EXIT_DIFFERENT
    target.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{target}: written\n")
    return 0


def _read(paths: list[Path]) -> tuple[list[ServerResult], list[GpuResults]]:
    servers: list[ServerResult] = []
    gpus: list[GpuResults] = []
    for path in paths:
        results = read_results(path)
        if isinstance(results, GpuResults):
            gpus.append(results)
        else:
            servers += results
    # Independent of the order of the arguments.
    return servers, sorted(gpus, key=lambda each: each.name)
