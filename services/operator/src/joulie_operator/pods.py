"""Summaries of the watched pods, their nodes and demands, so that tens of thousands stay small; and their decoder."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.pod_reader import DemandingPod, read_pod
from joulie_api.wire import decode_pod
from joulie_core.class_caps.waiting import GpuRequest
from joulie_core.demand import WorkloadClass
from joulie_core.names import NodeName
from joulie_core.pod import Pod

_ENDED: Final = frozenset({"Succeeded", "Failed"})
#: Summaries that are kept: some of each node.
_KEPT: Final = 2**16
_KNOWN: Final = frozenset({None, *WorkloadClass})


@dataclass(frozen=True, slots=True)
class PodSummary:
    """One active pod; a finished one is `NO_POD`."""

    #: None while the pod waits for a node.
    node: NodeName | None
    performance: bool
    cpu_cores: float
    gpus: float
    memory_bytes: float = 0.0
    #: Whether it asks for certain nodes, see `joulie_api.pod_reader.DemandingPod`.
    constrained: bool = False
    #: The GPUs that it waits for without a node; None where no limits by class are lifted for it.
    awaited_gpus: GpuRequest | None = None


#: Returns the GPUs that a pod waits for; gets it decoded and raw.
AwaitedGpus = Callable[[DemandingPod, bytes], GpuRequest | None]

NO_POD: Final = PodSummary(node=None, performance=False, cpu_cores=0, gpus=0)


class PodDecoder:
    """A decoder of pods into summaries.

    Args:
        on_unknown: gets each pod whole whose workload class is none of the known.
        claimed_gpus: tells the GPUs of claims.
        awaited_gpus: tells the GPUs that a pod without a node waits for; None where limits are never lifted for pods.
    """

    def __init__(
        self,
        on_unknown: Callable[[Pod], None] | None = None,
        claimed_gpus: ClaimedGpus = no_claims,
        awaited_gpus: AwaitedGpus | None = None,
    ) -> None:
        self._on_unknown = on_unknown
        self._claimed_gpus = claimed_gpus
        self._awaited_gpus = awaited_gpus

    def __call__(self, raw: bytes) -> PodSummary:
        """Decode a pod; one that is being deleted still runs, and counts until it is gone.

        Raises:
            DecodeError: not a Pod.
            QuantityError: a quantity of it cannot be read.
        """
        pod = read_pod(raw, self._claimed_gpus)
        if pod.phase in _ENDED:
            return NO_POD
        if pod.annotation not in _KNOWN and self._on_unknown is not None:
            self._on_unknown(decode_pod(raw))
        demand = pod.demand
        performance = demand.workload_class is WorkloadClass.PERFORMANCE
        awaited = self._awaited_gpus(pod, raw) if self._awaited_gpus is not None else None
        return _kept_summary(
            pod.node, performance, demand.cpu_cores, demand.gpus, demand.memory_bytes, pod.constrained, awaited
        )


@lru_cache(maxsize=_KEPT)
def _kept_summary(  # noqa: PLR0917
    node: str | None,
    performance: bool,  # noqa: FBT001
    cpu_cores: float,
    gpus: float,
    memory_bytes: float,
    constrained: bool,  # noqa: FBT001
    awaited_gpus: GpuRequest | None,
) -> PodSummary:
    """Return one object for equal pods of a node: a reflector reports no change from an object to itself."""
    name = NodeName(sys.intern(node)) if node else None
    return PodSummary(name, performance, cpu_cores, gpus, memory_bytes, constrained, awaited_gpus)
