"""Where kernels and firmware differ: what a machine does, as opposed to what it is made of."""

from dataclasses import dataclass
from enum import StrEnum


class OfflinePolicy(StrEnum):
    """State of a frequency policy without an online CPU."""

    #: The files stay, and every read and write of them fails with EBUSY (Linux 4.2 and later, CPU offline).
    BUSY = "busy"
    #: The directory is gone, as after the removal of the CPU's device.
    REMOVED = "removed"


class PolicyReturn(StrEnum):
    """Settings that a policy returns with when one of its CPUs is online again."""

    #: The request that the user made before (Linux 5.3 and later, where the policy was kept).
    REQUEST = "request"
    #: No request at all: the policy was made anew.
    DEFAULTS = "defaults"


class Maximum(StrEnum):
    """Answer of `constraint_0_max_power_uw` of a zone."""

    REPORTED = "reported"
    #: ENODATA, as where the register has no field for it.
    NO_DATA = "no-data"
    #: There is no such file.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One kernel on one firmware."""

    offline_policy: OfflinePolicy = OfflinePolicy.BUSY
    policy_return: PolicyReturn = PolicyReturn.REQUEST
    #: A lower limit above the upper one is refused, as by kernels without frequency requests (before Linux 5.3).
    refuses_crossed_limits: bool = False
    maximum: Maximum = Maximum.REPORTED
    #: Limits are stored and read back, and the power does not follow them.
    firmware_ignores_limits: bool = False
    #: Energy counters stand still, as on machines without the sensor.
    energy_frozen: bool = False
    #: Extra step that frequencies are rounded down to where they are read back; 0 for the driver's own behaviour.
    frequency_step_khz: int = 0
