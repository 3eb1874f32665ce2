"""Fits what a power cap costs GPUs to published sweeps of power limits, and evaluates it on any."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median
from typing import Final

import numpy as np

from joulie_core.hardware.power_curve import CapResponse
from joulie_sim.calibrate.results import FitError, GpuJob, GpuResults

#: Of the natural power; two of 417 points are below. Must be above every static share that is tried.
LOWEST_SHARE: Final = 0.4
_STATIC_SHARES: Final = tuple(percent / 100 for percent in range(0, 40, 2))
_EXPONENTS: Final = tuple(percent / 100 for percent in range(10, 61))
_RESAMPLES: Final = 200
#: Caps this far above natural power bind at no time; nearer ones bind while the power of a job is above its average.
_CLEARLY_ABOVE: Final = 1.25


@dataclass(frozen=True, slots=True)
class GpuErrors:
    """Errors of retention, absolute, over all jobs of one file."""

    jobs: int
    #: Runs under a cap below natural power, and the mean absolute and mean error there.
    binding: int
    binding_mae: float
    binding_bias: float
    #: Mean absolute error over all capped runs.
    all_mae: float
    #: What a cap above natural power costs in the model (the largest), and well above it in the data (the median).
    above_cost: float
    measured_above_cost: float | None
    #: Median of measured power over cap, of binding caps.
    draw_over_cap: float | None


@dataclass(frozen=True, slots=True)
class FittedResponse:
    """The law, and the range of each constant that holds 95 % of fits to jobs drawn with replacement."""

    response: CapResponse
    static_share_95: tuple[float, float]
    exponent_95: tuple[float, float]


def fit_response(jobs: Sequence[GpuJob]) -> CapResponse:
    """Return the law with the least mean absolute error of retention over the runs whose cap is below natural power.

    Raises:
        FitError: no cap is.
    """
    grid = _errors_of(jobs)
    return _response(*_best(grid, range(len(grid))))


def fit_with_range(files: Iterable[GpuResults]) -> FittedResponse:
    """Return the fit to all jobs and its 95 % range; deterministic.

    Raises:
        FitError: no cap is below natural power.
    """
    grid = _errors_of(list(chain.from_iterable(each.jobs for each in files)))
    fit = _best(grid, range(len(grid)))
    dice = random.Random(1)  # noqa: S311 - no secret
    fits = [_best(grid, dice.choices(range(len(grid)), k=len(grid))) for _ in range(_RESAMPLES)]
    return FittedResponse(_response(*fit), _range([each[0] for each in fits]), _range([each[1] for each in fits]))


def left_out_errors(files: Sequence[GpuResults]) -> list[tuple[str, CapResponse, GpuErrors]]:
    """Return per GPU the law that is fitted to the others, and its errors.

    Raises:
        FitError: the others have no cap below natural power.
    """
    found = []
    for each in files:
        others = list(chain.from_iterable(other.jobs for other in files if other is not each))
        response = fit_response(others)
        found.append((each.name, response, evaluate_gpu(each.jobs, response)))
    return found


def evaluate_gpu(jobs: Sequence[GpuJob], response: CapResponse) -> GpuErrors:
    """Return the errors of a law on jobs; an idle power of 0 W, as no sweep states it."""
    binding, everything, draws, above, cost = [], [], [], [], 0.0
    for job in jobs:
        for run in job.capped:
            modelled = response.retention(run.limit_watts, job.free.watts, 0.0)
            measured = job.free.seconds / run.seconds
            everything.append(modelled - measured)
            if run.limit_watts < job.free.watts:
                binding.append(modelled - measured)
                draws.append(run.watts / run.limit_watts)
            else:
                cost = max(cost, 1.0 - modelled)
                if run.limit_watts > _CLEARLY_ABOVE * job.free.watts:
                    above.append(1.0 - measured)
    return GpuErrors(
        jobs=len(jobs),
        binding=len(binding),
        binding_mae=fmean(map(abs, binding)) if binding else 0.0,
        binding_bias=fmean(binding) if binding else 0.0,
        all_mae=fmean(map(abs, everything)),
        above_cost=cost,
        measured_above_cost=median(above) if above else None,
        draw_over_cap=median(draws) if draws else None,
    )


def natural_share(results: GpuResults) -> float:
    """Return the natural power over the highest limit that nine of ten jobs do not exceed."""
    return float(np.quantile([job.free.watts / job.free.limit_watts for job in results.jobs], 0.9))


def _response(static_share: float, exponent: float) -> CapResponse:
    return CapResponse(static_share, exponent, LOWEST_SHARE, "fit")


def _errors_of(jobs: Sequence[GpuJob]) -> list[list[float]]:
    """Return per job that any cap binds, and per pair of constants, the sum of absolute errors."""
    laws = [_response(static_share, exponent) for static_share in _STATIC_SHARES for exponent in _EXPONENTS]
    rows = []
    for job in jobs:
        runs = [
            (run.limit_watts, job.free.seconds / run.seconds) for run in job.capped if run.limit_watts < job.free.watts
        ]
        if runs:
            natural = job.free.watts
            sums = [sum(abs(law.retention(limit, natural, 0.0) - kept) for limit, kept in runs) for law in laws]
            rows.append(sums)
    if not rows:
        raise FitError("no cap is below the natural power of its job")
    return rows


def _best(rows: Sequence[Sequence[float]], chosen: Iterable[int]) -> tuple[float, float]:
    """Return static share and exponent with the least sum of errors over the chosen jobs."""
    totals = [sum(column) for column in zip(*(rows[index] for index in chosen), strict=True)]
    row, column = divmod(totals.index(min(totals)), len(_EXPONENTS))
    return _STATIC_SHARES[row], _EXPONENTS[column]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile([*values], (0.025, 0.975))
    return round(float(low), 3), round(float(high), 3)
