"""Lower bound of the energy for a workload: all jobs packed perfectly, on nodes that are on only while they are needed.

Every job starts when it arrives; nodes go on and off in no time and in any number, also a part of one; a job may be
divided over nodes. For each minute the bound is the optimum of a linear program: as many nodes of each kind, at
whatever load of theirs, as have the devices that jobs hold and do the work that they do, at the fewest watts. It is
stated by its dual: to *any* prices of what is needed belongs a bound, the worth of what is needed less what nodes could
earn at most at these prices. So the search for good prices decides how tight the bound is, never whether it is one.

Two things are approximate where models differ in work per second: a job is needed for the time that it takes on the
mean device of the cluster, and work for which there is no device in a minute is needed in the next one.

No scheduler reaches the bound: jobs do not divide, and servers take minutes to boot.
See docs/decisions/0041-oracle.md.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from joulie_sim.engine.arrays import Bools, Floats, Ints
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import HardwareGroup, Machines
from joulie_sim.engine.power_model import NodePowerModel
from joulie_sim.engine.records import MINUTE_S, MeasuredWindow
from joulie_sim.engine.running_nodes import calibrated_models
from joulie_sim.physics.parts import Controls

_MILLI: Final = 1000.0
#: Loads at which a device's watts are taken; between two of them a straight line.
_LOADS: Final = np.linspace(0.0, 1.0, 21)
_ROUNDS: Final = 1_000
#: Rounds after which a step is half as long as the first.
_HALF_AFTER: Final = 20.0
_FIRST_STEP: Final = 0.3
_LEAST_LENGTH: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """Arrays over kinds of nodes: how many there are, what one offers, and what one draws."""

    count: Floats
    cores: Floats
    gpus: Floats
    #: Index of the resource that the GPUs are requested by.
    resource: Ints
    #: Work per second of a thread and of a GPU over that of the cluster's mean ones.
    core_rate: Floats
    gpu_rate: Floats
    #: At the wall, without a job, above those of a node that is off.
    idle_watts: Floats
    #: Above idle, shape (kinds, loads): of all CPUs of a node, and of all its GPUs.
    cpu_watts: Floats
    gpu_watts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Amounts:
    """Devices of the cluster's mean that jobs hold and keep busy; shape (minutes,), or (minutes, GPU resources).

    Cores of jobs with GPUs are apart: for how long they are held is up to the GPUs.
    """

    cores_held: Floats
    cores_busy: Floats
    gpu_cores_held: Floats
    gpu_cores_busy: Floats
    gpus_held: Floats
    gpus_busy: Floats

    def parts(self) -> tuple[Floats, ...]:
        """Return all arrays."""
        return (
            *(self.cores_held, self.cores_busy, self.gpu_cores_held),
            *(self.gpu_cores_busy, self.gpus_held, self.gpus_busy),
        )


def least_joules(machines: Machines, jobs: Jobs, window: MeasuredWindow, *, off_watts: float) -> float:
    """Return a lower bound of the IT energy within a window, in joules.

    Args:
        machines: the nodes.
        jobs: the workload.
        window: what is measured; whole minutes.
        off_watts: of a node that is off, at the wall.
    """
    kinds = _kinds(machines, calibrated_models(machines), off_watts)
    # From the start on: what found no room before the window is needed within it.
    needed = _with_room(_needed(machines, jobs, window.end_s), kinds)
    first = round(window.begin_s / MINUTE_S)
    watts = _highest_bounds(kinds, _Amounts(*(part[first:] for part in needed.parts())))
    return float((watts + len(machines) * off_watts).sum() * MINUTE_S)


def _kinds(machines: Machines, models: list[NodePowerModel], off_watts: float) -> _Kinds:
    nodes = [np.flatnonzero(machines.group == place) for place in range(len(machines.groups))]
    # Shape (resources, kinds).
    by_resource = np.array([[row[of].mean() for of in nodes] for row in machines.gpus]).reshape(-1, len(nodes))
    resource: Ints = by_resource.argmax(axis=0) if len(by_resource) else np.zeros(len(nodes), dtype=np.int64)
    of_kind: Floats = by_resource.sum(axis=0)
    cpu = np.array([_cpu_watts(group, model) for group, model in zip(machines.groups, models, strict=True)])
    gpu = np.array([_gpu_watts(model, gpus) for model, gpus in zip(models, of_kind.tolist(), strict=True)])
    core_work, gpu_work = (
        np.array([group.hardware.work_per_s(gpus=with_gpus) for group in machines.groups])
        for with_gpus in (False, True)
    )
    mean_gpu = machines.mean_work_per_gpu if len(by_resource) else np.ones(1)
    return _Kinds(
        count=np.array([len(of) for of in nodes], dtype=np.float64),
        cores=np.array([machines.allocatable[0, of].mean() / _MILLI for of in nodes]),
        gpus=of_kind,
        resource=resource,
        core_rate=core_work / machines.mean_work_per_thread,
        gpu_rate=gpu_work / mean_gpu[resource],
        idle_watts=cpu[:, 0] + gpu[:, 0] - off_watts,
        cpu_watts=cpu - cpu[:, :1],
        gpu_watts=gpu - gpu[:, :1],
    )


def _cpu_watts(group: HardwareGroup, model: NodePowerModel) -> list[float]:
    assert group.hardware.cpu is not None, "machines have known CPUs"
    cores = group.hardware.cpu.cores
    return [model.server(float(load) * cores, Controls()).wall_watts for load in _LOADS]


def _gpu_watts(model: NodePowerModel, gpus: float) -> list[float]:
    return [model.wall_watts(gpus * model.gpu(float(load), Controls()).watts) for load in _LOADS]


def _needed(machines: Machines, jobs: Jobs, end_s: float) -> _Amounts:
    """Return the means of each minute until then."""
    with_gpu = jobs.gpus > 0
    resources = max(1, len(machines.gpu_resources))
    takes_s = jobs.work_s / machines.mean_work_per_thread
    if with_gpu.any():
        takes_s[with_gpu] = jobs.work_s[with_gpu] / machines.mean_work_per_gpu[jobs.gpu_resource[with_gpu]]

    def means(members: Bools, devices: Floats) -> Floats:
        return _minute_means(jobs.arrives_s[members], takes_s[members], devices[members], end_s)

    def by_resource(devices: Floats) -> Floats:
        return np.stack([means(with_gpu & (jobs.gpu_resource == each), devices) for each in range(resources)], axis=1)

    cores, gpus = jobs.cpu_milli / _MILLI, jobs.gpus.astype(np.float64)
    return _Amounts(
        cores_held=means(~with_gpu, cores),
        cores_busy=means(~with_gpu, cores * jobs.cpu_utilization),
        gpu_cores_held=by_resource(cores),
        gpu_cores_busy=by_resource(cores * jobs.cpu_utilization),
        gpus_held=by_resource(gpus),
        gpus_busy=by_resource(gpus * jobs.gpu_utilization),
    )


def _minute_means(arrives_s: Floats, takes_s: Floats, devices: Floats, end_s: float) -> Floats:
    """Return the devices that jobs need in the mean of each minute."""
    bounds = np.arange(0.0, end_s + MINUTE_S / 2.0, MINUTE_S)
    ends_s = arrives_s + takes_s
    order = np.argsort(ends_s, kind="stable")
    held_s = _integral(arrives_s, devices, bounds) - _integral(ends_s[order], devices[order], bounds)
    means: Floats = np.diff(held_s) / MINUTE_S
    return np.maximum(0.0, means)


def _integral(times_s: Floats, amounts: Floats, bounds: Floats) -> Floats:
    """Return the integral up to each bound of the sum of the amounts whose time, in rising order, has come."""
    before = np.searchsorted(times_s, bounds)
    sums = np.concatenate(([0.0], np.cumsum(amounts)))
    moments = np.concatenate(([0.0], np.cumsum(amounts * times_s)))
    integral: Floats = sums[before] * bounds - moments[before]
    return integral


def _with_room(needed: _Amounts, kinds: _Kinds) -> _Amounts:
    """Return what is needed as far as there are devices for it; the rest is needed a minute later, or after that."""
    resources = needed.gpus_held.shape[1]
    gpus = np.bincount(kinds.resource, kinds.gpus * kinds.count * kinds.gpu_rate, minlength=resources)
    cores = float((kinds.cores * kinds.count * kinds.core_rate).sum())
    # The most that a core of a job with GPUs takes from the others, wherever both run.
    most = float(kinds.core_rate.max() / kinds.gpu_rate[kinds.gpus > 0].min(initial=1.0))
    within = _Amounts(*(part.copy() for part in needed.parts()))
    rest = [np.zeros_like(part[0]) for part in needed.parts()]
    for minute in range(len(needed.cores_held)):
        wanted = [part[minute] + left for part, left in zip(needed.parts(), rest, strict=True)]
        on_gpus = np.minimum(1.0, gpus / np.maximum(wanted[4], gpus + 1e-9))
        left_cores = max(0.0, cores - most * float((wanted[2] * on_gpus).sum()))
        on_cores = min(1.0, left_cores / wanted[0]) if wanted[0] > 0.0 else 1.0
        shares = (on_cores, on_cores, on_gpus, on_gpus, on_gpus, on_gpus)
        for place, (part, share) in enumerate(zip(within.parts(), shares, strict=True)):
            part[minute] = wanted[place] * share
            rest[place] = wanted[place] - part[minute]
    return within


def _highest_bounds(kinds: _Kinds, needed: _Amounts) -> Floats:
    """Return the highest bound that was found for each minute, in watts above those of nodes that are off.

    The bound is concave in the prices: a step along its slope, which is what is needed less what nodes would supply at
    these prices, leads towards better ones.
    """
    minutes, resources = needed.gpus_held.shape
    cores = float((kinds.cores * kinds.count).sum())
    gpus = np.maximum(1.0, np.bincount(kinds.resource, kinds.gpus * kinds.count, minlength=resources))
    scales: tuple[float | Floats, ...] = (cores, cores, cores, cores, gpus, gpus)
    watts = float(((kinds.idle_watts + kinds.cpu_watts[:, -1] + kinds.gpu_watts[:, -1]) * kinds.count).sum())
    prices = _Amounts(*(np.zeros_like(part) for part in needed.parts()))
    best = np.zeros(minutes)
    for number in range(_ROUNDS):
        bound, supplied = _bound(kinds, needed, prices)
        np.maximum(best, bound, out=best)
        slopes = [
            (want - have) / scale for want, have, scale in zip(needed.parts(), supplied.parts(), scales, strict=True)
        ]
        squares = np.concatenate([slope.reshape(minutes, -1) ** 2 for slope in slopes], axis=1).sum(axis=1)
        length = np.maximum(_LEAST_LENGTH, np.sqrt(squares))
        step = _FIRST_STEP * watts / (1.0 + number / _HALF_AFTER) / length
        prices = _Amounts(
            *(
                np.maximum(0.0, price + slope / scale * (step if slope.ndim == 1 else step[:, None]))
                for price, slope, scale in zip(prices.parts(), slopes, scales, strict=True)
            )
        )
    return best


def _bound(kinds: _Kinds, needed: _Amounts, prices: _Amounts) -> tuple[Floats, _Amounts]:
    """Return the bound of each minute at prices, and what nodes supply that earn at these prices."""
    # Shapes (minutes, kinds): the earnings of a thread that a job without GPUs, or one with GPUs, holds or keeps busy.
    held = np.outer(prices.cores_held, kinds.core_rate), _of_kinds(prices.gpu_cores_held, kinds)
    busy = np.outer(prices.cores_busy, kinds.core_rate), _of_kinds(prices.gpu_cores_busy, kinds)
    cpu_cost, cpu_load = _least(kinds.cpu_watts, kinds.cores, np.maximum(*busy))
    gpu_cost, gpu_load = _least(kinds.gpu_watts, kinds.gpus, _of_kinds(prices.gpus_busy, kinds))
    earned = np.maximum(*held) * kinds.cores + _of_kinds(prices.gpus_held, kinds) * kinds.gpus
    cost = kinds.idle_watts - earned + cpu_cost + gpu_cost
    on = (cost < 0.0) * kinds.count
    threads, loaded = on * kinds.cores, on * kinds.cores * cpu_load
    holds, keeps = held[0] >= held[1], busy[0] >= busy[1]
    resources = needed.gpus_held.shape[1]
    supplied = _Amounts(
        cores_held=(threads * holds) @ kinds.core_rate,
        cores_busy=(loaded * keeps) @ kinds.core_rate,
        gpu_cores_held=_by_resource(threads * ~holds, kinds, resources),
        gpu_cores_busy=_by_resource(loaded * ~keeps, kinds, resources),
        gpus_held=_by_resource(on * kinds.gpus, kinds, resources),
        gpus_busy=_by_resource(on * kinds.gpus * gpu_load, kinds, resources),
    )
    pairs = zip(needed.parts(), prices.parts(), strict=True)
    worth = np.concatenate([(want * price).reshape(len(on), -1) for want, price in pairs], axis=1)
    return worth.sum(axis=1) + (on * cost).sum(axis=1), supplied


def _of_kinds(prices: Floats, kinds: _Kinds) -> Floats:
    """Return what a device of each kind earns by jobs with GPUs, from prices by resource; 0 on nodes without GPUs."""
    of_kinds: Floats = prices[:, kinds.resource] * (kinds.gpu_rate * (kinds.gpus > 0))
    return of_kinds


def _by_resource(devices: Floats, kinds: _Kinds, resources: int) -> Floats:
    """Return devices of the mean by resource, from devices of each kind."""
    rates = np.zeros((len(kinds.resource), resources))
    rates[np.arange(len(kinds.resource)), kinds.resource] = kinds.gpu_rate * (kinds.gpus > 0)
    by_resource: Floats = devices @ rates
    return by_resource


def _least(watts: Floats, devices: Floats, price: Floats) -> tuple[Floats, Floats]:
    """Return watts less earnings of a node's devices at the load where they are least, and that load."""
    costs = watts[None] - (price * devices)[..., None] * _LOADS
    at = costs.argmin(axis=2)
    return np.take_along_axis(costs, at[..., None], axis=2)[..., 0], _LOADS[at]
