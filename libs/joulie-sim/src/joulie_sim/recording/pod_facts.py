"""The parts of a Pod that a recording takes.

Times are those of the API server's objects, in whole seconds, so that an outage of the watch does not change them.
"""

import math
import sys
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire import decode_pod
from joulie_api.wire.metadata import WireConditions, WireController, controller_of
from joulie_core.demand import WorkloadClass, workload_class
from joulie_core.pod import Pod
from joulie_core.powerest.pod_demand import gpu_resources, requested
from joulie_core.timestamps import epoch_seconds

_MILLI: Final = 1000
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One state of a pod. Times are seconds since the epoch, None where they are not known."""

    uid: str
    key: str
    owner: str
    workload_class: WorkloadClass
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_resource: str
    claims: bool
    constrained: bool
    node: str | None
    #: Whether it has succeeded or failed.
    terminal: bool
    created_s: float | None
    bound_s: float | None
    started_s: float | None
    #: Of a pod that is terminal.
    finished_s: float | None


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None
    owner_references: list[WireController] | None = None


class _Run(msgspec.Struct, rename="camel"):
    started_at: str | None = None
    finished_at: str | None = None


class _State(msgspec.Struct):
    running: _Run | None = None
    terminated: _Run | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    state: _State | None = None
    last_state: _State | None = None


class _Status(WireConditions, rename="camel"):
    container_statuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


_PODS: Final = msgspec.json.Decoder(_Pod)


def decode_pod_facts(raw: bytes) -> PodFacts:
    """Decode a Pod.

    Raises:
        DecodeError: not a Pod.
        joulie_core.quantity.QuantityError: it requests what is no quantity.
    """
    pod = decode_pod(raw)
    wire = decode(_PODS.decode, raw, "Pod")
    status, controller = wire.status or _Status(), controller_of(wire.metadata.owner_references)
    bound = status.find("PodScheduled")
    gpus, resource = _gpus(pod)
    return PodFacts(
        uid=pod.uid,
        key=pod.key,
        owner=sys.intern(controller.kind if controller else ""),
        workload_class=workload_class(pod),
        cpu_milli=math.ceil(_MILLI * requested(pod, "cpu")),
        memory_mib=math.ceil(requested(pod, "memory") / _MIB),
        gpus=gpus,
        gpu_resource=resource,
        claims=bool(pod.claims),
        constrained=bool(pod.node_selector) or pod.required_terms is not None,
        node=None if pod.node_name is None else sys.intern(pod.node_name),
        terminal=not pod.active,
        created_s=epoch_seconds(wire.metadata.creation_timestamp),
        bound_s=epoch_seconds(bound.last_transition_time) if bound and bound.status == "True" else None,
        started_s=min(_times(status, started=True), default=None),
        finished_s=None if pod.active else max(_times(status, started=False), default=None),
    )


def _gpus(pod: Pod) -> tuple[int, str]:
    """Return how many units of which resource; of several resources the one with the most."""
    counts = [(math.ceil(requested(pod, name)), name) for name in gpu_resources(pod)]
    count, name = max(counts, default=(0, ""))
    return count, sys.intern(name) if count else ""


def _times(status: _Status, *, started: bool) -> list[float]:
    """Return when containers started or finished, as far as it is known."""
    runs = [
        run
        for container in status.container_statuses or ()
        for state in (container.state, container.last_state)
        if state is not None
        for run in (state.running, state.terminated)
        if run is not None
    ]
    times = (epoch_seconds(run.started_at if started else run.finished_at) for run in runs)
    return [time for time in times if time is not None]
