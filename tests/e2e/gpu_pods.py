"""Pods on GPUs whose driver is a file: how a node offers the GPUs, and containers that copy the file as they start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.agent.tests.class_limits.stub_gpus import AMD, AMD_BUS, NVIDIA, StubVendor
from tests.e2e.container_node import CONTAINER
from tests.e2e.device_plugin import GPU_INDEX
from tests.e2e.dra_driver import DRIVER

from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_devcluster.containers.oci import BUSYBOX_IMAGE

#: The device class of claims.
CLAIMED: Final = DRIVER
_CLAIM: Final = "gpu"
#: Names in the pods: of the template of claims, and of the volume with the file of the driver.
TEMPLATE: Final = "one-gpu"
DRIVER_VOLUME: Final = "driver"


@dataclass(frozen=True, slots=True)
class OfferedGpus:
    """GPUs that a device plugin offers by one resource.

    Attributes:
        gpus: their indices.
        parts: names of the parts of one, of which the plugin gives one to a pod; `{}` is the index.
        pods: how many GPUs each of the pods of a round of hand-overs has, or parts of so many; together all of them.
    """

    gpus: range
    parts: tuple[str, ...]
    pods: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether a pod that has one has all of it."""
        return len(self.parts) == 1


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """The GPUs of a node.

    Attributes:
        vendor: of all of them.
        offered: by resource.
        claimed: those of a driver of claims.
    """

    vendor: StubVendor
    offered: Mapping[str, OfferedGpus]
    claimed: range

    @property
    def count(self) -> int:
        """How many there are."""
        return self.claimed.stop

    def resource_of(self, gpu: int) -> str:
        """Return the resource that offers a GPU, or the device class of claims for it."""
        return next((name for name, each in self.offered.items() if gpu in each.gpus), CLAIMED)


WHOLE: Final = "nvidia.com/gpu"
SHARED: Final = "nvidia.com/gpu.shared"
PARTITION: Final = "nvidia.com/mig-3g.40gb"
# As drivers before R470 name partitions; a later one has to be asked which GPU a partition is of.
_WHOLE_PARTS: Final = ("GPU-{}",)
_SHARED_PARTS: Final = ("GPU-{}::0", "GPU-{}::1")
_PARTITION_PARTS: Final = ("MIG-GPU-{}/1/0", "MIG-GPU-{}/2/0")
NVIDIA_GPUS: Final = GpuLayout(
    NVIDIA,
    {
        WHOLE: OfferedGpus(range(3), _WHOLE_PARTS, (1, 1, 1)),
        SHARED: OfferedGpus(range(3, 6), _SHARED_PARTS, (1, 1, 1)),
        PARTITION: OfferedGpus(range(6, 9), _PARTITION_PARTS, (1, 1, 1)),
    },
    range(9, 12),
)
_EIGHTS: Final = (8, 8, 8)
#: Few pods with many GPUs: while pods wait for the kubelet, the agent's poll lifts limits, and each start takes a third
#: of a second of CPU.
MANY_NVIDIA_GPUS: Final = GpuLayout(
    NVIDIA,
    {
        WHOLE: OfferedGpus(range(32), _WHOLE_PARTS, (*_EIGHTS, 8)),
        SHARED: OfferedGpus(range(32, 56), _SHARED_PARTS, _EIGHTS),
        PARTITION: OfferedGpus(range(56, 80), _PARTITION_PARTS, _EIGHTS),
    },
    range(80, 80),
)
AMD_WHOLE: Final = "amd.com/gpu"
AMD_PARTITION: Final = "amd.com/cpx_nps1"
#: Of a first partition the name is the address of the GPU, as that of a whole GPU.
_AMD_ADDRESS: Final = f"0000:{AMD_BUS >> 4:x}{{:x}}:00.0"
AMD_GPUS: Final = GpuLayout(
    AMD,
    {
        AMD_WHOLE: OfferedGpus(range(6), (_AMD_ADDRESS,), (1, 1, 1, 1, 2)),
        AMD_PARTITION: OfferedGpus(range(6, 10), (_AMD_ADDRESS, "amdgpu_xcp_{}"), (1, 1, 2)),
    },
    range(10, 10),
)

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
        gpus: indices of its GPUs.
        handed_over: those of them that were limited when the kubelet assigned them.
        lock_mhz: highest clock to which one of them was held when runc created it, and when its first process ran; 0
            for none.
        creation_ms: time that containerd took for CreateContainer.
    """

    pod: str
    gpus: tuple[int, ...]
    handed_over: tuple[int, ...]
    lock_mhz: int
    creation_ms: float

    @property
    def gpu(self) -> int:
        """The GPU of a container that has one.

        Raises:
            ValueError: it has several.
        """
        (gpu,) = self.gpus
        return gpu


def pod_on_gpus(name: str, resource: str, then: str = "true", *, gpus: int = 1, claim: str = "") -> dict[str, Any]:
    """Return the spec of a pod of one container with GPUs, or with one by a claim: a new one unless it is named."""
    if resource != CLAIMED:
        return {"containers": [container(name, {"limits": {resource: str(gpus)}}, then)]}
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
