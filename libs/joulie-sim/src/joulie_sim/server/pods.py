"""Conversion of pods to jobs, by their requests and annotations."""

import math
from typing import Final

import structlog

from joulie_core.demand import workload_class
from joulie_core.pod import Pod
from joulie_core.powerest.pod_demand import pod_demand
from joulie_core.quantity import QuantityError
from joulie_sim.annotations import CPU_UTILIZATION, DURATION, GPU_UTILIZATION
from joulie_sim.physics.job import JobRequest

#: Busy share of pods without the annotation: that of a service rather than of a benchmark.
DEFAULT_CPU_UTILIZATION: Final = 0.6
DEFAULT_GPU_UTILIZATION: Final = 0.9

_log = structlog.get_logger()


def job_of(pod: Pod) -> JobRequest | None:
    """Return the job of a pod; None if its quantities are invalid, which the API server does not permit.

    An invalid annotation is logged and counts as absent.
    """
    try:
        demand = pod_demand(pod, workload_class(pod))
    except QuantityError as error:
        _log.warning("pod not simulated", pod=pod.key, error=str(error))
        return None
    gpus = math.ceil(demand.gpus)
    return JobRequest(
        key=pod.key,
        cores=demand.cpu_cores,
        gpus=gpus,
        cpu_utilization=_number(pod, CPU_UTILIZATION, highest=1.0, default=DEFAULT_CPU_UTILIZATION) or 0.0,
        gpu_utilization=_number(pod, GPU_UTILIZATION, highest=1.0, default=DEFAULT_GPU_UTILIZATION) or 0.0,
        work_s=_number(pod, DURATION, highest=math.inf, default=None),
    )


def _number(pod: Pod, annotation: str, *, highest: float, default: float | None) -> float | None:
    text = pod.annotations.get(annotation)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and 0.0 <= value <= highest:
        return value
    _log.warning("annotation ignored", pod=pod.key, annotation=annotation, value=text, allowed=f"0 to {highest:g}")
    return default
