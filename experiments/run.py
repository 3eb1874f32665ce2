"""Runs an experiment: `python -m experiments.run NAME` writes `runs.csv` in its directory, a line for each simulation.

Two protocols. *steady*: a load that lasts, of which a window is measured after a warm-up. *overload*: more work than
fits, a job without room on arrival is dropped, and everything ends with the window.

What is in `runs.csv` already is not simulated again (`experiments.rows`), so that a run can be stopped and continued.
"""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from experiments.config import OVERLOAD, STEADY, STEADY_OLDER, STEADY_PROTOCOLS, Experiment
from experiments.rows import (
    Row,
    RunKey,
    append_row,
    code_digest,
    figures_of,
    inputs_digest,
    planned,
    read_rows,
    text_row,
    write_rows,
)
from experiments.trace import MissingTraceError
from joulie_core.units import JOULES_PER_KWH
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.kube_scores import Balance
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_sleep_settings import NodeSleepSettings
from joulie_sim.engine.oracle import least_joules
from joulie_sim.engine.records import MeasuredWindow
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize

_SECONDS_PER_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Workload:
    """What all arms of a seed are given."""

    jobs: Jobs
    #: What is measured; None: all of it.
    window: MeasuredWindow | None = None
    #: The least energy that the window takes, see `joulie_sim.engine.oracle`; None by the protocol *overload*.
    oracle_kwh: float | None = None


class Runner:
    """Simulates rows of one experiment; jobs are kept from one arm to the next.

    Args:
        experiment: what to run.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._machines: Machines = experiment.machines()
        self._workload_of: RunKey | None = None
        self._workload: _Workload | None = None

    def row(self, key: RunKey) -> Row:
        """Simulate; return the row."""
        experiment, dropping = self._experiment, key.protocol == OVERLOAD
        work = self._work(key)
        settings = SimulationSettings(
            seed=key.seed,
            report_interval_s=experiment.report_interval_s,
            drop_on_arrival=dropping,
            horizon_s=experiment.window_s if dropping else None,
            balance=Balance.RESULT if key.protocol == STEADY_OLDER else Balance.IMPROVEMENT,
        )
        result = Simulation(self._machines, work.jobs, ARMS[key.arm], settings).run()
        stamps = {"inputs": inputs_digest(experiment, key.arm, key.protocol), "code": code_digest()}
        run = {"protocol": key.protocol, "load": key.load, "seed": key.seed, "arm": key.arm}
        figures = _figures(summarize(result, work.jobs, self._machines, work.window))
        oracle = {"oracle_kwh": "" if work.oracle_kwh is None else work.oracle_kwh}
        return text_row(run | figures | oracle | stamps)

    def _work(self, key: RunKey) -> _Workload:
        """Return the workload of a row."""
        steady = key.protocol in STEADY_PROTOCOLS
        workload_of = replace(key, protocol=STEADY if steady else key.protocol, arm="")
        if self._workload is None or self._workload_of != workload_of:
            self._workload_of = workload_of
            self._workload = self._steady(key) if steady else self._overload(key)
        return self._workload

    def _steady(self, key: RunKey) -> _Workload:
        jobs, window = self._experiment.steady_workload(self._machines, load=key.load, seed=key.seed)
        least = least_joules(self._machines, jobs, window, off_watts=NodeSleepSettings().off_watts)
        return _Workload(jobs, window, least / JOULES_PER_KWH)

    def _overload(self, key: RunKey) -> _Workload:
        return _Workload(self._experiment.overload_workload(self._machines, load=key.load, seed=key.seed))


def _figures(summary: SimulationSummary) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "end_s": summary.end_s,
        "it_kwh": summary.it_kwh,
        "facility_kwh": summary.facility_kwh,
        "peak_kw": summary.peak_kw,
        "ramp_p99_kw": summary.ramp_p99_kw,
        "core_hours": summary.work_core_hours,
        "missed": summary.missed,
        "transitions": summary.transitions,
        "power_cycles": summary.power_cycles,
        "off_kwh": summary.off_kwh,
        "empty_kwh": summary.empty_kwh,
        "working_idle_kwh": summary.working_idle_kwh,
        "cores_held": summary.cores_held,
        "gpus_held": summary.gpus_held,
    }
    for group in summary.groups:
        prefix = f"{group.workload_class}_{group.pool}"
        figures |= {
            f"{prefix}_device_hours": group.work_device_hours,
            f"{prefix}_done": group.done,
            f"{prefix}_stretch_mean": group.stretch_mean,
            f"{prefix}_stretch_p50": group.stretch_p50,
            f"{prefix}_stretch_p95": group.stretch_p95,
            f"{prefix}_stretch_p99": group.stretch_p99,
            f"{prefix}_wait_p99_s": group.wait_p99_s,
            f"{prefix}_slowdown": group.slowdown_mean,
        }
    return figures


def usable(experiment: Experiment, rows: Iterable[Row], runner: Runner) -> dict[RunKey, Row]:
    """Return the rows that need not be simulated again, in the order of the plan.

    Rows of other code are used as far as the first one of their protocol and arm, simulated anew, is the same.
    """
    found = {RunKey.of(row): row for row in rows}
    protocols = dict.fromkeys(protocol for protocol, _ in experiment.protocols)
    digests = {
        (protocol, arm): inputs_digest(experiment, arm, protocol)
        for protocol in protocols
        for arm in experiment.arms_of(protocol)
    }
    kept: dict[RunKey, Row] = {}
    same: dict[tuple[str, str, str], bool] = {}
    for key in planned(experiment):
        row = found.get(key)
        if row is None or row["inputs"] != digests[key.protocol, key.arm]:
            continue
        made_by = (key.protocol, key.arm, row["code"])
        if row["code"] != code_digest() and made_by not in same:
            same[made_by] = figures_of(runner.row(key)) == figures_of(row)
        if same.get(made_by, True):
            kept[key] = row | {"code": code_digest()}
    return kept


def run(experiment: Experiment) -> None:
    """Simulate what `runs.csv` does not have yet; each row is written when it is done."""
    runner, path, name = Runner(experiment), experiment.directory / "runs.csv", experiment.directory.name
    rows = usable(experiment, read_rows(path).values(), runner)
    if rows:
        write_rows(path, rows.values())
    else:
        path.unlink(missing_ok=True)
    left = [key for key in planned(experiment) if key not in rows]
    started_s = time.process_time()
    for count, key in enumerate(left, start=1):
        rows[key] = runner.row(key)
        append_row(path, rows[key])
        each_s = (time.process_time() - started_s) / count
        minutes = each_s * (len(left) - count) / _SECONDS_PER_MINUTE
        sys.stderr.write(
            f"\r{name}: {count} of {len(left)} runs, {each_s:.1f} s of CPU time each, {minutes:.1f} min left "
        )
    if left:
        sys.stderr.write("\n")
    write_rows(path, (rows[key] for key in planned(experiment)))


if __name__ == "__main__":
    for each in sys.argv[1:]:
        try:
            run(Experiment.read(each))
        except MissingTraceError as error:
            sys.exit(f"{each}: {error}")
