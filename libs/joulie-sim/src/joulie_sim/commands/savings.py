"""Table of `joulie-sim try`: what arms save, what of it may be chance, and which pods pay for it.

For readers who know none of the arms. A saving is stated with its least and its most over the seeds; pods pay where
their p95 stretch is longer in every seed.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from joulie_sim.engine.results import Manifest
from joulie_sim.engine.summary import SimulationSummary

_LEAST_RISE_PCT: Final = 1.0
_SECONDS_PER_MINUTE: Final = 60.0
_POOL_NAMES: Final = {"cpu": "CPU", "gpu": "GPU"}
_NUMBERS: Final = ("energy", "saved", "least to most", *(f"wait, {name}" for name in _POOL_NAMES.values()))


def saving_table(title: str, measured: str, arms: Mapping[str, Sequence[Manifest]]) -> Table:
    """Return what arms save against the first one, and who pays for it.

    Args:
        title: of the table.
        measured: the time whose energy is counted, for the caption.
        arms: by what they are called; the manifests of each are those of the same seeds, in the same order.
    """
    names = list(arms)
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        caption=f"energy: all servers at the wall, without cooling, {measured}; mean of the seeds\n"
        "saved: against the first row; least to most: of the seeds, the range that chance makes\n"
        "wait: from creation to start, one in a hundred pods waits longer; pods with GPUs come in bursts\n"
        "paid by: pods whose p95 stretch, the time from creation to end over that at full speed, is 1 % longer or more "
        "with every seed",
    )
    for column in ("", *_NUMBERS, "paid by"):
        table.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=column == "")
    baseline = [manifest.summary for manifest in arms[names[0]]]
    for name in names:
        table.add_row(name, *_cells([manifest.summary for manifest in arms[name]], baseline, first=name == names[0]))
    return table


def _cells(own: Sequence[SimulationSummary], baseline: Sequence[SimulationSummary], *, first: bool) -> tuple[str, ...]:
    saved = [_saved_pct(*pair) for pair in zip(own, baseline, strict=True)]
    saving = ("-", "-") if first else (f"{fmean(saved):.1f} %", f"{min(saved):.1f} to {max(saved):.1f} %")
    return (
        f"{fmean(summary.it_kwh for summary in own):,.0f} kWh",
        *saving,
        *(_wait_text(fmean(_wait_p99_s(summary, pool) for summary in own)) for pool in _POOL_NAMES),
        "-" if first else _payers(own, baseline),
    )


def _saved_pct(own: SimulationSummary, baseline: SimulationSummary) -> float:
    """Return the energy that is saved up to the later of both ends."""
    end_s = max(own.end_s, baseline.end_s)
    return 100.0 * (1.0 - own.it_kwh_until(end_s) / baseline.it_kwh_until(end_s))


def _wait_p99_s(summary: SimulationSummary, pool: str) -> float:
    """Return the longer wait of both classes."""
    return max((group.wait_p99_s for group in summary.groups if group.pool == pool and group.done), default=0.0)


def _wait_text(seconds: float) -> str:
    if seconds < _SECONDS_PER_MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _SECONDS_PER_MINUTE:.0f} min"


def _payers(own: Sequence[SimulationSummary], baseline: Sequence[SimulationSummary]) -> str:
    rises: dict[str, list[float]] = {}
    for summary, before in zip(own, baseline, strict=True):
        for group, other in zip(summary.groups, before.groups, strict=True):
            if group.done and other.done:
                name = f"{group.workload_class} {_POOL_NAMES[group.pool]} pods"
                rises.setdefault(name, []).append(100.0 * (group.stretch_p95 / other.stretch_p95 - 1.0))
    paying = {name: fmean(found) for name, found in rises.items() if min(found) >= _LEAST_RISE_PCT}
    notes = [f"{name} +{paying[name]:.0f} %" for name in sorted(paying, key=lambda each: -paying[each])]
    missed = sum(summary.missed for summary in own) - sum(summary.missed for summary in baseline)
    if missed > 0:
        notes.append(f"{missed} more pods not done")
    return "; ".join(notes) or "no one"
