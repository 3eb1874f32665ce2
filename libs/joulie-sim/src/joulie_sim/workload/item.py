"""One pod of a workload: arrival, requests and work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joulie_core.demand import WorkloadClass
from joulie_core.labels import WORKLOAD_CLASS
from joulie_core.power.draw import WorkKind
from joulie_sim.annotations import CPU_UTILIZATION, DURATION, GPU_UTILIZATION

NVIDIA_GPU: Final = "nvidia.com/gpu"
#: Label of every pod of a workload, so that they can be watched and deleted together.
WORKLOAD_LABEL: Final = "sim.joulie.io/workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One pod. Times are simulated seconds; `arrives_s` counts from the start of the workload."""

    name: str
    arrives_s: float
    workload_class: WorkloadClass
    cpu_milli: int
    memory_mib: int
    #: Whole GPUs, and the extended resource that they are requested by.
    gpus: int = 0
    gpu_resource: str = NVIDIA_GPU
    #: Seconds on the reference model at full speed.
    work_s: float
    cpu_utilization: float
    gpu_utilization: float = 0.0
    #: What the work on CPUs waits for; the live simulator takes all of it for `compute`.
    kind: WorkKind = WorkKind.COMPUTE


def pod_manifest(item: WorkItem, *, workload: str, spec: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the Pod of an item; `workload` is the value of its workload label, `spec` is added to the pod's."""
    resources: dict[str, str] = {"cpu": f"{item.cpu_milli}m", "memory": f"{item.memory_mib}Mi"}
    if item.gpus:
        resources[item.gpu_resource] = str(item.gpus)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": item.name,
            "labels": {WORKLOAD_LABEL: workload},
            "annotations": {
                WORKLOAD_CLASS: item.workload_class.value,
                DURATION: f"{item.work_s:.3f}",
                CPU_UTILIZATION: f"{item.cpu_utilization:.3f}",
                GPU_UTILIZATION: f"{item.gpu_utilization:.3f}",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "work",
                    "image": "joulie.invalid/work",
                    "resources": {"requests": resources, "limits": resources},
                }
            ],
            **(spec or {}),
        },
    }
