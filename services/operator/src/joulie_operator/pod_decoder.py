"""Decoding of watched pods into what the operator keeps of them."""

import sys
from collections.abc import Callable
from typing import Final

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.pod_reader import read_pod
from joulie_api.wire import decode_pod
from joulie_core.demand import WorkloadClass
from joulie_core.names import NodeName
from joulie_core.pod import Pod
from joulie_operator.published import NO_POD, PodSummary

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_KNOWN: Final = frozenset({None, *WorkloadClass})


class PodDecoder:
    """A decoder of pods into summaries. `on_unknown` gets each pod whole whose workload class is none of the known."""

    def __init__(self, on_unknown: Callable[[Pod], None] | None = None, claimed_gpus: ClaimedGpus = no_claims) -> None:
        self._on_unknown = on_unknown
        self._claimed_gpus = claimed_gpus

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
        return PodSummary(
            node=NodeName(sys.intern(pod.node)) if pod.node else None,
            performance=demand.workload_class is WorkloadClass.PERFORMANCE,
            cpu_cores=demand.cpu_cores,
            gpus=demand.gpus,
        )
