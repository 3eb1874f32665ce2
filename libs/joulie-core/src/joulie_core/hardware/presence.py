"""Number of GPUs of a node, from two sources that may disagree or not know.

Guarantees three answers: a count, "none" (0) where a source that can see all GPUs found none, and None where it is
unknown. What the machine reports counts first, `present: false` before a count beside it, and labels and resources fill
what was not seen. Where resources offer GPUs to pods and the machine sees none, the node counts as one with GPUs: its
CPUs have to feed them, and must not be slowed on the strength of a check that may have been in the wrong place. Labels
alone, which may be old, do not overrule such a check. Every disagreement is reported as a warning. Source:
docs/decisions/0011-facts.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.hardware.facts import GpuFacts
from joulie_core.kinds.node_hardware import Origin


@dataclass(frozen=True, slots=True)
class GpuCount:
    """The number of GPUs; `origin` is None where it is unknown."""

    count: int | None
    origin: Origin | None
    #: Disagreements, as sentences.
    conflicts: tuple[str, ...] = ()


UNKNOWN: Final = GpuCount(None, None)


def count_gpus(seen: GpuFacts, labelled: GpuFacts) -> GpuCount:
    """Return how many GPUs there are.

    Args:
        seen: from the machine.
        labelled: from the node's labels and resources.
    """
    if seen.present is False:
        return _none_seen(seen, labelled)
    if seen.count:
        return GpuCount(seen.count, seen.origin, _about_count(seen, labelled))
    return _filled(seen, labelled)


def _about_count(seen: GpuFacts, labelled: GpuFacts) -> tuple[str, ...]:
    if labelled.offered and seen.count and labelled.offered > seen.count:
        return (f"the node offers {labelled.offered} GPUs to pods and {seen.count} are seen: those seen count",)
    return ()


def _none_seen(seen: GpuFacts, labelled: GpuFacts) -> GpuCount:
    if labelled.offered:
        count = labelled.count or labelled.offered
        message = f"no GPU is seen and the node offers {labelled.offered} to pods: {count} are assumed"
        return GpuCount(count, labelled.origin, (message,))
    if seen.count:
        return GpuCount(0, seen.origin, (f"the machine reports no GPU and a count of {seen.count}: none is assumed",))
    if labelled.count or labelled.match or labelled.vendor:
        return GpuCount(0, seen.origin, ("no GPU is seen and the node's labels name some: none is assumed",))
    return GpuCount(0, seen.origin)


def _filled(seen: GpuFacts, labelled: GpuFacts) -> GpuCount:
    if labelled.offered and labelled.present is False:
        message = f"labels claim that there is no GPU and the node offers {labelled.offered} to pods: they are assumed"
        return GpuCount(labelled.offered, labelled.origin, (message,))
    if labelled.count or labelled.offered:
        # The label counts GPUs; resources count shares of them as well, and those that are not given to pods not.
        return GpuCount(labelled.count or labelled.offered, labelled.origin)
    if seen.present or seen.match or seen.vendor:
        return GpuCount(1, Origin.INFERRED)
    if labelled.present is False:
        return GpuCount(0, labelled.origin)
    return GpuCount(1, Origin.INFERRED) if labelled.match or labelled.vendor else UNKNOWN
