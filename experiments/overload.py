"""Tables and plot of the protocol *overload*: jobs without room are dropped, and everything ends with the window.

An arm that does less work draws less, so delivered work and joules per unit of work stand beside the energy.
"""

from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.figures import BASELINE, Runs, arm_table, count, delivered, less, less_pct, more, paired

#: Baselines of the table of the document's protocol, with their columns' name.
_BASELINES: Final = {BASELINE: "of kube default", "most_allocated": "of bin-packing"}
#: Figures of the plot: column of the runs by label.
_PLOTTED: Final = {
    "less IT energy": "it_kwh",
    "fewer jobs dropped or unfinished": "missed",
    "less energy per core-second": "joules_per_core_second",
}


def delivered_table(arms: dict[str, Runs]) -> str:
    """Return a table of energy, missed jobs and delivered work."""
    columns = {"IT energy saved, %": less(arms, "it_kwh"), "dropped or unfinished, % fewer": less(arms, "missed")}
    return arm_table(arms, columns | delivered(arms))


def overview(arms: dict[str, Runs]) -> str:
    """Return two tables: the document's figures against both of its possible baselines, and the work."""
    bases = {title: name for name, title in _BASELINES.items() if name in arms}
    figures = {"IT energy saved, %": "it_kwh", "jobs missed, % fewer": "missed"}
    document = {
        f"{figure} {title}": less(arms, name, baseline=base)
        for figure, name in figures.items()
        for title, base in bases.items()
    }
    work = {
        "core-hours delivered, % more": more(arms, "core_hours", 2),
        "J per core-second, % less": less(arms, "joules_per_core_second"),
    }
    return "\n".join(
        (
            arm_table(arms, document | {"jobs missed": count(arms, "missed")}),
            "",
            arm_table(arms, work | delivered(arms)),
            "",
            f"{len(arms[BASELINE])} seeds.",
        )
    )


def plot(arms: dict[str, Runs], title: str, path: Path) -> None:
    """Write a picture of energy, missed jobs and energy per unit of work of each arm, in percent of kube_default."""
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    shown = [arm for arm in arms if arm != BASELINE]
    for place, (label, name) in enumerate(_PLOTTED.items()):
        found = [paired(arms[arm], arms[BASELINE], less_pct(name)) for arm in shown]
        axes.bar(
            [index + 0.27 * (place - 1) for index in range(len(shown))],
            [each.mean for each in found],
            0.25,
            yerr=[each.half_width or 0.0 for each in found],
            capsize=3,
            label=label,
        )
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(ylabel="% of kube_default", title=title)
    axes.set_xticks(range(len(shown)), shown, fontsize=8)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=100, bbox_inches="tight", metadata={"Software": None})
