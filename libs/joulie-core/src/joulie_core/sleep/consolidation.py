"""Consolidation: nodes that are emptied by moving their pods, so that they can sleep.

Guarantees that a node is emptied only where all of its pods may be moved, they are few enough, and what its sleep saves
within an hour outweighs what their restart and its boot cost.
See docs/decisions/0042-consolidation.md.
"""

from typing import Final

from joulie_core.kinds.node_sleep_policy import ConsolidationMode, SleepSettings
from joulie_core.sleep.model import SleepNode

_HOUR_S: Final = 3_600.0
#: Cost of one more start of a pod, in seconds of the idle power of its node. Assumed: a pod draws and does no work for
#: about a minute.
_RESTART_S: Final = 60.0
#: Watts while a server boots over those of the idle server: fans and memory tests. Assumed.
BOOT_OVER_IDLE: Final = 1.5


def may_be_emptied(node: SleepNode, settings: SleepSettings) -> bool:
    """Return whether the pods of a node are to be moved, as far as it depends on the node alone."""
    consolidation = settings.consolidation
    return (
        consolidation.mode is ConsolidationMode.ACT
        and node.protected_pods == 0
        and _movable_pct(node) <= consolidation.below_percent
        and _outweighs(node, settings)
    )


def _outweighs(node: SleepNode, settings: SleepSettings) -> bool:
    """Return whether a node that sleeps for a while of the next hour draws less than one that stays on.

    All in seconds of its idle power: it goes off, boots, and its pods start again.
    """
    boot_s = BOOT_OVER_IDLE * node.boot_s(settings.boot_timeout_seconds)
    return settings.off_timeout_seconds + boot_s + _RESTART_S * len(node.movable_pods) < _HOUR_S


def _movable_pct(node: SleepNode) -> float:
    """Return the highest share of a resource that pods which can be moved have of what is left to pods."""
    amounts: dict[str, float] = {}
    for pod in node.movable_pods:
        for resource, amount in pod.requests.items():
            amounts[resource] = amounts.get(resource, 0.0) + amount
    whole = {key: used + max(0.0, node.free.get(key, 0.0)) for key, used in amounts.items()}
    return max((100.0 * used / whole[key] for key, used in amounts.items() if used), default=0.0)
