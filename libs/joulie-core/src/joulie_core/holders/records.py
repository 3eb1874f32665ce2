"""Records of a node's devices and of the pods on it: the kubelet's answer, pods, ResourceSlices and GPUs.

Values only. Their readers have bounded their number and the length of each text.
Source: Kubernetes, k8s.io/kubelet/pkg/apis/podresources/v1; resource.k8s.io/v1, ResourceSlice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from joulie_core.attribution.owners import workload_of
from joulie_core.demand import WorkloadClass, unknown_annotation, workload_class
from joulie_core.holders.vendors import vendor_of
from joulie_core.labels import MAX_SLOWDOWN, MIRROR
from joulie_core.pod import Pod
from joulie_core.powerest.pod_demand import gpu_resources, requested
from joulie_core.quantity import QuantityError
from joulie_core.timestamps import epoch_seconds

#: Time without contact with the API server after which the pods of a node are not known; see `Reflector.is_stale`.
PODS_TOLERANCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device of a device plugin, as the kubelet lists it."""

    #: The extended resource, such as `nvidia.com/gpu`.
    resource: str
    device_id: str


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device of a claim. CDI names are left out: the kubelet repeats those of other devices."""

    driver: str
    pool: str
    device: str
    #: Of a device that several claims share; None for any other.
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """A container that the kubelet lists: no init container that ends, and no ephemeral one, ever is."""

    name: str
    devices: tuple[PluginDevice, ...] = ()
    claimed: tuple[ClaimedDevice, ...] = ()
    #: Names of its claims, in the namespace of the pod.
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod that the kubelet lists. It has no UID: an earlier pod may have had the name."""

    namespace: str
    name: str
    containers: tuple[ListedContainer, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class HolderReason(StrEnum):
    """Reason why a device is held as it is: of the status, of `kubectl joulie devices` and of the log."""

    #: Every holder is a standard pod.
    ALL_STANDARD = "AllStandard"
    PERFORMANCE_POD = "PerformancePod"
    #: No pod holds the device and no process uses it.
    NOT_HELD = "NotHeld"
    #: No pod holds the device; processes outside of pods were not looked for.
    NO_POD = "NoPod"
    OUTSIDE_PROCESS = "OutsideProcess"
    #: Which processes use the device was looked for, and is not known.
    PROCESSES_UNKNOWN = "ProcessesUnknown"
    #: A pod's class annotation is neither performance nor standard.
    CLASS_UNKNOWN = "ClassUnknown"
    #: The kubelet lists a pod that the API server does not have on this node.
    POD_UNKNOWN = "PodUnknown"
    #: What the kubelet lists may be of an earlier pod of the name.
    POD_TOO_NEW = "PodTooNew"
    #: The kubelet lists several pods of one name.
    SAME_NAME = "SameName"
    #: A pod requests more than is listed for it.
    NOT_LISTED = "NotListed"
    #: A pod holds a GPU that was not found on the node.
    DEVICE_UNKNOWN = "DeviceUnknown"
    #: There is no process that asks the kubelet, or it does not answer.
    NO_READER = "NoReader"
    KUBELET_SILENT = "KubeletSilent"
    KUBELET_LATE = "KubeletLate"
    KUBELET_REFUSED = "KubeletRefused"
    ANSWER_TOO_LARGE = "AnswerTooLarge"
    ANSWER_MALFORMED = "AnswerMalformed"
    #: The last answer is not current.
    ANSWER_OLD = "AnswerOld"
    #: The API server has not listed the node's pods or ResourceSlices yet.
    PODS_NOT_READ = "PodsNotRead"


@dataclass(frozen=True, slots=True)
class DeviceListing:
    """One answer of the kubelet."""

    pods: tuple[ListedPod, ...]
    #: Clock of the node at the moment before the request, in seconds since the epoch.
    asked_at_s: float


@dataclass(frozen=True, slots=True)
class NoListing:
    """Reason why there is no current answer."""

    reason: HolderReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceUsers:
    """Users of one device, by its driver's list of processes."""

    #: UIDs of the pods of the processes, as their cgroups have them.
    pods: frozenset[str] = frozenset()
    #: A process that is in no pod; None without one.
    outside_pid: int | None = None
    #: Why it is not known; empty where it is.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod of the node as the API server has it, as far as holders and energy depend on it."""

    namespace: str
    name: str
    uid: str
    #: Neither Succeeded nor Failed: one that is being deleted counts until its containers have ended.
    active: bool
    #: None where its annotation is neither performance nor standard.
    workload_class: WorkloadClass | None
    #: When the kubelet accepted it, in seconds since the epoch by the node's clock; None before.
    started_at_s: float | None = None
    #: GPUs, partitions and shares that it requests by extended resources, by vendor; under "" of any vendor.
    units: Mapping[str, int] = field(default_factory=dict)
    #: Names of its claims; None for one that has not been made yet.
    claims: tuple[str | None, ...] = ()
    #: Whether a request could not be read.
    unreadable: bool = False
    #: Its workload, as `joulie_core.attribution.owners` names it.
    workload: str = ""
    #: What its cgroup has for its UID: of a static pod another one than the API server's.
    cgroup_uid: str = ""
    #: Its annotation of the slowdown that it allows, as written; None without one.
    max_slowdown: str | None = None
    #: Whether its phase is Running: all its containers were made, and one runs.
    running: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def may_have_gpus(self) -> bool:
        """Whether it is not certain that it requests no GPU."""
        return self.unreadable or bool(self.claims) or bool(self.units)


def node_pod(pod: Pod, kind: str = "", controller: str = "") -> NodePod:
    """Return what holders and energy depend on; a start that is no time is not known.

    Args:
        pod: the pod.
        kind: kind of its controller; empty without one.
        controller: name of its controller.
    """
    units: dict[str, int] = {}
    unreadable = False
    for name in gpu_resources(pod):
        vendor = vendor_of(name)
        try:
            units[vendor] = units.get(vendor, 0) + int(requested(pod, name))
        except (QuantityError, ArithmeticError, ValueError):
            unreadable = True
    return NodePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        active=pod.active,
        workload_class=None if unknown_annotation(pod) is not None else workload_class(pod),
        started_at_s=epoch_seconds(pod.start_time),
        units=units,
        claims=tuple(each.claim for each in pod.claims),
        unreadable=unreadable,
        workload=workload_of(pod.name, kind, controller, pod.labels),
        cgroup_uid=pod.annotations.get(MIRROR, pod.uid),
        max_slowdown=pod.annotations.get(MAX_SLOWDOWN),
        running=pod.phase == "Running",
    )


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """One device of a ResourceSlice."""

    driver: str
    pool: str
    #: Of the pool: slices of earlier generations are outdated.
    generation: int
    device: str
    #: Attributes that are texts, by their name without a domain.
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """A physical GPU of the node; empty and None are not known."""

    uuid: str
    vendor: str
    index: int = 0
    #: As `0000:c1:00.0`.
    pci_address: str = ""
    #: Of the device file, /dev/nvidia<minor>.
    minor: int | None = None
    #: UUIDs of MIG devices, or names of partitions.
    partitions: tuple[str, ...] = ()
    #: Whether it is cut into partitions; None where it cannot be, or that is not known.
    partitioned: bool | None = None
