"""Holders of a node's GPUs: the kubelet's answer, joined with the pods of the API server.

Guarantees that a GPU is `standard` only if everything that may hold it is known to be a standard pod. What is missing
in an answer makes a GPU unknown and never free: a pod that is not known, one that may be another than the one of its
name, one that requests more than is listed for it, and a device that leads to no GPU.

Does not know of processes outside of pods but what it is told, nor of a container that reaches a GPU without having
requested one, as privileged containers can.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.held_as import HeldAs
from joulie_core.holders.devices import GpuIndex, OfGpu, OfSomeGpu, Traced, vendor_of_claim
from joulie_core.holders.records import (
    DeviceListing,
    DeviceUsers,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodeGpu,
    NodePod,
    NoListing,
    SliceDevice,
)
from joulie_core.holders.vendors import ANY_VENDOR, vendor_of

#: `status.startTime` is cut to seconds.
START_RESOLUTION_S: Final = 1.0


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """A container that holds a device."""

    namespace: str
    pod: str
    container: str
    #: None where it is not known.
    workload_class: WorkloadClass | None = None
    #: Of the pod of that name; empty where it is not certain that it is this one.
    uid: str = ""


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A GPU and what holds it."""

    uuid: str
    index: int
    held_as: HeldAs
    reason: HolderReason
    #: Details for people; empty where the reason says it all.
    message: str = ""
    #: In the order of their names.
    holders: tuple[Holder, ...] = ()
    #: Whether nothing else may hold it than those, by what the kubelet lists and what is known of processes.
    complete: bool = False

    @property
    def pods(self) -> frozenset[str] | None:
        """UIDs of the pods that hold it; None where they are not certain."""
        uids = frozenset(holder.uid for holder in self.holders)
        return uids if self.complete and "" not in uids else None


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods of a node and its ResourceSlices, as the API server has them."""

    pods: Mapping[str, NodePod]
    slices: tuple[SliceDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Claimant:
    """A container, or a pod, that holds a GPU, or may hold any of a vendor."""

    holder: Holder
    #: Why its class is not known, or why it is not known what it holds.
    reason: HolderReason
    message: str = ""

    @property
    def pod(self) -> tuple[str, str]:
        return self.holder.namespace, self.holder.pod


def held_devices(
    listing: DeviceListing | NoListing,
    pods: NodePods | None,
    gpus: Sequence[NodeGpu],
    users: Mapping[str, DeviceUsers] | None = None,
) -> tuple[HeldDevice, ...]:
    """Return what holds each GPU, in the order of `gpus`.

    Args:
        listing: the kubelet's answer, or why there is none.
        pods: what the API server has of the node; None before it was read.
        gpus: the physical GPUs of the node.
        users: what uses each GPU, by UUID; None where that was not looked for.
    """
    if isinstance(listing, NoListing):
        return _all_unknown(gpus, listing.reason, listing.message)
    if pods is None:
        return _all_unknown(gpus, HolderReason.PODS_NOT_READ)
    found = _Claims(listing, pods, GpuIndex(gpus, pods.slices))
    known = {uid for pod in pods.pods.values() if pod.active for uid in (pod.uid, pod.cgroup_uid)}
    return tuple(
        _judged(
            gpu,
            found.of(gpu.uuid),
            found.perhaps_of(gpu),
            _used(gpu.uuid, users, known),
            looked=users is not None,
        )
        for gpu in gpus
    )


@dataclass(frozen=True, slots=True)
class _Used:
    """Meaning of processes outside of pods for a GPU."""

    held_as: HeldAs
    reason: HolderReason
    message: str


def _used(uuid: str, users: Mapping[str, DeviceUsers] | None, known: Collection[str]) -> _Used | None:
    """Return what processes outside of the known pods make of a GPU; None where there are none.

    Args:
        uuid: of the GPU.
        users: as of `held_devices`.
        known: UIDs of the active pods of the node.
    """
    if users is None:
        return None
    found = users.get(uuid, DeviceUsers(problem="the driver has not listed its processes"))
    if found.outside_pid is not None:
        return _Used(HeldAs.OUTSIDE, HolderReason.OUTSIDE_PROCESS, f"process {found.outside_pid}")
    ended = sorted(found.pods - {*known})
    if ended:
        return _Used(
            HeldAs.OUTSIDE, HolderReason.OUTSIDE_PROCESS, f"a process of pod {ended[0]}, which is not on the node"
        )
    if found.problem:
        return _Used(HeldAs.UNKNOWN, HolderReason.PROCESSES_UNKNOWN, found.problem)
    return None


def _all_unknown(gpus: Iterable[NodeGpu], reason: HolderReason, message: str = "") -> tuple[HeldDevice, ...]:
    return tuple(HeldDevice(gpu.uuid, gpu.index, HeldAs.UNKNOWN, reason, message) for gpu in gpus)


class _Claims:
    """Holders of each GPU, and pods that may hold one that is not known."""

    def __init__(self, listing: DeviceListing, pods: NodePods, index: GpuIndex) -> None:
        self._asked_at_s = listing.asked_at_s
        self._pods = pods.pods
        self._index = index
        self._names = Counter(each.key for each in listing.pods)
        self._certain: dict[str, dict[Holder, _Claimant]] = {}
        #: GPUs that a device plugin has given to a single pod.
        self._exclusive: dict[str, tuple[str, str]] = {}
        #: By vendor.
        self._perhaps: dict[str, list[_Claimant]] = {}
        for listed in listing.pods:
            self._take(listed)
        self._take_unlisted(listing.pods)

    def of(self, uuid: str) -> Sequence[_Claimant]:
        """Return what holds a GPU."""
        return tuple(self._certain.get(uuid, {}).values())

    def perhaps_of(self, gpu: NodeGpu) -> Sequence[_Claimant]:
        """Return what may hold a GPU besides; nothing but the pod that has it, where a plugin gave it exclusively."""
        found = (*self._perhaps.get(gpu.vendor, ()), *self._perhaps.get(ANY_VENDOR, ()))
        owner = self._exclusive.get(gpu.uuid)
        return found if owner is None else tuple(each for each in found if each.pod == owner)

    def _take(self, listed: ListedPod) -> None:
        pod = self._pods.get(listed.key)
        if pod is not None and not pod.active and self._names[listed.key] == 1:
            return
        workload_class, reason = self._class_of(listed, pod)
        for container in listed.containers:
            uid = pod.uid if pod is not None and reason is HolderReason.CLASS_UNKNOWN else ""
            holder = Holder(listed.namespace, listed.name, container.name, workload_class, uid)
            for name, traced in traced_devices(container, self._index):
                self._hold(holder, reason, name, traced)

    def _hold(self, holder: Holder, reason: HolderReason, name: str, traced: Traced) -> None:
        match traced:
            case OfGpu(uuid=uuid, exclusive=exclusive):
                self._certain.setdefault(uuid, {})[holder] = _Claimant(holder, reason)
                if exclusive:
                    self._exclusive[uuid] = holder.namespace, holder.pod
            case OfSomeGpu(vendor=vendor):
                message = f"{_named(holder)} holds {name}, which is no GPU that was found on the node"
                claimant = _Claimant(holder, HolderReason.DEVICE_UNKNOWN, message)
                self._perhaps.setdefault(vendor, []).append(claimant)
            case None:
                return

    def _class_of(self, listed: ListedPod, pod: NodePod | None) -> tuple[WorkloadClass | None, HolderReason]:
        """Return the class of a listed pod, or None and the reason why it is not known."""
        if self._names[listed.key] > 1:
            return None, HolderReason.SAME_NAME
        if pod is None:
            return None, HolderReason.POD_UNKNOWN
        if pod.started_at_s is None or pod.started_at_s + START_RESOLUTION_S > self._asked_at_s:
            return None, HolderReason.POD_TOO_NEW
        return pod.workload_class, HolderReason.CLASS_UNKNOWN

    def _take_unlisted(self, listed: Sequence[ListedPod]) -> None:
        containers: dict[str, list[ListedContainer]] = {}
        for each in listed:
            containers.setdefault(each.key, []).extend(each.containers)
        for key, pod in self._pods.items():
            if not pod.active:
                continue
            for vendor in lacking(pod, containers.get(key, ())):
                holder = Holder(pod.namespace, pod.name, "", pod.workload_class)
                message = f"{_named(holder)} requests GPUs that the kubelet does not list for it"
                claimant = _Claimant(holder, HolderReason.NOT_LISTED, message)
                self._perhaps.setdefault(vendor, []).append(claimant)


def traced_devices(container: ListedContainer, index: GpuIndex) -> Iterable[tuple[str, Traced]]:
    """Return each device of a container once, with the GPU that it leads to."""
    for device in dict.fromkeys(container.devices):
        yield f"{device.resource} {device.device_id}", index.of_plugin(device)
    for claimed in dict.fromkeys(container.claimed):
        yield f"{claimed.driver} {claimed.device}", index.of_claim(claimed)


def lacking(pod: NodePod, containers: Iterable[ListedContainer]) -> frozenset[str]:
    """Return the vendors of which a pod has, or is about to get, devices that the kubelet does not list."""
    listed = tuple(containers)
    named = {name for container in listed for name in container.claims}
    if pod.unreadable or any(claim not in named for claim in pod.claims):
        return frozenset({ANY_VENDOR})
    plugin_devices = {device for container in listed for device in container.devices}
    claimed = {device for container in listed for device in container.claimed}
    found = Counter(vendor_of(device.resource) for device in plugin_devices)
    # Resources that a device class serves are listed as claims.
    found.update(vendor for device in claimed if (vendor := vendor_of_claim(device)) is not None)
    lacking = {vendor for vendor, units in pod.units.items() if vendor != ANY_VENDOR and units > found[vendor]}
    if pod.units.get(ANY_VENDOR) and sum(pod.units.values()) > found.total():
        lacking.add(ANY_VENDOR)
    return frozenset(lacking)


def _judged(
    gpu: NodeGpu, certain: Sequence[_Claimant], perhaps: Sequence[_Claimant], used: _Used | None, *, looked: bool
) -> HeldDevice:
    """Return as what a GPU is held; the first that applies, from the most certain reason against a limit."""
    holders = tuple(sorted((each.holder for each in certain), key=_order))

    pods = {each.pod for each in certain}
    outside = used is not None and used.held_as is HeldAs.OUTSIDE
    complete = not outside and all(each.pod in pods for each in perhaps)

    def held(held_as: HeldAs, reason: HolderReason, message: str = "") -> HeldDevice:
        return HeldDevice(gpu.uuid, gpu.index, held_as, reason, message, holders, complete)

    for each in certain:
        if each.holder.workload_class is WorkloadClass.PERFORMANCE:
            return held(HeldAs.PERFORMANCE, HolderReason.PERFORMANCE_POD)
    for each in certain:
        if each.holder.workload_class is None:
            return held(HeldAs.UNKNOWN, each.reason, _named(each.holder))
    for each in perhaps:
        # A pod that perhaps holds it changes nothing where every holder is a standard pod, as it is.
        if not certain or each.holder.workload_class is not WorkloadClass.STANDARD:
            return held(HeldAs.UNKNOWN, each.reason, each.message)
    if used is not None:
        return held(used.held_as, used.reason, used.message)
    if certain:
        return held(HeldAs.STANDARD, HolderReason.ALL_STANDARD)
    return held(HeldAs.FREE, HolderReason.NOT_HELD if looked else HolderReason.NO_POD)


def _order(holder: Holder) -> tuple[str, str, str]:
    return holder.namespace, holder.pod, holder.container


def _named(holder: Holder) -> str:
    return f"pod {holder.namespace}/{holder.pod}"
