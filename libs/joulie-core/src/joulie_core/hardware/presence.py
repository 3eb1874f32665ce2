"""How many GPUs a node has, from two sources that may disagree or not know.

Promises three answers: a count, "none" (0) where somebody who can see says so, and None where nobody knows. What the
machine says counts first, labels and resources fill what nobody has seen. Where resources offer GPUs to pods and the
machine sees none, the node counts as one with GPUs: its CPUs have to feed them, and must not be slowed on the strength
of a look that may have been in the wrong place. Labels alone, which may be old, do not overrule such a look. Every
disagreement is told.
Source: contracts, decisions 3 and 12.
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


def count_gpus(seen: GpuFacts, told: GpuFacts) -> GpuCount:
    """Return how many GPUs there are.

    Args:
        seen: what the machine says.
        told: what the node's labels and resources say.
    """
    if seen.count:
        return GpuCount(seen.count, seen.origin, _about_count(seen, told))
    if seen.present is False:
        return _none_seen(seen, told)
    return _filled(seen, told)


def _about_count(seen: GpuFacts, told: GpuFacts) -> tuple[str, ...]:
    conflicts = []
    if seen.present is False:
        conflicts.append(f"the machine reports {seen.count} GPUs and that there is none: they are taken to be there")
    if told.offered and seen.count and told.offered > seen.count:
        conflicts.append(f"the node offers {told.offered} GPUs to pods and {seen.count} are seen: those seen count")
    return tuple(conflicts)


def _none_seen(seen: GpuFacts, told: GpuFacts) -> GpuCount:
    if told.offered:
        count = told.count or told.offered
        said = f"no GPU is seen and the node offers {told.offered} to pods: {count} are taken to be there"
        return GpuCount(count, told.origin, (said,))
    if told.count or told.match or told.vendor:
        return GpuCount(
            0, seen.origin, ("no GPU is seen and the node's labels tell of some: none is taken to be there",)
        )
    return GpuCount(0, seen.origin)


def _filled(seen: GpuFacts, told: GpuFacts) -> GpuCount:
    if told.offered and told.present is False:
        said = f"labels say that there is no GPU and the node offers {told.offered} to pods: they are taken to be there"
        return GpuCount(told.offered, told.origin, (said,))
    if told.count or told.offered:
        # The label counts GPUs; resources count shares of them as well, and those that are not given to pods not.
        return GpuCount(told.count or told.offered, told.origin)
    if seen.present or seen.match or seen.vendor:
        return GpuCount(1, Origin.INFERRED)
    if told.present is False:
        return GpuCount(0, told.origin)
    return GpuCount(1, Origin.INFERRED) if told.match or told.vendor else UNKNOWN
