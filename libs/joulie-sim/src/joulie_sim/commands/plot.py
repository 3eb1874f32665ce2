"""`joulie-sim plot`: power over time, and who was slowed down."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from joulie_sim.commands.inputs import INPUT_ERRORS
from joulie_sim.engine.results import Manifest, read_manifest, read_minutes

_EPILOG: Final = """\
example:
  joulie-sim plot results/load-0.6/seed-0/kube_default results/load-0.6/seed-0/static_partition --out power.png
"""
_EXIT_USAGE: Final = 2
_KILO: Final = 1000.0
_SECONDS_PER_HOUR: Final = 3600.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "plot",
        help="plot results",
        description="Plot the power of several results over time, and the p95 stretch of each class and pool.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="DIR", help="directories of results")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".png, .svg or .pdf")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for results it cannot plot."""
    try:
        write_power_plot(arguments.out, arguments.results)
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim plot: {error}\n")
        return _EXIT_USAGE
    return 0


def write_power_plot(path: Path, results: Sequence[Path]) -> None:
    """Plot results; the suffix of the path decides the format.

    Raises:
        StoredResultError: a directory holds no result.
        OSError: the file cannot be written.
        ValueError: the format is unknown.
    """
    manifests = [read_manifest(directory) for directory in results]
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(10, 7), layout="constrained")
        upper, lower = figure.subplots(2, 1, height_ratios=(3, 2))
        for directory, manifest in zip(results, manifests, strict=True):
            minutes = read_minutes(directory)
            hours = [end_s / _SECONDS_PER_HOUR for end_s in minutes["ends_s"]]
            kilowatts = [watts / _KILO for watts in minutes["it_watts"]]
            upper.plot(hours, kilowatts, linewidth=1, label=f"{manifest.arm}: {manifest.summary.it_kwh:,.0f} kWh")
        upper.set(xlabel="time [h]", ylabel="IT power [kW]", ylim=(0, None))
        upper.legend(fontsize=8)
        _bars(lower, manifests)
        for axes in (upper, lower):
            axes.grid(visible=True, alpha=0.3)
        figure.savefig(path, dpi=120)


def _bars(axes: "mpl.axes.Axes", manifests: Sequence[Manifest]) -> None:
    width = 0.8 / len(manifests)
    groups = manifests[0].summary.groups
    for number, manifest in enumerate(manifests):
        places = [place + number * width for place in range(len(groups))]
        axes.bar(places, [group.stretch_p95 for group in manifest.summary.groups], width, label=manifest.arm)
    middle = 0.4 - width / 2
    names = [f"{group.workload_class}, {group.pool}" for group in groups]
    axes.set_xticks([place + middle for place in range(len(groups))], names)
    axes.set(ylabel="p95 stretch", ylim=(0, None))
