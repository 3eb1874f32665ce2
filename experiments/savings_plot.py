"""Plot of the energy that each arm saves, with confidence intervals over the seeds."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from experiments.figures import BASELINE, Runs, less_pct, paired


def plot_savings(
    loads: Mapping[float, Mapping[str, Runs]],
    places: Mapping[float, float],
    path: Path,
    *,
    title: str,
    axis: str,
) -> None:
    """Write a picture of the IT energy that is saved.

    Args:
        loads: runs by load, arm and seed; all loads have the same arms.
        places: place of each load on the horizontal axis.
        path: of the picture.
        title: of the picture.
        axis: text of the horizontal axis.
    """
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    arms = [arm for arm in next(iter(loads.values())) if arm != BASELINE]
    for arm in arms:
        savings = [paired(of[arm], of[BASELINE], less_pct("it_kwh")) for of in loads.values()]
        axes.errorbar(
            [places[load] for load in loads],
            [each.mean for each in savings],
            [each.half_width or 0.0 for each in savings],
            label=arm,
            capsize=3,
            marker="o",
        )
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel=axis, ylabel="IT energy saved, % of kube_default", title=title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=100, bbox_inches="tight", metadata={"Software": None})
