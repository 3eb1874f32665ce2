"""Interrupt placement that the balloons of a node want."""

from collections.abc import Sequence

from joulie_core.containers.balloons.state import BalloonsState
from joulie_core.containers.balloons.types import BalloonType, BalloonTypes
from joulie_core.containers.idset import EMPTY, Cpus, union
from joulie_core.containers.interrupts import InterruptClaim, InterruptPlacement
from joulie_core.kinds.balloons_policy import InterruptMode


def balloon_interrupts(types: BalloonTypes, state: BalloonsState) -> InterruptPlacement:
    """Return claims, sinks and isolated CPUs of the balloons that exist, components included."""
    concerned = {kind.name for kind in types.by_name.values() if kind.interrupt_claims or kind.interrupt_mode}
    cpus_of: dict[str, Cpus] = {}
    for balloon in (each for whole in state.balloons.values() for each in whole.all_balloons()) if concerned else ():
        if balloon.key.type in concerned:
            cpus_of[balloon.key.type] = cpus_of.get(balloon.key.type, EMPTY) | balloon.cpus
    kinds = [(kind, cpus_of[name]) for name, kind in types.by_name.items() if cpus_of.get(name)]
    return InterruptPlacement(
        claims=tuple(InterruptClaim(kind.interrupt_claims, cpus) for kind, cpus in kinds if kind.interrupt_claims),
        sinks=_of_mode(kinds, InterruptMode.SINK),
        isolated=_of_mode(kinds, InterruptMode.ISOLATE),
    )


def _of_mode(kinds: Sequence[tuple[BalloonType, Cpus]], mode: InterruptMode) -> Cpus:
    return union(cpus for kind, cpus in kinds if kind.interrupt_mode is mode)
