"""Power budgets in the simulation: limits of all nodes' CPU packages and GPUs, which add up to no more than a feed has.

Shares and their split over devices are `joulie_core.budget`'s, as operator and agents call them, for a tree of one
domain. Guarantees that at no moment the limits in force add up to more than the feed supplies, unless the lowest limits
of the hardware do: a node gets the lower one of its present share and the one before, so that it is raised a step after
others were lowered, whichever of them acts first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_core.budget import Allocator, BudgetDevice, BudgetDomain, plant, split_budget, wants_of
from joulie_core.hardware.view import HardwareView
from joulie_core.held_as import HeldAs
from joulie_core.units import MW_PER_WATT
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.running_nodes import RunningNodes
from joulie_sim.physics.parts import Controls

#: Between two decisions: the operator's, where no spec changes.
INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBudgetSettings:
    """A feed, and how its nodes share it."""

    #: Watts of the feed, as a share of the highest power of all nodes' CPU packages and GPUs.
    supplied: float
    #: By what the nodes' jobs would draw without limits; else each node has the same share of its range at all times.
    by_demand: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFirstBudgetSettings(NodeBudgetSettings):
    """A feed whose nodes give their limit to GPUs that jobs hold before those that none holds.

    A class of its own, so that the text of other arms, by which stored results are recognised, stays the same.
    """


class SharedFeed:
    """The limits of one arm; `decide` is called when `due_s` has come."""

    def __init__(self, machines: Machines, settings: NodeBudgetSettings, nodes: RunningNodes) -> None:
        self.due_s = 0.0
        self._nodes = nodes
        self._by_demand = settings.by_demand
        self._held_first = isinstance(settings, HeldFirstBudgetSettings)
        views = [machines.groups[group].view for group in machines.group]
        self._devices = [_devices(view) for view in views]
        self._lowest = [sum(each.min_mw for each in devices) for devices in self._devices]
        self._highest = [sum(each.max_mw for each in devices) for devices in self._devices]
        self._names = machines.names
        feed = BudgetDomain("feed", int(settings.supplied * sum(self._highest)), nodes=machines.names)
        (tree,) = plant([feed]).trees
        bounds = zip(self._names, self._lowest, self._highest, strict=True)
        self._allocator = Allocator(tree, {name: wants_of(low, None, high) for name, low, high in bounds})
        self._before = self._shares()

    def decide(self, now_s: float) -> None:
        """Put the limits in force that follow from the present demand."""
        self.due_s = now_s + INTERVAL_S
        if self._by_demand:
            for node, name in enumerate(self._names):
                demand = _milliwatts(self._nodes[node].uncapped_watts())
                self._allocator.change(name, wants_of(self._lowest[node], demand, self._highest[node]))
        shares = self._shares()
        for node, (share, before) in enumerate(zip(shares, self._before, strict=True)):
            self._limit(node, min(share, before), now_s)
        self._before = shares

    def _shares(self) -> list[int]:
        targets = self._allocator.targets()
        return [targets[name] for name in self._names]

    def _limit(self, node: int, limit_mw: int, now_s: float) -> None:
        runtime, devices = self._nodes[node], self._devices[node]
        if self._held_first:
            devices = _with_free(devices, runtime.gpus_held)
        controls = _controls(devices, limit_mw)
        if controls != runtime.controls:
            runtime.advance(now_s)
            runtime.controls = controls
            self._nodes.settle(node, now_s)


def _devices(view: HardwareView) -> tuple[BudgetDevice, ...]:
    cpu, gpu = view.cpu, view.gpu
    assert cpu is not None, "machines have known CPUs"
    packages = (
        BudgetDevice(f"cpu{number}", _milliwatts(cpu.min_watts_per_socket), _milliwatts(cpu.max_watts_per_socket))
        for number in range(cpu.sockets)
    )
    gpus = (
        BudgetDevice(f"gpu{number}", _milliwatts(gpu.min_watts), _milliwatts(gpu.max_watts))
        for number in range(gpu.count if gpu is not None else 0)
        if gpu is not None
    )
    return (*packages, *gpus)


def _with_free(devices: Sequence[BudgetDevice], held: int) -> tuple[BudgetDevice, ...]:
    """Return devices of which all GPUs but the first ones are free."""
    used = len(devices) - sum(each.name.startswith("gpu") for each in devices) + held
    return (*devices[:used], *(replace(each, held_as=HeldAs.FREE) for each in devices[used:]))


def _controls(devices: Sequence[BudgetDevice], limit_mw: int) -> Controls:
    """Return the caps of a node's devices: the first of each kind tells that of all that are used."""
    limits = split_budget(limit_mw, devices).limits_mw
    caps: dict[str, float | None] = {}
    for each in devices:
        limit = limits[each.name]
        caps.setdefault(each.name[:3], None if limit >= each.max_mw else limit / MW_PER_WATT)
    return Controls(cpu_cap_watts=caps["cpu"], gpu_cap_watts=caps.get("gpu"))


def _milliwatts(watts: float) -> int:
    return round(MW_PER_WATT * watts)
