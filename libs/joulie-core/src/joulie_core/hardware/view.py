"""The view of one node's hardware that every decision takes.

Always returns a view: what the agent discovered comes first, field by field, then the node's labels and allocatable
resources, then the inventory's figures for the model, then a generic model of the vendor. `exactness` states how good
the worst of the figures is, `origins` where the least certain of the facts comes from, and `conflicts` what the sources
disagree about. Whether there are GPUs at all is `joulie_core.hardware.presence`.

Assumptions, each made only where nothing better is known: hardware threads per core are the model's (two for an unknown
one), a node has as many sockets as its cores need, a GPU model without a count is one GPU.
Source: docs/decisions/0011-facts.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from joulie_core.gpu_vendors import GPU_PRODUCT_KEYS
from joulie_core.hardware.facts import CpuFacts, Facts, GpuFacts, facts_from_node, facts_from_status
from joulie_core.hardware.inventory import CpuSpec, GpuSpec, Inventory, Match, Spec
from joulie_core.hardware.presence import count_gpus
from joulie_core.kinds.node_hardware import Exactness, NodeHardwareStatus, Origin
from joulie_core.node import Node

T = TypeVar("T")
#: Share of the natural power below which no GPU is capped whose own law was not measured. An A100 PCIe, which is not in
#: the fit, does the most work per joule at 0.6 of its natural power, where the law has 0.52, and below that loses more
#: speed than the law states; 0.75 keeps away from that (docs/models.md).
LEAST_CAP_OF_NATURAL: Final = 0.75


@dataclass(frozen=True, slots=True)
class CpuView:
    """The CPUs of one node; `spec` is the inventory entry that its curve and IPC class come from."""

    model: str
    vendor: str
    sockets: int
    #: Physical cores of all sockets.
    total_cores: int
    #: Hardware threads of all sockets, the unit of pod requests; where they were not counted no more than there are.
    threads: int
    base_ghz: float
    min_watts_per_socket: float
    max_watts_per_socket: float
    spec: CpuSpec

    @property
    def work_per_thread(self) -> float | None:
        """Work per second of one hardware thread over that of EPYC 7763; None where nothing is published."""
        return self.spec.work_per_thread.value if self.spec.work_per_thread else None


@dataclass(frozen=True, slots=True)
class GpuView:
    """The GPUs of one node, taken as alike; watts are per GPU."""

    model: str
    vendor: str
    count: int
    min_watts: float
    max_watts: float
    default_watts: float
    spec: GpuSpec
    #: What the driver and the labels call the model, each once; `model` may be another.
    names: tuple[str, ...] = ()
    #: Whether `max_watts` is the hardware's or its model's, and not that of a generic model.
    max_is_known: bool = True

    @property
    def lowest_cap_watts(self) -> float:
        """The lowest cap per GPU that is worth its slowdown: the knee, but only of a model on which it was measured."""
        least_watts = self.spec.knee_watts
        if not (self.spec.cap_measured and self.model == self.spec.model):
            least_watts = max(least_watts, LEAST_CAP_OF_NATURAL * self.spec.natural_watts)
        return min(max(least_watts, self.min_watts), self.max_watts)

    @property
    def work_per_gpu(self) -> float | None:
        """Work per second of one GPU over that of A100 SXM 80 GB; None where nothing is published."""
        return self.spec.work_per_gpu.value if self.spec.work_per_gpu else None


@dataclass(frozen=True, slots=True)
class Origins:
    """Source of the least certain fact of each subsystem; None where nothing is known."""

    cpu: Origin | None = None
    gpu: Origin | None = None
    memory: Origin | None = None


@dataclass(frozen=True, slots=True)
class HardwareView:
    """The hardware of one node.

    `cpu` is None where neither a model nor a core count is known. `gpu` is None where there is none and where it is
    unknown; `origins.gpu` distinguishes the two.
    """

    cpu: CpuView | None
    gpu: GpuView | None
    memory_bytes: int
    exactness: Exactness
    #: Nodes of one family can stand in for each other: the GPU model, else the CPU model, else empty.
    family: str
    origins: Origins = Origins()
    #: What the sources disagree about, as sentences.
    conflicts: tuple[str, ...] = ()

    @property
    def cpu_max_watts(self) -> float:
        """Highest cap of all CPU packages together."""
        return self.cpu.sockets * self.cpu.max_watts_per_socket if self.cpu else 0.0

    @property
    def gpu_max_watts(self) -> float:
        """Highest cap of all GPUs together."""
        return self.gpu.count * self.gpu.max_watts if self.gpu else 0.0

    @property
    def tdp_watts(self) -> float:
        """Highest cap of all CPUs and GPUs together."""
        return self.cpu_max_watts + self.gpu_max_watts


_NOTHING: Final = Facts()
#: From best to worst.
_RANK: Final = (Exactness.EXACT, Exactness.PROXY, Exactness.GENERIC)
_CERTAINTY: Final = (Origin.SEEN, Origin.LABELLED, Origin.INFERRED)


def view_from_status(status: NodeHardwareStatus, inventory: Inventory) -> HardwareView:
    """Return the view of what the agent discovered."""
    return _view(facts_from_status(status, inventory), _NOTHING, inventory)


def view_from_node(
    node: Node, inventory: Inventory, gpu_product_label_keys: Sequence[str] = GPU_PRODUCT_KEYS
) -> HardwareView:
    """Return the view from labels and allocatable resources.

    Args:
        node: the node.
        inventory: the known models.
        gpu_product_label_keys: labels that may hold the GPU model, most trusted first.
    """
    return _view(_NOTHING, facts_from_node(node, inventory, gpu_product_label_keys), inventory)


def resolve_view(
    node: Node,
    status: NodeHardwareStatus | None,
    inventory: Inventory,
    gpu_product_label_keys: Sequence[str] = GPU_PRODUCT_KEYS,
) -> HardwareView:
    """Return the view of all that is known, the agent's discovery before the node's own description."""
    discovered = facts_from_status(status, inventory) if status else _NOTHING
    return _view(discovered, facts_from_node(node, inventory, gpu_product_label_keys), inventory)


@dataclass(frozen=True, slots=True)
class _Part(Generic[T]):
    """One subsystem; `view` is None where there is none."""

    view: T | None
    exactness: Exactness
    origin: Origin | None
    conflicts: tuple[str, ...] = ()


def _view(first: Facts, second: Facts, inventory: Inventory) -> HardwareView:
    cpu = _cpu(first.cpu, second.cpu, inventory)
    gpu = _gpu(first.gpu, second.gpu, inventory)
    memory = first if first.memory_bytes is not None else second
    return HardwareView(
        cpu=cpu.view,
        gpu=gpu.view,
        memory_bytes=memory.memory_bytes or 0,
        exactness=max(cpu.exactness, gpu.exactness, key=_RANK.index),
        family=gpu.view.model if gpu.view else cpu.view.model if cpu.view else "",
        origins=Origins(cpu.origin, gpu.origin, memory.memory_origin if memory.memory_bytes else None),
        conflicts=(*cpu.conflicts, *gpu.conflicts),
    )


def _cpu(first: CpuFacts, second: CpuFacts, inventory: Inventory) -> _Part[CpuView]:
    match = _better(first.match, second.match)
    spec = match.spec if match else inventory.generic_cpu(None)
    sockets = first.sockets or second.sockets
    threads = first.threads or second.threads
    cores = first.cores or second.cores or (math.ceil(threads / spec.threads_per_core) if threads else None)
    if cores is None and match is None:
        return _Part(None, Exactness.GENERIC, None)
    counted = _origin_of_count(first, second)
    view = _cpu_view(first, second, match, cores or spec.cores * (sockets or 1), spec)
    origin = _least_certain(_origin_of_match(match, first, second), counted)
    return _Part(view, match.exactness if match else Exactness.GENERIC, origin)


def _cpu_view(first: CpuFacts, second: CpuFacts, match: Match[CpuSpec] | None, cores: int, spec: CpuSpec) -> CpuView:
    max_watts = _known(first.max_watts, second.max_watts, spec.max_watts)
    return CpuView(
        model=match.model if match else spec.model,
        vendor=spec.vendor,
        sockets=first.sockets or second.sockets or math.ceil(cores / spec.cores),
        total_cores=cores,
        threads=_threads(first.threads, second.threads, cores),
        base_ghz=_known(first.base_ghz, second.base_ghz, spec.base_ghz),
        min_watts_per_socket=min(_known(first.min_watts, second.min_watts, spec.min_watts), max_watts),
        max_watts_per_socket=max_watts,
        spec=spec,
    )


def _threads(counted: float | None, allocatable: float | None, cores: int) -> int:
    """Return the node's hardware threads: as the machine counts them, else the most that there are for certain.

    Both what is allocatable to pods and the cores are lower bounds, and the fewer threads share the node's watts, the
    more each of them costs: an assumed count never makes a node freer. The model's threads per core would be a
    guess upwards, as hyper-threads are often switched off.
    """
    if counted:
        return math.ceil(counted)
    return max(cores, math.ceil(allocatable or 0))


def _gpu(first: GpuFacts, second: GpuFacts, inventory: Inventory) -> _Part[GpuView]:
    number = count_gpus(first, second)
    if not number.count:
        # No GPU is a fact, not a guess: it leaves the exactness to the CPU.
        return _Part(None, Exactness.EXACT, number.origin, number.conflicts)
    match = _better(first.match, second.match)
    spec = match.spec if match else inventory.generic_gpu(first.vendor or second.vendor)
    max_watts = _known(first.max_watts, second.max_watts, spec.max_watts)
    min_watts = min(_known(first.min_watts, second.min_watts, spec.min_watts), max_watts)
    default_watts = _known(first.default_watts, second.default_watts, spec.default_watts)
    view = GpuView(
        model=match.model if match else spec.model,
        vendor=spec.vendor,
        count=number.count,
        min_watts=min_watts,
        max_watts=max_watts,
        default_watts=min(max(default_watts, min_watts), max_watts),
        spec=spec,
        names=tuple(dict.fromkeys((*_names(first, spec), *_names(second, spec)))),
        max_is_known=bool(first.max_watts or second.max_watts or (match and match.exactness is not Exactness.GENERIC)),
    )
    origin = _least_certain(_origin_of_match(match, first, second), number.origin)
    return _Part(view, match.exactness if match else Exactness.GENERIC, origin, number.conflicts)


def _names(facts: GpuFacts, spec: GpuSpec) -> tuple[str, ...]:
    """Return what a source calls the model; nothing if it speaks of another one, as an old label may."""
    match = facts.match
    other = match is not None and match.exactness is not Exactness.GENERIC and match.spec.key != spec.key
    return () if other else facts.names


def _origin_of_match(match: Match[Spec] | None, first: CpuFacts | GpuFacts, second: CpuFacts | GpuFacts) -> Origin:
    """Return who named the model; a model of which only the vendor is recognised is a guess."""
    if match is None or match.exactness is Exactness.GENERIC:
        return Origin.INFERRED
    return first.origin if match is first.match else second.origin


def _origin_of_count(first: CpuFacts, second: CpuFacts) -> Origin:
    if first.cores or first.threads:
        return first.origin
    return second.origin if second.cores or second.threads else Origin.INFERRED


def _least_certain(*origins: Origin | None) -> Origin:
    return max((origin or Origin.INFERRED for origin in origins), key=_CERTAINTY.index)


def _better(first: Match[Spec] | None, second: Match[Spec] | None) -> Match[Spec] | None:
    """Return the first source's match, unless only the second one recognises more than the vendor.

    A name of another segment is recognised well enough: servers share their CPUID with desktops.
    """
    if first is None or second is None:
        return first or second
    vague = first.exactness is Exactness.GENERIC and not first.other_segment
    return second if vague and second.exactness is not Exactness.GENERIC else first


def _known(first: T | None, second: T | None, default: T) -> T:
    if first is not None:
        return first
    return second if second is not None else default
