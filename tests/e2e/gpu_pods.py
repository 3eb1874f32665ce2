"""Pods on GPUs whose driver is a file: how a node offers the GPUs, and containers that copy the file as they start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.e2e.container_node import CONTAINER
from tests.e2e.device_plugin import GPU_INDEX
from tests.e2e.dra_driver import DRIVER

from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE

WHOLE: Final = "nvidia.com/gpu"
SHARED: Final = "nvidia.com/gpu.shared"
PARTITION: Final = "nvidia.com/mig-3g.40gb"
#: GPUs by the resource that offers them, and how a plugin names the parts of one.
LAYOUT: Final[Mapping[str, tuple[range, tuple[str, ...]]]] = {
    WHOLE: (range(12), ("GPU-{}",)),
    SHARED: (range(12, 15), ("GPU-{}::0", "GPU-{}::1")),
    # As drivers before R470 name them; a later one has to be asked which GPU a partition is of.
    PARTITION: (range(15, 18), ("MIG-GPU-{}/1/0", "MIG-GPU-{}/2/0")),
}
#: The device class of claims, and the GPUs of its driver.
CLAIMED: Final = DRIVER
CLAIMED_GPUS: Final = range(18, 21)
GPUS: Final = CLAIMED_GPUS.stop
_CLAIM: Final = "gpu"
#: Names in the pods: of the template of claims, and of the volume with the file of the driver.
TEMPLATE: Final = "one-gpu"
DRIVER_VOLUME: Final = "driver"

#: GPUs that are handed over one after the other, beside those of the other lanes, by their resource. With more at once,
#: starts delay each other so much that the agent's poll is ahead of the start hook, which is to be tested.
LANES: Final[Mapping[str, tuple[range, ...]]] = {
    WHOLE: (range(4), range(4, 8), range(8, 12)),
    SHARED: (LAYOUT[SHARED][0],),
    PARTITION: (LAYOUT[PARTITION][0],),
    CLAIMED: (CLAIMED_GPUS,),
}

STANDARD: Final = {MAX_SLOWDOWN: "10%"}
PERFORMANCE: Final = {WORKLOAD_CLASS: "performance"}
#: The end of the script of a container that goes on.
STAYS: Final = "exec sleep 100000"
_MOUNT: Final = "/driver"
#: Copies the file of the driver; the copy appears at once, and `$1` is the name of the pod.
_RECORD: Final = f"cp {_MOUNT}/gpus {_MOUNT}/seen/.$1 && mv {_MOUNT}/seen/.$1 {_MOUNT}/seen/$1@${GPU_INDEX}"


@dataclass(frozen=True, slots=True)
class Started:
    """A container that has started, as the observers have seen it.

    Attributes:
        pod: name of its pod.
        gpu: index of its GPU.
        assigned_mhz: clock to which its GPU was held when the kubelet assigned it; 0 for none.
        lock_mhz: highest clock to which its GPU was held when runc created it, and when its first process ran; 0 for
            none.
        creation_ms: time that containerd took for CreateContainer.
    """

    pod: str
    gpu: int
    assigned_mhz: int
    lock_mhz: int
    creation_ms: float


def resource_of(gpu: int) -> str:
    """Return the resource that offers a GPU, or the device class of claims for it."""
    return next(name for name, lanes in LANES.items() if any(gpu in lane for lane in lanes))


def pod_on_gpu(name: str, resource: str, then: str = "true", *, claim: str = "") -> dict[str, Any]:
    """Return the spec of a pod of one container with a GPU, by a claim that there is if it is named."""
    if resource != CLAIMED:
        return {"containers": [container(name, {"limits": {resource: "1"}}, then)]}
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": TEMPLATE}
    return {
        "containers": [container(name, {"claims": [{"name": _CLAIM}]}, then)],
        "resourceClaims": [{"name": _CLAIM, **source}],
    }


def container(record: str, resources: Mapping[str, Any], then: str = "true") -> dict[str, Any]:
    """Return a container whose first process copies the file of the driver."""
    return {
        "name": CONTAINER,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{_RECORD} && {then}", "sh", record],
        "volumeMounts": [{"name": DRIVER_VOLUME, "mountPath": _MOUNT}],
        "resources": dict(resources),
    }
