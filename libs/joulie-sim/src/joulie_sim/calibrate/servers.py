"""Fits server power to published results, and evaluates it on any."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

from joulie_core.hardware.inventory import CpuSpec, Inventory
from joulie_core.kinds.node_hardware import Exactness
from joulie_core.power.server import MeasuredServer, ServerModels, groups, server_power
from joulie_sim.calibrate.results import LOADS_PCT, FitError, ServerResult

#: A group of CPUs with fewer results than this has no shape of its own.
_LEAST_RESULTS: Final = 3
#: What the fit of the rest of a server tries: constants in watts, and watts per GiB of memory in hundredths.
_REST_WATTS: Final = tuple(float(watts) for watts in range(0, 42, 2))
_REST_CENTIWATTS_PER_GIB: Final = tuple(range(41))


@dataclass(frozen=True, slots=True)
class ServerErrors:
    """Mean absolute percentage errors over the eleven points, per result, in the order of the results."""

    #: With idle and maximum known.
    known_pct: tuple[float, ...]
    #: From TDP and memory.
    tdp_memory_pct: tuple[float, ...]
    #: From the TDP alone.
    tdp_pct: tuple[float, ...]
    #: With the curve of the very model, where there is one.
    measured_pct: tuple[float, ...] = ()


def cpu_of(result: ServerResult) -> tuple[CpuSpec, bool]:
    """Return the CPU of a result with the TDP that it states, and whether it is the inventory's very model."""
    inventory = Inventory.load()
    match = inventory.find_cpu(result.cpu_model)
    spec = match.spec if match is not None else inventory.generic_cpu(result.cpu_vendor)
    if spec.vendor != result.cpu_vendor:
        # Of neither maker, or named so that it looks like another's.
        spec = replace(inventory.generic_cpu(result.cpu_vendor), vendor=result.cpu_vendor)
    very_model = match is not None and match.exactness is Exactness.EXACT and spec.max_watts == result.tdp_watts
    return replace(spec, max_watts=result.tdp_watts), very_model


def fit_servers(results: Sequence[ServerResult]) -> ServerModels:
    """Return the constants that fit the results.

    Raises:
        FitError: there are too few results.
    """
    if len(results) < _LEAST_RESULTS:
        raise FitError(f"{len(results)} server results; a fit needs {_LEAST_RESULTS}")
    members = _members(results)
    rest_watts, per_gib = _fit_rest(results, members)

    def tdp_share(result: ServerResult) -> tuple[float, ...]:
        rest = rest_watts + per_gib * result.memory_gib
        return tuple((watts - rest) / (result.tdp_watts * result.sockets) for watts in result.wall_watts)

    return ServerModels(
        rest_watts=rest_watts,
        rest_watts_per_gib=per_gib,
        memory_gib_per_tdp_watt={
            name: round(median(each.memory_gib / (each.tdp_watts * each.sockets) for each in group), 2)
            for name, group in members.items()
        },
        shapes={name: _rising(_medians(_shape(each) for each in group)) for name, group in members.items()},
        tdp_shares={name: _rising(_medians(tdp_share(each) for each in group)) for name, group in members.items()},
        measured=_measured(results),
    )


def load_shares(results: Sequence[ServerResult]) -> dict[str, tuple[tuple[float, ...], int]]:
    """Return per curve name of the inventory the median of power over maximum, and the number of results."""
    by_curve: dict[str, list[ServerResult]] = defaultdict(list)
    for result in results:
        cpu, _ = cpu_of(result)
        if not cpu.generic:
            by_curve[cpu.curve_name].append(result)
    return {
        name: (
            _rising(_medians([watts / each.wall_watts[-1] for watts in each.wall_watts] for each in group)),
            len(group),
        )
        for name, group in by_curve.items()
    }


def evaluate_servers(results: Sequence[ServerResult], models: ServerModels) -> ServerErrors:
    """Return the errors of models on results; `measured_pct` is of the models' own data where those are the results."""
    unmeasured = replace(models, measured={})
    known, with_memory, tdp, measured = [], [], [], []
    for result in results:
        cpu, very_model = cpu_of(result)
        wall = result.wall_watts
        between = server_power(
            cpu, result.sockets, result.memory_gib, idle_watts=wall[0], max_watts=wall[-1], models=unmeasured
        )
        known.append(_error_pct(between.wall_watts, wall))
        with_memory.append(
            _error_pct(server_power(cpu, result.sockets, result.memory_gib, models=unmeasured).wall_watts, wall)
        )
        tdp.append(_error_pct(server_power(cpu, result.sockets, models=unmeasured).wall_watts, wall))
        if very_model and (cpu.key, result.sockets) in models.measured:
            measured.append(
                _error_pct(server_power(cpu, result.sockets, result.memory_gib, models=models).wall_watts, wall)
            )
    return ServerErrors(tuple(known), tuple(with_memory), tuple(tdp), tuple(measured))


