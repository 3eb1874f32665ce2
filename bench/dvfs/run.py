"""Settling time and accuracy of the DVFS loop: steps of load and of cap, with three configurations.

    just bench dvfs                   20 seeds; the table, and CSV, PNG and SVG to out/
    just bench dvfs --seeds 5         fewer

The node is the simulator's: two packages of an AMD EPYC 7763, which RAPL cannot cap, with a load that varies by 2 % of
full load each second. All tunables are the defaults. Settling is the time from the step until the throttle stays within
5 points of where it ends. Overshoot is the highest power above the cap in the mean of 10 s, and all energy above the
cap. Values are means over seeds with the 95 % confidence interval of the mean. Exit code 1 if the default mode settles
later or draws more energy above the cap than the stepped mode.
"""

import argparse
import csv
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from plant import TICK_S, Case, Controller, Stage, Trace, simulate

from joulie_core.control.dvfs import DvfsMode, DvfsSettings

OUT = Path("out")
STEP_S = 120.0
WINDOW_S = 10.0
NEAR_PCT = 5.0
#: Caps of a package: 60 % of its maximum, and none that binds.
ECO_WATTS, FULL_WATTS = 168.0, 280.0
CASES = (
    Case("load 30 % to 100 %", (Stage(0, 0.3, ECO_WATTS), Stage(STEP_S, 1.0, ECO_WATTS)), 720),
    Case("cap 280 W to 168 W", (Stage(0, 1.0, FULL_WATTS), Stage(STEP_S, 1.0, ECO_WATTS)), 720),
    Case(
        "cap 168 W to 280 W",
        (Stage(-1, 1.0, ECO_WATTS), Stage(600, 1.0, FULL_WATTS)),
        1200,
    ),
    Case(
        "bursts of 90 s",
        tuple(
            Stage(0 if turn == 0 else STEP_S + 90.0 * (turn - 1), (0.3, 1.0)[turn % 2], ECO_WATTS) for turn in range(10)
        ),
        STEP_S + 9 * 90.0,
    ),
)
CONTROLLERS = (
    Controller("stepped, 20 s", 20.0, DvfsSettings(mode=DvfsMode.STEPPED)),
    Controller("stepped, 2 s", 2.0, DvfsSettings(mode=DvfsMode.STEPPED)),
    Controller("proportional, 2 s", 2.0, DvfsSettings(mode=DvfsMode.PROPORTIONAL)),
)
COLORS = ("tab:gray", "tab:orange", "tab:blue")
_Z95 = 1.96


@dataclass(frozen=True)
class Figures:
    """Results of one run after its step."""

    settle_s: float
    over_watts: float
    over_joules: float
    actions_per_h: float


def measure(case: Case, trace: Trace) -> Figures:
    """Return the results from the start of the last stage; of bursts, from the first step."""
    step_s = case.stages[-1].at_s if len(case.stages) == 2 else case.stages[1].at_s
    start = round(step_s / TICK_S)
    throttles = trace.throttles[start:]
    final = statistics.fmean(throttles[-round(60 / TICK_S) :])
    away = [index for index, pct in enumerate(throttles) if abs(pct - final) > NEAR_PCT]
    over = [watts - cap for watts, cap in zip(trace.watts[start:], trace.caps[start:], strict=True)]
    window = round(WINDOW_S / TICK_S)
    means = [sum(over[at : at + window]) / window for at in range(0, len(over) - window, 10)]
    return Figures(
        settle_s=(away[-1] + 1) * TICK_S if away else 0.0,
        over_watts=max(0.0, *means),
        over_joules=sum(max(0.0, each) for each in over) * TICK_S,
        actions_per_h=trace.actions / case.end_s * 3600,
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval."""
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    return statistics.fmean(values), _Z95 * statistics.stdev(values) / math.sqrt(len(values))


def draw(directory: Path) -> list[Path]:
    """Draw one run of each case and configuration."""
    figure = Figure(figsize=(12, 11))
    every = slice(None, None, 20)
    for row, case in zip(figure.subplots(len(CASES), 2), CASES, strict=True):
        power, throttle = row
        for controller, color in zip(CONTROLLERS, COLORS, strict=True):
            trace = simulate(case, controller, seed=1)
            power.plot(trace.seconds[every], trace.watts[every], color=color, linewidth=0.9, label=controller.name)
            throttle.plot(trace.seconds[every], trace.throttles[every], color=color, linewidth=1.2)
        capped = simulate(case, CONTROLLERS[0], seed=1)
        power.plot(capped.seconds[every], capped.caps[every], color="black", linestyle=":", label="cap")
        power.set(ylabel="W", title=f"{case.name}: power of two packages")
        throttle.set(ylabel="%", ylim=(-3, 103), title=f"{case.name}: throttle")
        for axes in row:
            axes.set_xlabel("seconds")
            axes.grid(visible=True, alpha=0.3)
    figure.axes[0].legend(loc="upper right", fontsize="small")
    figure.tight_layout()
    paths = [directory / "dvfs.png", directory / "dvfs.svg"]
    for path in paths:
        figure.savefig(path, dpi=150, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def run(seeds: int) -> bool:
    """Run all cases; return whether the default mode is not worse than the stepped one."""
    OUT.mkdir(exist_ok=True)
    means: dict[tuple[str, str], list[float]] = {}
    with (OUT / "dvfs.csv").open("w", newline="", encoding="ascii") as file:
        rows = csv.writer(file)
        rows.writerow(["case", "loop", "seed", "settle_s", "over_watts", "over_joules", "actions_per_h"])
        print(f"{'':20} {'':18} {'settling, s':>16} {'overshoot, W':>16} {'above cap, kJ':>16} {'actions/h':>14}")
        for case in CASES:
            for controller in CONTROLLERS:
                runs = [measure(case, simulate(case, controller, seed)) for seed in range(seeds)]
                for seed, each in enumerate(runs):
                    figures = (each.settle_s, each.over_watts, each.over_joules, each.actions_per_h)
                    rows.writerow([case.name, controller.name, seed, *(f"{figure:.2f}" for figure in figures)])
                columns = [
                    interval([each.settle_s for each in runs]),
                    interval([each.over_watts for each in runs]),
                    interval([each.over_joules / 1000 for each in runs]),
                    interval([each.actions_per_h for each in runs]),
                ]
                means[case.name, controller.name] = [mean for mean, _ in columns]
                columns_text = " ".join(f"{mean:9.1f} ±{half:5.1f}" for mean, half in columns)
                if len(case.stages) > 2:  # nothing settles under bursts
                    columns_text = f"{'-':>16}" + columns_text[16:]
                print(f"{case.name:20} {controller.name:18} {columns_text}", flush=True)
    print(*draw(OUT), OUT / "dvfs.csv")
    steps = [case.name for case in CASES if len(case.stages) == 2]
    new, old = CONTROLLERS[2].name, CONTROLLERS[1].name
    return all(means[case, new][column] <= means[case, old][column] for case in steps[:2] for column in (0, 2))


def main() -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="runs of each case and configuration")
    return 0 if run(parser.parse_args().seeds) else 1


if __name__ == "__main__":
    sys.exit(main())
