"""Requests of a container, estimated from the values that the kubelet has derived of them.

A container runtime does not know pods: it shows cgroup values and the adjustment of the OOM score. CPU requests above
2 thousandths of a CPU follow from them exactly. A memory request is exact for the class Guaranteed; for Burstable it is
known to a thousandth of the node's memory, and the least that it can be is returned.

Source: Kubernetes, pkg/kubelet/cm/helpers_linux.go and pkg/kubelet/qos/policy.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from joulie_core.containers.container import ContainerResources, QosClass
from joulie_core.quantity import QuantityError, parse_quantity

SHARES_PER_CPU: Final = 1024
MILLI_PER_CPU: Final = 1000
#: What the kubelet sets for no request, and for very small ones.
LEAST_SHARES: Final = 2
MOST_SHARES: Final = 262_144
#: The adjustment of a Burstable container without a memory request, and of one that requests all memory.
LIGHTEST_OOM_ADJ: Final = 999
HEAVIEST_OOM_ADJ: Final = 3
_OOM_SCALE: Final = 1000
#: Memory limits from here on are none: cgroups round the largest number down to a page.
_NO_LIMIT_BYTES: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupValues:
    """Cgroup values of a container as the runtime shows them; None where it shows nothing."""

    cpu_shares: int | None = None
    #: CPU time per period; 0 or less is no limit.
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    #: 0 or less is no limit.
    memory_limit_bytes: int | None = None
    oom_score_adj: int | None = None


class ResourcesAnnotationError(ValueError):
    """An annotation with resources is malformed; the message has the reason."""


def qos_of(cgroup_parent: str) -> QosClass:
    """Return the class of a pod from its cgroup, which the kubelet puts below one of the class."""
    if "besteffort" in cgroup_parent:
        return QosClass.BEST_EFFORT
    return QosClass.BURSTABLE if "burstable" in cgroup_parent else QosClass.GUARANTEED


def estimate(values: CgroupValues, qos: QosClass, memory_capacity_bytes: int) -> ContainerResources:
    """Return what a container requests and is limited to.

    Args:
        values: What the runtime shows.
        qos: Class of its pod.
        memory_capacity_bytes: Memory of the node; 0 where it is not known.
    """
    cpu_limit = _cpu_limit_milli(values)
    memory_limit = _memory_limit_bytes(values)
    cpu_request = 0 if qos is QosClass.BEST_EFFORT else cpu_milli(values.cpu_shares or 0)
    memory_request = 0
    if qos is QosClass.GUARANTEED:
        # Requests are limits. The quota has no upper bound, the shares have.
        cpu_request = cpu_limit or cpu_request
        cpu_limit = cpu_request or None
        memory_request = memory_limit or 0
    elif qos is QosClass.BURSTABLE:
        memory_request = _burstable_memory_bytes(values.oom_score_adj, memory_capacity_bytes)
        memory_request = min(memory_request, memory_limit) if memory_limit else memory_request
    return ContainerResources(
        cpu_request_milli=cpu_request,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=memory_request,
        memory_limit_bytes=memory_limit,
    )


def cpu_milli(shares: int) -> int:
    """Return the CPU request that gives these shares, in thousandths of a CPU; 0 for the least shares."""
    # The kubelet rounds down. As a thousandth is more than one share, one request at most gives these shares.
    return 0 if shares <= LEAST_SHARES else -(-shares * MILLI_PER_CPU // SHARES_PER_CPU)


def cpu_shares(milli: int) -> int:
    """Return the shares for a CPU request in thousandths of a CPU, as the kubelet computes them."""
    return max(LEAST_SHARES, min(MOST_SHARES, milli * SHARES_PER_CPU // MILLI_PER_CPU))


def annotated_resources(text: str, container_name: str) -> ContainerResources | None:
    """Return the resources of a container from an annotation with those of all containers of its pod.

    Args:
        text: JSON with `containers` and `initContainers`, each of `requests` and `limits` by name of the container.
        container_name: The container.

    Returns:
        None where the annotation does not have the container. A limit without a request is also the request.

    Raises:
        ResourcesAnnotationError: The annotation is malformed.
    """
    try:
        pod = _PodResources.model_validate_json(text)
        written = pod.containers.get(container_name) or pod.initContainers.get(container_name)
        return None if written is None else written.resources()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ResourcesAnnotationError(f"{place}: {first['msg']}" if place else first["msg"]) from error
    except QuantityError as error:
        raise ResourcesAnnotationError(str(error)) from error


class _ContainerAmounts(BaseModel):
    model_config = ConfigDict(frozen=True)

    requests: Mapping[str, str | int | float] = {}
    limits: Mapping[str, str | int | float] = {}

    def resources(self) -> ContainerResources:
        cpu, memory = _amount(self.limits, "cpu", MILLI_PER_CPU), _amount(self.limits, "memory", 1)
        cpu_request, memory_request = _amount(self.requests, "cpu", MILLI_PER_CPU), _amount(self.requests, "memory", 1)
        return ContainerResources(
            cpu_request_milli=(cpu if cpu_request is None else cpu_request) or 0,
            cpu_limit_milli=cpu,
            memory_request_bytes=(memory if memory_request is None else memory_request) or 0,
            memory_limit_bytes=memory,
        )


class _PodResources(BaseModel):
    model_config = ConfigDict(frozen=True)

    containers: Mapping[str, _ContainerAmounts] = {}
    # Named as in the annotation.
    initContainers: Mapping[str, _ContainerAmounts] = {}  # noqa: N815


def _amount(amounts: Mapping[str, str | int | float], name: str, factor: int) -> int | None:
    if name not in amounts:
        return None
    amount = ceil(parse_quantity(amounts[name]) * factor)
    if amount < 0:
        raise ResourcesAnnotationError(f"{name}: {amounts[name]!r} is negative")
    return amount


def _cpu_limit_milli(values: CgroupValues) -> int | None:
    quota, period = values.cpu_quota_us or 0, values.cpu_period_us or 0
    return -(-quota * MILLI_PER_CPU // period) if quota > 0 and period > 0 else None


def _memory_limit_bytes(values: CgroupValues) -> int | None:
    limit = values.memory_limit_bytes or 0
    return limit if 0 < limit < _NO_LIMIT_BYTES else None


def _burstable_memory_bytes(oom_score_adj: int | None, capacity_bytes: int) -> int:
    """Return the least request that gives an adjustment; 0 where there is none, or one that holds no information.

    The kubelet takes a thousandth off 1000 for each thousandth of the node's memory that is requested. Pods of the
    highest priorities have an adjustment that does not depend on their requests.
    """
    if oom_score_adj is None or not HEAVIEST_OOM_ADJ <= oom_score_adj < LIGHTEST_OOM_ADJ:
        return 0
    return -(-(_OOM_SCALE - oom_score_adj) * capacity_bytes // _OOM_SCALE)