def left_out(results: Sequence[ServerResult], key: Callable[[ServerResult], Hashable]) -> ServerErrors:
    """Return the errors on each group of results by models that are fitted to all others, where those are enough."""
    found = []
    for name in dict.fromkeys(key(result) for result in results):
        outside = [result for result in results if key(result) != name]
        inside = [result for result in results if key(result) == name]
        if len(outside) >= _LEAST_RESULTS:
            found.append(evaluate_servers(inside, fit_servers(outside)))
    return ServerErrors(
        tuple(error for each in found for error in each.known_pct),
        tuple(error for each in found for error in each.tdp_memory_pct),
        tuple(error for each in found for error in each.tdp_pct),
    )


@dataclass(frozen=True, slots=True)
class MeasuredErrors:
    """Errors of measured curves on results that are not in them, one result left out at a time."""

    #: Mean absolute percentage errors over the eleven points, of results of models that have others.
    left_out_pct: tuple[float, ...]
    #: Results that are the only ones of their model and number of sockets: nothing is known of their error.
    single: int


def measured_left_out(results: Sequence[ServerResult], models: ServerModels) -> MeasuredErrors:
    """Return the errors of the median of all other results of a model on each; `models` has the watts of memory."""
    errors, single = [], 0
    for group in _of_very_models(results).values():
        for result in group:
            others = [each for each in group if each is not result]
            if not others:
                single += 1
                continue
            cpu, _ = cpu_of(result)
            fitted = replace(models, measured=_measured(others))
            curve = server_power(cpu, result.sockets, result.memory_gib, models=fitted).wall_watts
            errors.append(_error_pct(curve, result.wall_watts))
    return MeasuredErrors(tuple(errors), single)


def generation(result: ServerResult) -> str:
    """Return the narrowest group of a result's CPU."""
    cpu, _ = cpu_of(result)
    return groups(cpu, result.sockets)[0]


def _members(results: Iterable[ServerResult]) -> dict[str, list[ServerResult]]:
    members: dict[str, list[ServerResult]] = defaultdict(list)
    for result in results:
        cpu, _ = cpu_of(result)
        names = groups(cpu, result.sockets)
        for name in names:
            members[name].append(result)
    return {name: group for name, group in sorted(members.items()) if len(group) >= _LEAST_RESULTS}


def _fit_rest(results: Sequence[ServerResult], members: Mapping[str, Sequence[ServerResult]]) -> tuple[float, float]:
    """Return constant and watts per GiB with the least relative error of idle power, by the narrowest groups.

    At idle packages draw little, so that the rest is a large part, and memory differs between servers of one CPU.
    """
    idle: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for result in results:
        cpu, _ = cpu_of(result)
        name = next(name for name in groups(cpu, result.sockets) if name in members)
        idle[name].append((result.wall_watts[0], result.memory_gib, result.tdp_watts * result.sockets))

    def error(constant: float, per_gib: float) -> float:
        total = 0.0
        for group in idle.values():
            share = median((watts - constant - per_gib * gib) / tdp for watts, gib, tdp in group)
            total += sum(abs(constant + per_gib * gib + share * tdp - watts) / watts for watts, gib, tdp in group)
        return total

    tries = ((constant, centi / 100) for constant in _REST_WATTS for centi in _REST_CENTIWATTS_PER_GIB)
    return min(tries, key=lambda each: error(*each))


def _measured(results: Iterable[ServerResult]) -> dict[tuple[str, int], MeasuredServer]:
    return {
        key: MeasuredServer(
            _rising([round(watts, 1) for watts in _plain_medians(each.wall_watts for each in group)]),
            median(each.memory_gib for each in group),
            group[0].tdp_watts,
        )
        for key, group in sorted(_of_very_models(results).items())
    }


def _of_very_models(results: Iterable[ServerResult]) -> dict[tuple[str, int], list[ServerResult]]:
    by_model: dict[tuple[str, int], list[ServerResult]] = defaultdict(list)
    for result in results:
        cpu, very_model = cpu_of(result)
        if very_model:
            by_model[cpu.key, result.sockets].append(result)
    return by_model


def _shape(result: ServerResult) -> tuple[float, ...]:
    idle, full = result.wall_watts[0], result.wall_watts[-1]
    return tuple((watts - idle) / (full - idle) for watts in result.wall_watts)


def _plain_medians(points: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(median(column) for column in zip(*points, strict=True))


def _medians(points: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(round(value, 4) for value in _plain_medians(points))


def _rising(points: Sequence[float]) -> tuple[float, ...]:
    """Return the points, none below the one before: medians of rising curves rise, up to noise in a single result."""
    highest = points[0]
    return tuple(highest := max(highest, point) for point in points)


def _error_pct(modelled: Sequence[float], measured: Sequence[float]) -> float:
    assert len(modelled) == len(measured) == len(LOADS_PCT)
    return fmean(abs(one - other) / other for one, other in zip(modelled, measured, strict=True)) * 100
