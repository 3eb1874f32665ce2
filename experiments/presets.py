"""Tables of docs/presets.md: `python -m experiments.presets` writes them between the comments that name them.

A preset is compared with kube-scheduler's default, by the arm of the simulator that stands for it, in every experiment
that has rows of the arm. A class of jobs pays where the 95th percentile of its stretch is longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from experiments.config import ROOT, STEADY
from experiments.figures import (
    BASELINE,
    TITLES,
    Runs,
    change_pct,
    groups_of,
    interval_text,
    less_pct,
    of_protocol,
    paired,
    read,
)
from experiments.report import write_between
from joulie_api.presets import DEFAULT_PRESET, PRESETS, Preset, PresetName
from joulie_sim.engine.arms import PRESET_ARMS
from joulie_sim.tables import TextTable

PAGE: Final = ROOT.parent / "docs" / "presets.md"
#: The most that the p95 stretch of any class and pool may change under the default, in percent.
_MOST_P95_PCT: Final = 1.0
#: Arms that stand for a preset with a setting of a NodeSleepPolicy that differs from its default.
_VARIANTS: Final = {PresetName.SLEEP: (("spareOf: Resources", "packing_score_sleep_shared"),)}
#: By load.
_Loads = Mapping[float, Mapping[str, Runs]]


def presets() -> str:
    """Return the table of the presets: what each does, needs and sets."""
    titles = ("preset", "does", "needs", "sets", "arm of the simulator")
    rows = [
        (
            f"`{name}`{', the default' if name is DEFAULT_PRESET else ''}",
            preset.summary,
            _needs(preset),
            _variables(preset),
            f"`{PRESET_ARMS[name].name}`",
        )
        for name, preset in PRESETS.items()
    ]
    return _text_table(titles, rows)


def measured(root: Path = ROOT) -> str:
    """Return the savings of the presets and who pays, by experiment, and which presets have no row yet."""
    titles = ("preset", "experiment", "loads", "saved, %", "largest change of a p95 stretch, %", "all within 1 %")
    found = {path.parent.name: _loads(path.parent) for path in sorted(root.glob("*/runs.csv"))}
    rows = [
        row
        for name in PRESETS
        for title, arm in _arms(name)
        for experiment, loads in found.items()
        for row in _rows(title, arm, experiment, loads)
    ]
    missing = [name for name in PRESETS if not any(row[0] == f"`{name}`" for row in rows)]
    notes = [
        f"No experiment has rows of the arm of `{name}`, `{PRESET_ARMS[name].name}`, yet: its savings are not "
        "stated here."
        for name in missing
    ]
    return "\n\n".join([_text_table(titles, rows), *notes])


def _text_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells are text: none is aligned to the right."""
    return TextTable(titles, rows).markdown().replace("---:", "---")


def _needs(preset: Preset) -> str:
    needs = "the extender in kube-scheduler's configuration"
    return f"{needs}; BMCs, and a NodeSleepPolicy" if preset.sleeps else needs


def _variables(preset: Preset) -> str:
    sleep = ["`operator.sleep` and `outofband` on"] if preset.sleeps else []
    named = [f"`{name}={value}`" for name, value in {**preset.operator, **preset.extender}.items()]
    return ", ".join([*named, *sleep]) or "nothing: the settings' defaults"


def _loads(directory: Path) -> _Loads:
    """Return the runs of an experiment's load that lasts; none where it has another protocol."""
    # Directories without a configuration hold other figures.
    runs = read(directory) if (directory / "config.toml").exists() else {}
    return of_protocol(runs, STEADY)


def _arms(name: PresetName) -> Iterator[tuple[str, str]]:
    """Return titles and arms of a preset: its own, and those of its variants."""
    yield f"`{name}`", PRESET_ARMS[name].name
    for setting, arm in _VARIANTS.get(name, ()):
        yield f"`{name}`, `{setting}`", arm


def _rows(title: str, arm: str, experiment: str, loads: _Loads) -> Iterator[tuple[str, ...]]:
    having = {load: arms for load, arms in loads.items() if arm in arms}
    if not having:
        return
    saved = (interval_text(paired(arms[arm], arms[BASELINE], less_pct("it_kwh"))) for arms in having.values())
    changes = {
        f"{TITLES[group]}, at {load:g}": found
        for load, arms in having.items()
        for group in groups_of(arms)
        if (found := change_pct(arms[arm], arms[BASELINE], f"{group}_stretch_p95")) is not None
    }
    worst = max(changes, key=lambda each: changes[each][0])
    middle, low, high = changes[worst]
    yield (
        title,
        experiment,
        ", ".join(f"{load:g}" for load in having),
        ", ".join(saved),
        f"{middle:+.1f} [{low:+.1f}, {high:+.1f}] ({worst})",
        _kept([(low, high) for _, low, high in changes.values()]),
    )


def _kept(intervals: list[tuple[float, float]]) -> str:
    """Return whether no p95 is longer by more than may be, if the intervals decide that."""
    if all(high <= _MOST_P95_PCT for _, high in intervals):
        return "yes"
    return "no" if any(low > _MOST_P95_PCT for low, _ in intervals) else "not shown"


if __name__ == "__main__":
    write_between("presets", presets(), PAGE)
    write_between("measured", measured(), PAGE)
