"""Energy as it is stated of a holder: a kind, a rule, a point and its bounds."""

from dataclasses import dataclass
from enum import StrEnum


class EnergyKind(StrEnum):
    """Kind of a statement about energy."""

    #: One holder for the whole interval: the difference of the device's counter.
    MEASURED = "measured"
    #: A measured sum that a rule has split.
    ALLOCATED = "allocated"


class AllocationRule(StrEnum):
    """Rule that splits a measured sum."""

    #: Nothing is split.
    NONE = "none"
    #: Equal parts of a device that the same holders share for the whole interval.
    EQUAL_SHARE = "equal_share"
    #: Parts by the time of holding, equal ones while several hold the device.
    HOLDING_TIME = "holding_time"
    #: CPU seconds within a band of watts per CPU second.
    CPU_TIME_BAND = "cpu_time_band"


@dataclass(frozen=True, slots=True)
class HolderEnergy:
    """Energy of one holder in joules: lower <= joules <= upper."""

    holder: str
    kind: EnergyKind
    rule: AllocationRule
    joules: float
    lower_joules: float
    upper_joules: float


@dataclass(frozen=True, slots=True)
class StatedEnergy:
    """Energy of one or more devices in one interval: what a counter told is that of pods, idle and unattributed."""

    pods: tuple[HolderEnergy, ...]
    idle_joules: float
    unattributed_joules: float
    #: Time whose energy a counter did not tell.
    unknown_seconds: float = 0.0
