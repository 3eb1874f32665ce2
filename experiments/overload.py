"""Tables and plot of the protocol *overload*: jobs without room are dropped, and everything ends with the window.

An arm that does less work draws less, so delivered work and joules per unit of work stand beside the energy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.figures import BASELINE, TITLES, Runs, groups_of, interval_text, less_pct, more_pct, own, paired

#: Baselines of the table of the document's protocol, with their columns' name.
_BASELINES: Final = {BASELINE: "of kube default", "most_allocated": "of bin-packing"}
#: Figures of the plot: column of the runs by label.
_PLOTTED: Final = {
    "less IT energy": "it_kwh",
    "fewer jobs dropped or unfinished": "missed",
    "less energy per core-second": "joules_per_core_second",
}


def delivered_table(arms: dict[str, Runs]) -> Iterator[str]:
    """Yield the lines of a table of energy, missed jobs and delivered work."""
    base = arms[BASELINE]
    present = groups_of(base)
    works = (f"work, {TITLES[group]}, % more" for group in present)
    titles = ("IT energy saved, %", "dropped or unfinished, % fewer", *works)
    yield f"| arm | {' | '.join(titles)} |"
    yield "|---" * (len(titles) + 1) + "|"
    for arm, runs in arms.items():
        cells = (
            interval_text(paired(runs, base, less_pct("it_kwh")), 2),
            interval_text(paired(runs, base, less_pct("missed")), 2),
            *(interval_text(paired(runs, base, more_pct(f"{group}_device_hours"))) for group in present),
        )
        yield f"| `{arm}` | {' | '.join(cells)} |"


def overview(arms: dict[str, Runs]) -> Iterator[str]:
    """Yield the lines of two tables: the document's figures against both of its possible baselines, and the work."""
    yield from _document_table(arms)
    yield ""
    yield from _work_table(arms)
    yield ""
    yield f"{len(arms[BASELINE])} seeds."


def _document_table(arms: dict[str, Runs]) -> Iterator[str]:
    bases = {title: arms[name] for name, title in _BASELINES.items() if name in arms}
    titles = [f"IT energy saved, % {title}" for title in bases]
    titles += [f"jobs missed, % fewer {title}" for title in bases]
    yield f"| arm | {' | '.join(titles)} | jobs missed |"
    yield "|---" * (len(titles) + 2) + "|"
    for arm, runs in arms.items():
        cells = [
            interval_text(paired(runs, base, less_pct(name)), 2)
            for name in ("it_kwh", "missed")
            for base in bases.values()
        ]
        yield f"| `{arm}` | {' | '.join(cells)} | {own(runs, 'missed').mean:.0f} |"


def _work_table(arms: dict[str, Runs]) -> Iterator[str]:
    base = arms[BASELINE]
    present = groups_of(base)
    works = (f"work, {TITLES[group]}, % more" for group in present)
    titles = ("core-hours delivered, % more", "J per core-second, % less", *works)
    yield f"| arm | {' | '.join(titles)} |"
    yield "|---" * (len(titles) + 1) + "|"
    for arm, runs in arms.items():
        cells = (
            interval_text(paired(runs, base, more_pct("core_hours")), 2),
            interval_text(paired(runs, base, less_pct("joules_per_core_second")), 2),
            *(interval_text(paired(runs, base, more_pct(f"{group}_device_hours"))) for group in present),
        )
        yield f"| `{arm}` | {' | '.join(cells)} |"


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
