"""The limit of one GPU of a real node: what holds it, what those pods allow, and its clocks.

Guarantees that only a GPU that is held by standard pods alone, each of them known, is limited.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, PodSlowdown, SlowdownSource, slowdown_of, smallest
from joulie_core.class_caps.gpu_limits import GpuClocks, GpuLimit, LimitReason, gpu_limit
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.view import GpuView
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import HeldDevice, Holder
from joulie_core.holders.records import NodePod
from joulie_core.labels import MAX_SLOWDOWN


@dataclass(frozen=True, slots=True)
class HolderPods:
    """Pods of a node and their Namespaces, as the API server has them."""

    #: By `namespace/name`.
    pods: Mapping[str, NodePod]
    #: Annotations of a Namespace, by its name; None for one that was not seen.
    namespace: Callable[[str], Mapping[str, str] | None]
    #: What the cluster allows where neither a pod nor its Namespace says so.
    default: AllowedSlowdown = AllowedSlowdown.NONE
    #: Whether that is the consent of the owners, by an administrator's word.
    default_is_consent: bool = False


@dataclass(frozen=True, slots=True)
class HeldLimit:
    """The limit of one GPU, and what its holders allow."""

    limit: GpuLimit
    #: What all holders allow; None where that is not known, or where there is no pod.
    allowed: AllowedSlowdown | None = None
    #: Why an annotation was not taken, as a sentence; empty where all were.
    message: str = ""
    #: Whether the owner of each holder has consented, and whether each of these pods runs; False where not known.
    consents: bool = False
    running: bool = False


def held_limit(
    device: HeldDevice,
    holders: HolderPods,
    gpu: GpuView | None,
    clocks: GpuClocks | None,
    *,
    waited_for: bool = False,
) -> HeldLimit:
    """Return the limit of a GPU.

    Args:
        device: the GPU and what holds it.
        holders: the pods.
        gpu: its model; None where that is not known.
        clocks: its clocks; None where they cannot be limited.
        waited_for: limits of the node are lifted, since performance pods wait for its GPUs, or soon would.
    """
    match device.held_as:
        case HeldAs.FREE:
            return HeldLimit(gpu_limit((), gpu, clocks))
        case HeldAs.OUTSIDE:
            return HeldLimit(GpuLimit(LimitReason.OUTSIDE_PROCESS))
        case HeldAs.PERFORMANCE:
            return HeldLimit(gpu_limit((AllowedSlowdown.NONE,), gpu, clocks), AllowedSlowdown.NONE)
        case HeldAs.STANDARD:
            return _of_standard_pods(device, holders, gpu, clocks, waited_for=waited_for)
        case HeldAs.UNKNOWN:
            return HeldLimit(gpu_limit((None,), gpu, clocks))


def _of_standard_pods(
    device: HeldDevice,
    holders: HolderPods,
    gpu: GpuView | None,
    clocks: GpuClocks | None,
    *,
    waited_for: bool,
) -> HeldLimit:
    found = [_allowed(each, holders) for each in device.holders]
    known = [each for each in found if each is not None]
    complete = bool(known) and len(known) == len(found)
    names = [_name(each) for each in device.holders]
    pods = [holders.pods.get(name) for name in names]
    return HeldLimit(
        # Standard without a holder is no answer that holders give; it limits nothing.
        gpu_limit(
            [None if each is None else each.allowed for each in found] or (None,), gpu, clocks, waited_for=waited_for
        ),
        smallest([each.allowed for each in known]) if complete else None,
        next(
            (f"pod {name}: {each.refused}" for name, each in zip(names, found, strict=True) if each and each.refused),
            "",
        ),
        # A pod that may hold it besides has not been asked.
        consents=device.complete and complete and all(is_consent(each, holders) for each in known),
        running=bool(pods) and all(each is not None and each.running for each in pods),
    )


def pod_slowdown(pod: NodePod, workload_class: WorkloadClass | None, pods: HolderPods) -> PodSlowdown:
    """Return what a pod allows by its annotation, else its Namespace's, else the cluster's default.

    Args:
        pod: the pod.
        workload_class: its class; None where that is not known.
        pods: its Namespace, and the default of the cluster.
    """
    written = {} if pod.max_slowdown is None else {MAX_SLOWDOWN: pod.max_slowdown}
    return slowdown_of(workload_class, written, pods.namespace(pod.namespace), pods.default)


def is_consent(found: PodSlowdown, pods: HolderPods) -> bool:
    """Return whether what a pod allows is the consent of its owner."""
    if found.source is SlowdownSource.CLUSTER:
        return pods.default_is_consent
    return found.source in (SlowdownSource.POD, SlowdownSource.NAMESPACE)


def _allowed(holder: Holder, holders: HolderPods) -> PodSlowdown | None:
    """Return what a holder allows; None where that is not known."""
    pod = holders.pods.get(_name(holder))
    return None if pod is None else pod_slowdown(pod, holder.workload_class, holders)


def _name(holder: Holder) -> str:
    return f"{holder.namespace}/{holder.pod}"
