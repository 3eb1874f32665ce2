"""The scores of `energy_v2` for jobs that state how long they run: rows by the ninths of that time that are covered.

A job states the time that the mean device of the cluster takes for its work, times an error that is drawn for it; on a
faster or slower model it runs for another time than it stated, as a pod does whose owner cannot know the node.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import inf, isnan
from typing import Final

import numpy as np

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.energy_v1 import watt_shares
from joulie_core.scoring.state import STEADY_TREND_SCALE
from joulie_core.stated_time import NINTHS
from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_scores import ScoreSettings, rounded_scores
from joulie_sim.engine.packing_scores import POLICY, PackingScores

_CLASSES: Final = tuple(WorkloadClass)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTimeSettings:
    """Share and errors of the run times that jobs state."""

    #: Of the logarithm of stated over expected time, which is normal with mean 0; 0: no error.
    error_sigma: float = 0.0
    #: Of all jobs; the others state nothing.
    share: float = 1.0


def stated_seconds(jobs: Jobs, machines: Machines, settings: StatedTimeSettings, seed: int) -> Floats:
    """Return the seconds that each job states, NaN where it states none; the same arguments give the same."""
    work_per_s = np.full(len(jobs), machines.mean_work_per_thread)
    for index, name in enumerate(jobs.gpu_resources):
        if name in machines.gpu_resources:
            of_gpu = machines.mean_work_per_gpu[machines.gpu_resources.index(name)]
            work_per_s[(jobs.gpus > 0) & (jobs.gpu_resource == index)] = of_gpu
    source = np.random.Generator(np.random.PCG64(seed))
    error = np.exp(settings.error_sigma * source.standard_normal(len(jobs)))
    states = source.random(len(jobs)) < settings.share
    stated: Floats = np.where(states, jobs.work_s / work_per_s * error, np.nan)
    return stated


class StatedScores(PackingScores):
    """Scores of all nodes for any pod.

    Args:
        machines: the nodes.
        settings: settings of the extender.
        interval_s: time between two reports.
        stated_s: seconds that each job states; NaN where it states none.
    """

    def __init__(self, machines: Machines, settings: ScoreSettings, interval_s: float, stated_s: Floats) -> None:
        nodes = len(machines)
        self._stated_s = stated_s
        #: When the last pod of each node ends by what pods state, and when each pod does.
        self._until_s: Floats = np.full(nodes, -inf)
        self._ends_s: defaultdict[int, dict[int, float]] = defaultdict(dict)
        #: By covered ninths and class: base, points per share of CPUs and of GPUs; and which were made.
        self._by_ninths: Floats = np.zeros((NINTHS + 1, len(_CLASSES), 3, nodes))
        self._made: Bools = np.zeros((NINTHS + 1, nodes), dtype=np.bool_)
        super().__init__(machines, settings, interval_s)

    def bound(self, job: int, node: int, demand: PodDemand, now_s: float) -> None:
        """Count a pod that was bound."""
        end_s = now_s + self._stated_s.item(job)
        if not isnan(end_s):
            self._ends_s[node][job] = end_s
            self._until_s[node] = max(self._until_s.item(node), end_s)
        super().bound(job, node, demand, now_s)

    def ended(self, job: int) -> None:
        """Count a pod no longer that has ended."""
        node, _ = self._jobs[job]
        ends_s = self._ends_s[node]
        if ends_s.pop(job, -inf) == self._until_s.item(node):
            self._until_s[node] = max(ends_s.values(), default=-inf)
        super().ended(job)

    def for_job(self, job: int, now_s: float) -> "ScoresOfJob | None":
        """Return the scores for a job that is to be placed now; None where it states nothing: they are these."""
        run_s = self._stated_s.item(job)
        return None if isnan(run_s) else ScoresOfJob(self, run_s, now_s)

    def covered(self, run_s: float, now_s: float) -> Ints:
        """Return of each node the ninths of a pod's run time for which other pods are stated to run there."""
        # Of a node without such pods, minus infinity.
        ninths: Floats = np.floor((self._until_s - now_s) * (NINTHS / run_s))
        return np.clip(ninths, 0, NINTHS).astype(np.int64)

    def scores_of(self, nodes: Ints, demand: PodDemand, covered: Ints) -> Floats:
        """Return the extender's answer for the candidates, with the covered ninths of each of them."""
        missing = ~self._made[covered, nodes]
        for node, ninths in zip(nodes[missing].tolist(), covered[missing].tolist(), strict=True):
            self._make(node, ninths)
        cpu, gpu = watt_shares(demand)
        place = _CLASSES.index(demand.workload_class)
        base, cpu_points, gpu_points = self._by_ninths[covered, place, :, nodes].T
        points: Floats = base - cpu_points * cpu
        if gpu:
            points -= gpu_points * gpu
        points *= self._factor
        return rounded_scores(points, self._settings.score_max)

    def _make(self, node: int, covered: int) -> None:
        situation = self.situation(node)
        if situation is None:
            return
        situation = situation._replace(covered=covered)
        for place, workload_class in enumerate(_CLASSES):
            row = POLICY.row(situation, workload_class, STEADY_TREND_SCALE)
            self._by_ninths[covered, place, :, node] = row.base, row.cpu_points, row.gpu_points
        self._made[covered, node] = True

    def _refresh(self, node: int) -> None:
        super()._refresh(node)
        self._made[:, node] = False


class ScoresOfJob:
    """Scores of all nodes for one job that states how long it runs.

    Args:
        scores: those of all jobs.
        run_s: seconds that the job states.
        now_s: the moment at which it is placed.
    """

    def __init__(self, scores: StatedScores, run_s: float, now_s: float) -> None:
        self._scores = scores
        self._covered = scores.covered(run_s, now_s)

    def scores(self, nodes: Ints, demand: PodDemand) -> Floats:
        """Return the extender's answer for the candidates: whole numbers from 0 to SCORE_MAX."""
        return self._scores.scores_of(nodes, demand, self._covered.take(nodes))
