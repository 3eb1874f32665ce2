"""Scenario of a run: the cluster's node classes and the workload's pods. Its only I/O is reading the trace's files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.control_plane.nodes import NodeClass, default_node_classes, scale
from joulie_sim.demo.cycle import Cycle, cpu_milli, cyclic_items, falling_and_rising, gpu_resources, total_cpu_milli
from joulie_sim.demo.options import Options
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.openb import capacity_of, densest, replay, scaled_groups
from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE, read_nodes, read_pods
from joulie_sim.workload.openb_nodes import node_classes

#: Pods arrive in this share of the duration, so that the last of them can complete within it.
_ARRIVAL_SHARE: Final = 0.65
#: Share of the trace's cluster that its pods occupy. Two thirds of them are performance pods, for which only a part of
#: the cluster is available.
_TRACE_LOAD: Final = 0.35
#: Of a run in which nodes sleep.
_CYCLE_LOAD: Final = 0.35
_CYCLE_ARRIVALS: Final = 0.78
#: The longest pod ends within the span if it waits for a boot; share of the span.
_CYCLE_LONGEST: Final = 0.2


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and a workload, whose times are simulated seconds."""

    title: str
    classes: tuple[NodeClass, ...]
    items: tuple[WorkItem, ...]

    @property
    def node_count(self) -> int:
        """Number of nodes of all classes."""
        return sum(node_class.count for node_class in self.classes)


def make_scenario(options: Options) -> Scenario:
    """Return the scenario for the given options.

    Raises:
        TraceError: a file of the trace is missing or invalid.
    """
    if options.trace is not None:
        return _replayed(options, options.trace)
    classes = scale(default_node_classes(), options.nodes)
    title = f"{options.nodes} nodes, {options.pods} generated pods, seed {options.seed}, {options.steered_by}"
    if options.sleeps:
        return Scenario(title, classes, _falling_and_rising(options, classes))
    mix = Mix(
        pods=options.pods,
        window_s=options.duration_s * _ARRIVAL_SHARE,
        cpu_milli=total_cpu_milli(classes),
        node_cpu_milli=min(cpu_milli(found) for found in classes),
        gpu_resources=gpu_resources(classes),
    )
    return Scenario(title, classes, work_of(classes, generate(mix, seed=options.seed)))


def _falling_and_rising(options: Options, classes: Sequence[NodeClass]) -> tuple[WorkItem, ...]:
    """Return pods that leave nodes idle, then need them, with times in simulated seconds."""
    span_s = options.time_scale.simulated_s(options.duration_s)
    cycle = Cycle(
        span_s=span_s,
        longest_s=_CYCLE_LONGEST * span_s,
        load=_CYCLE_LOAD,
        arrivals=falling_and_rising(_CYCLE_ARRIVALS * span_s),
    )
    return cyclic_items(classes, cycle, pods=options.pods, seed=options.seed)


def _replayed(options: Options, directory: Path) -> Scenario:
    groups = scaled_groups(read_nodes(directory / NODE_FILE), options.scale)
    pods = densest(read_pods(directory / POD_FILE), options.pods)
    window_s = options.duration_s * _ARRIVAL_SHARE
    items = replay(
        pods,
        capacity=capacity_of(groups),
        window_s=window_s,
        load=_TRACE_LOAD,
        longest_s=options.duration_s - window_s,
    )
    nodes = sum(group.count for group in groups)
    title = f"openb-2023 at {options.scale:g}: {nodes} nodes, {len(items)} pods, {options.steered_by}"
    classes = node_classes(groups)
    return Scenario(title, classes, work_of(classes, items))


def work_of(classes: Sequence[NodeClass], items: Sequence[WorkItem]) -> tuple[WorkItem, ...]:
    """Return items with the work that the mean device of the nodes does in their `work_s`."""
    return machines_of(nodes_of_classes(classes), Inventory.load()).work_of(items)
