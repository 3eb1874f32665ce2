"""KWOK node classes for the nodes of the openb trace.

The trace has GPU models (two of them anonymized, G2 and G3) and numbers of hardware threads, but no CPU models. Assumed
here: G2, eight in a machine of 96 threads, is an A10, G3 an A100; CPUs are Xeons and EPYCs of the inventory with
matching numbers of cores.
"""

from collections.abc import Sequence
from typing import Final

from joulie_devcluster.control_plane.nodes import CpuClass, GpuClass, NodeClass
from joulie_sim.workload.openb import NodeGroup

_GPU_MODELS: Final = {
    "A10": "NVIDIA-A10",
    "G2": "NVIDIA-A10",
    "G3": "NVIDIA-A100-SXM4-80GB",
    "P100": "NVIDIA-P100-PCIE",
    "T4": "NVIDIA-T4",
    "V100M16": "NVIDIA-V100-SXM2-16GB",
    "V100M32": "NVIDIA-V100-SXM2-32GB",
}
#: CPU model and sockets by maximum of thousandths of hardware threads; the last applies to all larger nodes too.
_CPU_MODELS: Final = (
    (16_000, "Intel-Xeon-Gold-6334", 1),
    (32_000, "Intel-Xeon-Gold-6326", 1),
    (64_000, "Intel-Xeon-Platinum-8358", 1),
    (96_000, "Intel-Xeon-Gold-6342", 2),
    (104_000, "Intel-Xeon-Gold-6348", 2),
    (128_000, "AMD-EPYC-7543", 2),
)
_MILLI: Final = 1000
_THREADS_PER_CORE: Final = 2


def node_classes(groups: Sequence[NodeGroup]) -> tuple[NodeClass, ...]:
    """Return the node classes of a scaled trace, named by their hardware."""
    return tuple(_node_class(group) for group in groups)


def _node_class(group: NodeGroup) -> NodeClass:
    threads = group.cpu_milli // _MILLI
    gpu_name = f"{group.gpu_model.lower()}x{group.gpus}" if group.gpus else "cpu"
    model, sockets = _cpu_model(group.cpu_milli)
    return NodeClass(
        name=f"{gpu_name}-{threads}t-{group.memory_mib // 1024}g",
        count=group.count,
        cpu=CpuClass(
            model=model, sockets=sockets, cores=max(1, threads // _THREADS_PER_CORE), threads_per_core=_THREADS_PER_CORE
        ),
        gpu=GpuClass(model=_GPU_MODELS.get(group.gpu_model, f"NVIDIA-{group.gpu_model}"), count=group.gpus)
        if group.gpus
        else None,
        memory=f"{group.memory_mib}Mi",
        racks=("r1", "r2", "r3", "r4"),
    )


def _cpu_model(cpu_milli: int) -> tuple[str, int]:
    for at_most, model, sockets in _CPU_MODELS:
        if cpu_milli <= at_most:
            return model, sockets
    _, model, sockets = _CPU_MODELS[-1]
    return model, sockets
