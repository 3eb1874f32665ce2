"""A generated workload: the same seed and parameters give the same pods.

The numbers of pods, performance and standard, with and without GPUs, are exact; arrivals are random over a window. The
sizes are those of a mixed batch cluster (CPU pods of a fraction of a node, mostly single GPUs), not of a published
trace.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.load import Capacity, DurationBounds, fit_durations

#: Size of CPU pods over that of a node, and their weights.
_NODE_SHARES: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
_NODE_SHARE_WEIGHTS: Final = (2, 3, 4, 2)
_CORES_PER_GPU: Final = 4
_GPUS: Final = (1, 2, 4)
_GPU_WEIGHTS: Final = (7, 2, 1)
#: Spread of work: a log-normal sigma of 0.8 puts a tenth of the pods beyond 2.8 times the median.
_WORK_SIGMA: Final = 0.8
_MEMORY_MIB_PER_CORE: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Parameters of a generated workload.

    `cpu_milli` is the CPU of the whole cluster and `node_cpu_milli` that of the node that CPU pods are sized for;
    `gpu_resources` is the number of GPUs by resource name. `performance_share` of the pods are performance pods,
    `gpu_share` request GPUs, of each vendor by its share of the cluster. `cpu_load` is the share of the cluster's CPUs
    that pods without GPUs would occupy over the window at full speed, `gpu_load` the share of its GPUs that the others
    would. No pod has more work than `longest_s`; None: half of the window.
    """

    pods: int
    window_s: float
    cpu_milli: int
    node_cpu_milli: int
    gpu_resources: Mapping[str, int]
    performance_share: float = 0.35
    gpu_share: float = 0.4
    cpu_load: float = 0.4
    gpu_load: float = 0.5
    longest_s: float | None = None


def generate(mix: Mix, *, seed: int) -> tuple[WorkItem, ...]:
    """Return the workload, in order of arrival."""
    # Must be reproducible, not cryptographically secure.
    random_source = random.Random(seed)  # noqa: S311
    arrivals = sorted(random_source.uniform(0.0, mix.window_s) for _ in range(mix.pods))
    classes = _shuffled(random_source, mix.pods, mix.performance_share)
    with_gpus = _shuffled(random_source, mix.pods, mix.gpu_share if mix.gpu_resources else 0.0)
    items = [
        _item(random_source, mix, index=index, arrives_s=arrives_s, performance=classes[index], gpu=with_gpus[index])
        for index, arrives_s in enumerate(arrivals)
    ]
    bounds = DurationBounds(longest_s=max(10.0, mix.window_s / 2) if mix.longest_s is None else mix.longest_s)
    gpus = sum(mix.gpu_resources.values())
    fitted = [
        *fit_durations(
            [item for item in items if not item.gpus],
            capacity=Capacity(mix.cpu_milli, 0),
            window_s=mix.window_s,
            load=mix.cpu_load,
            bounds=bounds,
        ),
        *fit_durations(
            [item for item in items if item.gpus],
            capacity=Capacity(mix.cpu_milli, gpus),
            window_s=mix.window_s,
            load=mix.gpu_load,
            bounds=bounds,
        ),
    ]
    return tuple(sorted(fitted, key=lambda item: item.arrives_s))


def _shuffled(random_source: random.Random, count: int, share: float) -> list[bool]:
    """Return `count` values in random order of which exactly `share` are True."""
    chosen = [index < round(count * share) for index in range(count)]
    random_source.shuffle(chosen)
    return chosen


def _item(
    random_source: random.Random, mix: Mix, *, index: int, arrives_s: float, performance: bool, gpu: bool
) -> WorkItem:
    share = random_source.choices(_NODE_SHARES, _NODE_SHARE_WEIGHTS)[0]
    cores = max(1, round(share * mix.node_cpu_milli / 1000))
    gpus, resource = 0, ""
    if gpu:
        resources = sorted(mix.gpu_resources)
        resource = random_source.choices(resources, [mix.gpu_resources[name] for name in resources])[0]
        gpus = random_source.choices(_GPUS, _GPU_WEIGHTS)[0]
        cores = _CORES_PER_GPU * gpus
    return WorkItem(
        name=f"work-{index:04d}",
        arrives_s=arrives_s,
        workload_class=WorkloadClass.PERFORMANCE if performance else WorkloadClass.STANDARD,
        cpu_milli=1000 * cores,
        memory_mib=_MEMORY_MIB_PER_CORE * cores,
        gpus=gpus,
        gpu_resource=resource,
        work_s=random_source.lognormvariate(0.0, _WORK_SIGMA),
        cpu_utilization=random_source.uniform(0.3, 0.6) if gpu else random_source.uniform(0.6, 1.0),
        gpu_utilization=random_source.uniform(0.6, 1.0) if gpu else 0.0,
    )
