"""Replay of a recording: the nodes and pods that a simulation is given, and what the recording does not show.

- A pod arrives when it was created and works for as long as it was bound to its node, times the work per second of
  that node's model: on another model it takes another time. Pods that were bound when the
  recording began arrive at its start, with the part of their time that was recorded.
- A pod that was there at the end of the recording, or ended while it could not be seen, works until it was last seen.
- A pod with GPUs stays on GPUs of the model that it ran on, since its time was measured there.
- Pods of DaemonSets and static pods run on their node in every arm: their requests are taken off what it offers.
- How busy pods keep what they request is not recorded; it is assumed.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.quantity import parse_quantity
from joulie_sim.hardware import hardware_of
from joulie_sim.physics.parts import Hardware
from joulie_sim.recording.lines import PodEnd, PodLine
from joulie_sim.recording.reading import Recording
from joulie_sim.workload.item import NVIDIA_GPU, WorkItem

#: Owners whose pods do not choose their node: a DaemonSet, and a Node, which owns its static pods.
_NODE_OWNERS: Final = frozenset({"DaemonSet", "Node"})
#: What kube-scheduler counts a pod without a CPU request as.
_LEAST_CPU_MILLI: Final = 100
_MILLI: Final = 1000
_MIB: Final = 1024 * 1024
_SECONDS_PER_HOUR: Final = 3600.0
_PERCENT: Final = 100.0
#: Of nodes that were not recorded.
_UNKNOWN_HARDWARE: Final = Hardware(cpu=None, gpu=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedUse:
    """Busy share of the CPUs and GPUs that pods request, from 0 to 1."""

    cpu: float = 0.6
    gpu: float = 0.9


class LeftOut(Enum):
    """Reason why a pod is not simulated."""

    NEVER_BOUND = "never bound to a node"
    TIMES_UNKNOWN = "bound at an unknown time"
    OUTSIDE = "ended before the recording"
    DEVICES = "claims devices, or requests parts of GPUs"
    GPU_MODEL = "GPUs of an unknown model"


@dataclass(frozen=True, slots=True)
class Replay:
    """Nodes and pods for a simulation, and what they do not show, as sentences."""

    nodes: tuple[Node, ...]
    items: tuple[WorkItem, ...]
    notes: tuple[str, ...]


def replay_recording(recording: Recording, use: AssumedUse) -> Replay:
    """Return what a simulation is given of a recording."""
    placed = [pod for pod in recording.pods if pod.owner not in _NODE_OWNERS]
    fixed = [pod for pod in recording.pods if pod.owner in _NODE_OWNERS]
    inventory = Inventory.load()
    hardware = {node.name: hardware_of(node, inventory) for node in recording.nodes}
    items = []
    left_out: Counter[LeftOut] = Counter()
    for pod in placed:
        item = _item(pod, recording.end_s, use, hardware.get(NodeName(pod.node or ""), _UNKNOWN_HARDWARE))
        if isinstance(item, WorkItem):
            items.append(item)
        else:
            left_out[item] += 1
    nodes = tuple(_with_models(_reserved(recording, fixed)))
    notes = _notes(recording, items=len(items), fixed=len(fixed), left_out=left_out, use=use)
    return Replay(nodes, tuple(sorted(items, key=lambda item: item.arrives_s)), tuple(notes))


def _item(pod: PodLine, end_s: float, use: AssumedUse, hardware: Hardware) -> WorkItem | LeftOut:
    span = _span(pod, end_s)
    if isinstance(span, LeftOut):
        return span
    if pod.claims or (pod.gpus and not pod.gpu_resource.endswith("/gpu")):
        return LeftOut.DEVICES
    if pod.gpus and pod.gpu_model is None:
        return LeftOut.GPU_MODEL
    begin_s, until_s = span
    arrives_s = begin_s if pod.arrives_s is None or begin_s == 0.0 else max(0.0, pod.arrives_s)
    return WorkItem(
        name=pod.name,
        arrives_s=arrives_s,
        workload_class=pod.workload_class,
        cpu_milli=pod.cpu_milli or _LEAST_CPU_MILLI,
        memory_mib=pod.memory_mib,
        gpus=pod.gpus,
        gpu_resource=_model_resource(pod.gpu_model) if pod.gpu_model else NVIDIA_GPU,
        # Times have whole seconds.
        work_s=max(1.0, until_s - begin_s) * hardware.work_per_s(gpus=pod.gpus > 0),
        cpu_utilization=use.cpu,
        gpu_utilization=use.gpu if pod.gpus else 0.0,
    )


def _span(pod: PodLine, end_s: float) -> tuple[float, float] | LeftOut:
    """Return from when to when a pod was bound, within the recording."""
    if pod.node is None:
        return LeftOut.NEVER_BOUND
    begin_s = pod.bound_s if pod.bound_s is not None else pod.started_s
    if begin_s is None:
        return LeftOut.TIMES_UNKNOWN
    until_s = {PodEnd.OPEN: end_s, PodEnd.ENDED: pod.ended_s, PodEnd.UNKNOWN: pod.seen_s}[pod.end]
    if until_s is None:
        return LeftOut.TIMES_UNKNOWN
    return LeftOut.OUTSIDE if until_s < 0.0 else (max(0.0, begin_s), until_s)


def _reserved(recording: Recording, fixed: Iterable[PodLine]) -> list[Node]:
    """Return the nodes without the mean of what pods that belong to them request."""
    cpu_milli_s: defaultdict[str, float] = defaultdict(float)
    mib_s: defaultdict[str, float] = defaultdict(float)
    for pod in fixed:
        span = _span(pod, recording.end_s)
        if not isinstance(span, LeftOut) and pod.node is not None:
            cpu_milli_s[pod.node] += pod.cpu_milli * (span[1] - span[0])
            mib_s[pod.node] += pod.memory_mib * (span[1] - span[0])
    window_s = max(1.0, recording.end_s)
    return [
        _without(node, math.ceil(cpu_milli_s[node.name] / window_s), math.ceil(mib_s[node.name] / window_s))
        for node in recording.nodes
    ]


def _without(node: Node, cpu_milli: int, mib: int) -> Node:
    offered = dict(node.allocatable)
    if "cpu" in offered:
        offered["cpu"] = f"{max(1, int(_MILLI * parse_quantity(offered['cpu'])) - cpu_milli)}m"
    if "memory" in offered:
        offered["memory"] = str(max(_MIB, int(parse_quantity(offered["memory"])) - mib * _MIB))
    return replace(node, allocatable=offered)


def _with_models(nodes: Sequence[Node]) -> Iterable[Node]:
    """Yield the nodes with a resource for the GPUs of their model beside the one that pods requested."""
    inventory = Inventory.load()
    for node in nodes:
        view = view_from_node(node, inventory)
        whole = next((value for name, value in node.allocatable.items() if name.endswith("/gpu")), None)
        if view.gpu is None or whole is None:
            yield node
        else:
            yield replace(node, allocatable={**node.allocatable, _model_resource(view.gpu.model): whole})


def _model_resource(model: str) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', model.lower())}.recorded/gpu"


def _notes(
    recording: Recording, *, items: int, fixed: int, left_out: Counter[LeftOut], use: AssumedUse
) -> Iterable[str]:
    pods = recording.pods
    yield (
        f"{recording.end_s / _SECONDS_PER_HOUR:.1f} h from {recording.start.started_at}: {items} of {len(pods)} pods "
        f"simulated on {len(recording.nodes)} nodes; {fixed} of DaemonSets and static pods are taken off their nodes"
    )
    if left_out:
        yield "left out: " + ", ".join(f"{count} {why.value}" for why, count in left_out.most_common())
    cut = Counter(pod.end for pod in pods if pod.node is not None and pod.owner not in _NODE_OWNERS)
    if cut[PodEnd.OPEN] or cut[PodEnd.UNKNOWN]:
        yield (
            f"work is what was seen of it: {cut[PodEnd.OPEN]} pods still ran at the end, "
            f"{cut[PodEnd.UNKNOWN]} ended unseen"
        )
    constrained = sum(pod.constrained for pod in pods if pod.owner not in _NODE_OWNERS)
    if constrained:
        yield f"{constrained} pods were restricted to some nodes, which is not simulated beyond the model of GPUs"
    if recording.node_changes:
        yield f"{len(recording.node_changes)} times nodes came or went; every node counts for the whole time"
    if recording.gaps:
        total_s = sum(gap.to_s - gap.from_s for gap in recording.gaps)
        yield f"{len(recording.gaps)} gaps of together {total_s:.0f} s in what was seen"
    if not recording.ended:
        yield "the recording was not ended but killed; it is read up to the last minute that was recorded"
    if recording.start.under_joulie:
        yield "Joulie was active: the run times contain what its caps cost"
    yield (
        f"assumed, since it is not recorded: pods keep {_PERCENT * use.cpu:.0f} % of the CPUs and "
        f"{_PERCENT * use.gpu:.0f} % of the GPUs busy that they request"
    )
