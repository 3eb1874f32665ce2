"""The slowdown that pods allow on their cores, by their own annotations and as the node agent has told.

Guarantees that an entry of the node agent counts for the very pod that it names, and for a bounded time; that one
which cannot be read says nothing, and stops no other; and that what is kept is bounded.
Source: docs/decisions/0067-class-limits-on-cores.md.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, PodSlowdown, SlowdownSource
from joulie_core.class_caps.pod_consent import (
    TOLD_FOR_S,
    UNKNOWN_CONSENT,
    PodConsent,
    known_consent,
    stated_consent,
)
from joulie_core.containers.container import PodInfo

#: Several times what a kubelet runs; of those beyond, nothing is known.
MOST_PODS: Final = 4096
#: Characters of a name of Kubernetes.
_MOST_TEXT: Final = 253

#: Namespace, name and UID: a static pod may have the name of an earlier one, and its UID from an annotation.
_PodKey: TypeAlias = tuple[str, str, str]


class PodConsents:
    """The consents of the pods of this node.

    Args:
        clock: seconds of a clock that does not go back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: Mapping[_PodKey, PodConsent] = {}
        self._current_until_s = -math.inf

    @property
    def current(self) -> bool:
        """Whether what the node agent has told last is recent."""
        return self._clock() < self._current_until_s

    @property
    def told(self) -> int:
        """Number of pods that the node agent has told of last."""
        return len(self._told)

    def tell(self, pods: Iterable[pb.PodConsent]) -> None:
        """Take what the node agent tells of all pods, in place of what it has told before."""
        read = ((_key(each), _consent(each)) for each in islice(pods, MOST_PODS))
        self._told = {key: consent for key, consent in read if consent is not None and _fits(key)}
        self._current_until_s = self._clock() + TOLD_FOR_S

    def of(self, pod: PodInfo) -> PodConsent:
        """Return what a pod allows now."""
        told = self._told.get((pod.namespace, pod.name, pod.uid))
        return known_consent(stated_consent(pod.annotations), told, current=self.current)


def _key(entry: pb.PodConsent) -> _PodKey:
    return entry.namespace, entry.pod, entry.pod_uid


def _fits(key: _PodKey) -> bool:
    return all(0 < len(each) <= _MOST_TEXT for each in key)


def _consent(entry: pb.PodConsent) -> PodConsent | None:
    """Return what an entry says; None where it cannot be read."""
    if not entry.allowed:
        return UNKNOWN_CONSENT
    try:
        slowdown = PodSlowdown(AllowedSlowdown(entry.allowed), SlowdownSource(entry.source))
    except ValueError:
        return None
    return PodConsent(slowdown, entry.consents)
