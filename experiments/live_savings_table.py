"""The table of the pairs of `experiments.live_savings`."""

from collections.abc import Sequence
from typing import Final

from experiments.rows import Row
from experiments.savings_estimate import Judged, estimate_of
from joulie_core.demand import WorkloadClass
from joulie_core.savings import Lever
from joulie_sim.tables import TextTable

#: Share by which the middle of an estimate may be off.
_NEAR: Final = 0.2


def table(rows: Sequence[Row]) -> str:
    """Return the table of all pairs, and below it what they come to."""
    lines = []
    for row in rows:
        found, saved, without = estimate_of(row, Judged.HOURS), float(row["saved_kwh"]), float(row["baseline_kwh"])
        lines.append(
            (
                *(row["workload"], row["seed"], f"{without:.1f}"),
                f"{saved:.1f} ({100.0 * saved / without:.1f} %)",
                f"{found.middle:.1f} [{found.lower:.1f}, {found.upper:.1f}]",
                f"{float(row[f'{Lever.SLEEP}_middle_kwh']):.1f}",
                f"{float(row['sleep_saved_kwh']):.1f}",
                f"{float(row[f'{Lever.SCORE}_middle_kwh']):.1f}",
                f"{100.0 * (found.middle / saved - 1.0):+.1f}",
                "yes" if found.lower <= saved <= found.upper else "no",
                " / ".join(f"{float(row[f'{arm}_wait_p99_s']) / 60.0:.1f}" for arm in ("without", "with")),
                *(
                    " / ".join(f"{float(row[f'{arm}_{each.value}_slowdown']):.3f}" for arm in ("without", "with"))
                    for each in WorkloadClass
                ),
                row["power_offs"],
            )
        )
    titles = ("workload", "seed", "baseline, kWh", "saved, kWh", "estimated, kWh", "by sleep")
    titles += ("really by sleep", "by score", "error, %")
    titles += ("contained", "p99 of waits, min, without / with")
    titles += tuple(f"slowdown of {each.value} pods, without / with" for each in WorkloadClass)
    pairs = [(estimate_of(row, Judged.HOURS), float(row["saved_kwh"])) for row in rows]
    contained = sum(found.lower <= saved <= found.upper for found, saved in pairs)
    errors = [abs(found.middle / saved - 1.0) for found, saved in pairs]
    near = sum(error <= _NEAR for error in errors)
    result = (
        f"The interval contains {contained} of {len(rows)}; its middle is within {100 * _NEAR:.0f} % in {near}, and "
        f"off by up to {100 * max(errors, default=0.0):.1f} %."
    )
    return f"{TextTable((*titles, 'power-offs'), lines).markdown()}\n\n{result}"
