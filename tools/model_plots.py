"""Writes docs/img/models.png: the shipped models against the public measurements in the directory JOULIE_DATA_DIR."""

import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from joulie_core.hardware.inventory import Inventory
from joulie_core.power.server import ServerModels
from joulie_sim.calibrate.results import GpuResults, read_results

_TARGET = Path(__file__).parents[1] / "docs" / "img" / "models.png"
_GROUPS = ("skylake", "cascade-lake", "ice-lake", "naples", "rome", "milan", "Intel entry")
_GPUS = {"p100": "P100", "rtx6000": "Quadro RTX 6000", "v100": "V100"}
_LOADS = tuple(range(0, 101, 10))


def main() -> None:
    """Write the picture."""
    data = Path(os.environ["JOULIE_DATA_DIR"])
    gpus = [
        results for name in _GPUS if isinstance(results := read_results(data / f"zeus-gpu-caps/{name}.csv"), GpuResults)
    ]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    _servers(left)
    _speed(middle, gpus)
    _energy(right, gpus)
    figure.savefig(_TARGET, dpi=100, metadata={"Software": None})


def _servers(axes: Axes) -> None:
    for group in _GROUPS:
        axes.plot(_LOADS, ServerModels.load().shapes[group], marker=".", label=group)
    axes.set(title="Servers: power between idle and maximum", xlabel="load, %", ylabel="position, 0 idle to 1 maximum")
    axes.legend()


def _speed(axes: Axes, gpus: list[GpuResults]) -> None:
    for each in gpus:
        runs = [(job, run) for job in each.jobs for run in job.capped]
        shares = [run.limit_watts / job.free.watts for job, run in runs]
        kept = [job.free.seconds / run.seconds for job, run in runs]
        axes.scatter(shares, kept, s=8, alpha=0.5, label=_GPUS[each.name])
    law = Inventory.load().gpus["nvidia-v100-pcie"].curve.response
    grid = [0.3 + step / 100 for step in range(121)]
    axes.plot(grid, [law.retention(share, 1.0, 0.0) for share in grid], color="black", label="model")
    axes.set(
        title="GPUs: speed under a cap",
        xlabel="cap over natural power",
        ylabel="speed",
        xlim=(0.3, 1.5),
        ylim=(0.2, 1.15),
    )
    axes.legend()


def _energy(axes: Axes, gpus: list[GpuResults]) -> None:
    for each in gpus:
        runs = [(job, run) for job in each.jobs for run in job.capped]
        shares = [run.limit_watts / job.free.watts for job, run in runs]
        energy = [run.watts * run.seconds / (job.free.watts * job.free.seconds) for job, run in runs]
        axes.scatter(shares, energy, s=8, alpha=0.5, label=_GPUS[each.name])
    law = Inventory.load().gpus["nvidia-v100-pcie"].curve.response
    grid = [0.4 + step / 100 for step in range(111)]
    modelled = [min(share, 1.0) / law.retention(share, 1.0, 0.0) for share in grid]
    axes.plot(grid, modelled, color="black", label="model, which draws the cap")
    axes.axvline(law.knee_watts(1.0, 0.0), color="black", linestyle=":", label="knee of the model")
    axes.set(
        title="GPUs: energy per unit of work", xlabel="cap over natural power", ylabel="energy over that without a cap"
    )
    axes.set(xlim=(0.3, 1.5), ylim=(0.5, 1.3))
    axes.legend(loc="upper right")


if __name__ == "__main__":
    main()
