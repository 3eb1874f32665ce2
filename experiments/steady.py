"""Tables and plot of the protocol *steady*: a window is measured after a warm-up, and the axis is what was in use.

A saving is stated beside kube-scheduler's spreading, its default, and beside the better of its two strategies at that
load: what packing alone saves needs no Joulie. Beside both stands what could be saved at most by scheduling and sleep,
see docs/decisions/0041-oracle.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from experiments.config import STEADY, STEADY_OLDER
from experiments.figures import (
    BASELINE,
    TITLES,
    Arms,
    Cell,
    Runs,
    arm_table,
    change,
    count,
    groups_of,
    interval_text,
    less,
    less_pct_of,
    mean,
    mean_of,
    more,
    of_possible_pct,
    of_protocol,
    paired,
    shown_load,
)
from experiments.rows import Row
from experiments.savings_plot import plot_savings
from joulie_sim.tables import TextTable

_PACKING: Final = "most_allocated"
#: Euro for a kWh of non-household consumers in the EU, without recoverable taxes (Eurostat nrg_pc_205, second half of
#: 2023), and kg of CO2e for a kWh of electricity generated in the EU in 2023 (European Environment Agency: 58 % less
#: than the 0.51 of 1990).
_EURO_PER_KWH: Final = 0.20
_CO2E_PER_KWH: Final = 0.21
_DAYS_PER_YEAR: Final = 365.0

#: By load.
_Loads = Mapping[float, dict[str, Runs]]


class SteadyReport:
    """Tables and plot of the steady runs of an experiment.

    Args:
        runs: as `experiments.figures.read` returns them.
        nodes: number of nodes.
        hours: length of the window.
    """

    def __init__(self, runs: Mapping[tuple[str, float], dict[str, Runs]], *, nodes: int, hours: float) -> None:
        self._nodes = nodes
        self._days = hours / 24.0
        self._loads = _with_gpu_hours(of_protocol(runs, STEADY))
        self._older = _with_gpu_hours(of_protocol(runs, STEADY_OLDER))

    def overview(self) -> str:
        """Return the savings over all loads, and who pays at one of them."""
        load = shown_load(self._loads)
        parts = [
            self._use(),
            self._savings(self._loads),
            "Of what could be saved:",
            self._of_possible(),
            f"Where the energy goes at {load:g}:",
            _parts(self._loads[load]),
            f"Who pays at {load:g}:",
            self._payers(self._loads[load], everything=False),
        ]
        if self._older:
            parts += ["With kube-scheduler up to Kubernetes 1.35:", self._savings(self._older)]
        return "\n\n".join(parts)

    def summary(self) -> list[str]:
        """Return the lines of the summary, load by load."""
        lines: list[str] = []
        for load, arms in self._loads.items():
            seeds = len(arms[BASELINE])
            lines += [
                f"## steady, load {load:g}, {seeds} seeds",
                "",
                self._energy(arms),
                "",
                "Where it goes:",
                "",
                _parts(arms),
                "",
                self._payers(arms, everything=True),
                "",
            ]
        return lines

    def _use(self) -> str:
        """Return what was in use in the baseline at each load, and what could be saved."""
        titles = ("nominal load", "cores in use, %", "GPUs in use, %", "could be saved, %")
        rows = []
        for load, arms in self._loads.items():
            base = arms[BASELINE]
            possible = interval_text(paired(base, base, less_pct_of("oracle_kwh", "it_kwh")))
            held = (_percent(base, name) for name in ("cores_held", "gpus_held"))
            rows.append((f"{load:g}", *held, possible))
        seeds = len(next(iter(self._loads.values()))[BASELINE])
        return (
            f"{TextTable(titles, rows).markdown()}\n\nMeans over the window, {seeds} seeds. What could be saved is a "
            "bound: every job starts on arrival, jobs divide, and nodes are on only while they are needed, without any "
            "limit of power."
        )

    def _of_possible(self) -> str:
        columns: dict[str, Cell] = {f"at {load:g}, %": self._share(arms) for load, arms in self._loads.items()}
        return arm_table((arm for arm in next(iter(self._loads.values())) if arm != BASELINE), columns)

    def _share(self, arms: Arms) -> Cell:
        return lambda arm: interval_text(of_possible_pct(arms[arm], arms[BASELINE]), 0)

    def _payers(self, arms: Arms, *, everything: bool) -> str:
        """Return a table of power cycles and waits, stretch of performance jobs and slowdown of the others, or both."""
        columns: dict[str, Cell] = {"power cycles a node and day": self._cycles(arms)}
        for group in groups_of(arms):
            performance = group.startswith("performance")
            columns[f"p99 wait, {TITLES[group]}, s"] = count(arms, f"{group}_wait_p99_s")
            if performance or everything:
                columns[f"p95 stretch, {TITLES[group]}, % more"] = change(arms, f"{group}_stretch_p95")
            if not performance or everything:
                columns[f"slowdown, {TITLES[group]}, % more"] = more(arms, f"{group}_slowdown")
        return arm_table(arms, columns)

    def plot(self, title: str, path: Path) -> None:
        """Write a picture of the savings over the share of the cores that was in use."""
        uses = {load: 100.0 * mean_of(arms[BASELINE], "cores_held").mean for load, arms in self._loads.items()}
        plot_savings(self._loads, uses, path, title=title, axis="cores in use, % (mean)")

    def _savings(self, loads: _Loads) -> str:
        columns: dict[str, Cell] = {}
        for load, arms in loads.items():
            columns[f"saved at {load:g}, %"] = less(arms, "it_kwh", 1)
            columns[f"of the better of both strategies at {load:g}, %"] = less(
                arms, "it_kwh", 1, baseline=_better(arms)
            )
        return arm_table((arm for arm in next(iter(loads.values())) if arm != BASELINE), columns)

    def _energy(self, arms: Arms) -> str:
        def a_year(factor: float) -> Cell:
            def cell(arm: str) -> str:
                saved = mean_of(arms[BASELINE], "facility_kwh").mean - mean_of(arms[arm], "facility_kwh").mean
                return f"{saved / self._days * _DAYS_PER_YEAR * factor:,.0f}"

            return cell

        columns = {
            "IT, kWh": mean(arms, "it_kwh", 0),
            "IT energy saved, %": less(arms, "it_kwh"),
            "facility, %": less(arms, "facility_kwh"),
            "J per core-second, % less": less(arms, "joules_per_core_second"),
            "core-hours, % more": more(arms, "core_hours"),
            "GPU-hours, % more": more(arms, "gpu_hours"),
            "peak, kW": mean(arms, "peak_kw"),
            "EUR a year": a_year(_EURO_PER_KWH),
            "kg CO2e a year": a_year(_CO2E_PER_KWH),
        }
        return (
            f"{arm_table(arms, columns)}\n\nOf the facility's energy, at {_EURO_PER_KWH:.2f} EUR and "
            f"{_CO2E_PER_KWH:.2f} kg CO2e a kWh (`experiments/steady.py` has the sources)."
        )

    def _cycles(self, arms: Arms) -> Cell:
        return lambda arm: f"{mean_of(arms[arm], 'power_cycles').mean / self._nodes / self._days:.1f}"


def _with_gpu_hours(loads: _Loads) -> _Loads:
    """Return the runs with the hours of work of all GPUs."""
    gpus = [group for group in TITLES if group.endswith("_gpu")]

    def hours(row: Row) -> str:
        return str(sum(float(row[f"{group}_device_hours"]) for group in gpus))

    return {
        load: {
            arm: {seed: row | {"gpu_hours": hours(row)} for seed, row in by_seed.items()}
            for arm, by_seed in arms.items()
        }
        for load, arms in loads.items()
    }


def _parts(arms: Arms) -> str:
    """Return a table of the IT energy by what nodes do."""
    names = {
        "off or booting, kWh": "off_kwh",
        "on without jobs, kWh": "empty_kwh",
        "idle power of nodes with jobs, kWh": "working_idle_kwh",
    }

    def added(arm: str) -> str:
        runs = arms[arm]
        rest = mean_of(runs, "it_kwh").mean - sum(mean_of(runs, name).mean for name in names.values())
        return f"{rest:.0f}"

    columns: dict[str, Cell] = {title: mean(arms, name, 0) for title, name in names.items()}
    table = arm_table(arms, columns | {"added by jobs, kWh": added, "all, kWh": mean(arms, "it_kwh", 0)})
    return f"{table}\n\nThe bound is {mean(arms, 'oracle_kwh', 0)(BASELINE)} kWh."


def _better(arms: Arms) -> str:
    """Return the strategy of kube-scheduler that draws less in the mean."""
    strategies = [each for each in (BASELINE, _PACKING) if each in arms]
    return min(strategies, key=lambda arm: mean_of(arms[arm], "it_kwh").mean)


def _percent(runs: Runs, name: str) -> str:
    shares = {seed: row | {name: str(100.0 * float(row[name]))} for seed, row in runs.items()}
    return interval_text(mean_of(shares, name))
