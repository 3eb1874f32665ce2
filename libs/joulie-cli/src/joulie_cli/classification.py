"""Why a pod has its workload class, in words. No I/O."""

from joulie_core.demand import Demand, WorkloadClass, classify, unknown_annotation
from joulie_core.labels import DRAINING, POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.pod import Pod


def why_class(pod: Pod) -> str:
    """Return the reason for `joulie_core.demand.workload_class` of a pod."""
    annotation = pod.annotations.get(WORKLOAD_CLASS)
    if annotation == WorkloadClass.PERFORMANCE:
        return f"its annotation {WORKLOAD_CLASS} is performance"
    demand = classify(pod)
    if demand is Demand.PERFORMANCE:
        return f"its required constraints on {POWER_PROFILE} or {DRAINING} cannot be met by an eco node"
    if demand is Demand.ECO:
        return "its required constraints can be met by eco nodes only"
    if unknown_annotation(pod) is not None:
        return f"its annotation {WORKLOAD_CLASS}={annotation!r} is neither performance nor standard"
    if annotation is not None:
        return f"its annotation {WORKLOAD_CLASS} is standard"
    return f"it has no annotation {WORKLOAD_CLASS}, and no constraint that demands performance"
