"""The states of a node between on and off, what they are called where, and the groups of them that decisions go by."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class SleepState(StrEnum):
    """Where a node is between on and off; the value is what records, Events and metrics of transitions have."""

    AWAKE = "Awake"
    CORDONED = "Cordoned"
    DRAINING = "Draining"
    POWERING_OFF = "PoweringOff"
    ASLEEP = "Asleep"
    WAKING = "Waking"
    QUARANTINED = "Quarantined"

    @property
    def field(self) -> str:
        """Name of the number of nodes in this state, in the status of a policy."""
        return self.name.lower()

    @property
    def label(self) -> str:
        """Value of the label `joulie.io/sleep-state`. The Node of a server that is awake does not have the label."""
        return self.field.replace("_", "-")


#: On the way to off; nothing of it needs a boot to undo, but a shutdown that was requested.
GOING_TO_SLEEP: Final = frozenset({SleepState.CORDONED, SleepState.DRAINING, SleepState.POWERING_OFF})
#: The power is to be off.
SWITCHED_OFF: Final = frozenset({SleepState.POWERING_OFF, SleepState.ASLEEP})
#: No pod is placed there.
CLOSED_TO_PODS: Final = GOING_TO_SLEEP | {SleepState.ASLEEP}
#: No capacity of the cluster at present.
OUT_OF_SUPPLY: Final = CLOSED_TO_PODS | {SleepState.WAKING}


def labels_of(states: Iterable[SleepState]) -> frozenset[str]:
    """Return the values of the label that Nodes in these states have."""
    return frozenset(state.label for state in states)
