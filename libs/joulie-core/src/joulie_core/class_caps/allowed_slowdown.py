"""The slowdown that pods on a device are allowed: a pod's own word, else its Namespace's, else the cluster's.

Guarantees that a value that cannot be read, a Namespace that was not seen and a pod whose class is not known allow no
slowdown. Source: docs/decisions/0044-bounded-slowdown.md.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_core.labels import MAX_SLOWDOWN
from joulie_core.text import printable

#: Characters of a refused value that its reason repeats.
_SHOWN: Final = 32


class AllowedSlowdown(StrEnum):
    """Time that a pod may run longer than without limits, over the time without; values of the annotation."""

    NONE = "0%"
    TENTH = "10%"
    QUARTER = "25%"
    HALF = "50%"

    @property
    def pct(self) -> int:
        """Percent."""
        return int(self.value.removesuffix("%"))


class SlowdownSource(StrEnum):
    """Source of what a pod is allowed."""

    #: Performance pods, and pods whose class is not known, are never slowed.
    CLASS = "class"
    POD = "pod"
    NAMESPACE = "namespace"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class PodSlowdown:
    """The slowdown that a pod is allowed."""

    allowed: AllowedSlowdown
    source: SlowdownSource
    #: Why a value was not taken, as a sentence; None where there was no such value.
    refused: str | None = None


def slowdown_of(
    workload_class: WorkloadClass | None,
    annotations: Mapping[str, str],
    namespace: Mapping[str, str] | None,
    default: AllowedSlowdown = AllowedSlowdown.NONE,
) -> PodSlowdown:
    """Return what a pod is allowed.

    Args:
        workload_class: class of the pod; None where it is not known.
        annotations: of the pod.
        namespace: annotations of its Namespace; None where that was not seen, which may forbid what the cluster allows.
        default: of the cluster.
    """
    if workload_class is not WorkloadClass.STANDARD:
        return PodSlowdown(AllowedSlowdown.NONE, SlowdownSource.CLASS)
    written = annotations.get(MAX_SLOWDOWN)
    if written is not None:
        return _read(written, SlowdownSource.POD)
    if namespace is None:
        return PodSlowdown(AllowedSlowdown.NONE, SlowdownSource.NAMESPACE, "the Namespace was not seen")
    written = namespace.get(MAX_SLOWDOWN)
    if written is not None:
        return _read(written, SlowdownSource.NAMESPACE)
    return PodSlowdown(default, SlowdownSource.CLUSTER)


def smallest(holders: Collection[AllowedSlowdown]) -> AllowedSlowdown:
    """Return what a device is allowed that all of these hold; nothing where none does."""
    return min(holders, key=lambda each: each.pct, default=AllowedSlowdown.NONE)


def _read(written: str, source: SlowdownSource) -> PodSlowdown:
    try:
        return PodSlowdown(AllowedSlowdown(written), source)
    except ValueError:
        shown, values = printable(written, _SHOWN), ", ".join(AllowedSlowdown)
        reason = f"{MAX_SLOWDOWN} of the {source} is {shown!r}, which is none of {values}"
        return PodSlowdown(AllowedSlowdown.NONE, source, reason)
