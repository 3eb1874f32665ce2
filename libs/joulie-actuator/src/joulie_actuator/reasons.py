"""Reasons for the results of enforcements: one word per cause, the same in status, logs and tests."""

from enum import StrEnum


class Reason(StrEnum):
    """Value of `status.control.*.reason` and key `reason` of log lines."""

    #: The cap is in force as published.
    CAPPED = "Capped"
    #: The cap is in force, clamped to the range of the hardware; the message names it.
    CLAMPED = "Clamped"
    #: The power loop holds a throttle because the power cannot be capped directly.
    THROTTLED = "Throttled"
    #: The power loop sees more power than the cap allows, and is raising the throttle.
    ADJUSTING = "Adjusting"
    #: The power loop sees more power than the cap allows at full throttle.
    SATURATED = "Saturated"
    #: Readings have been missing for so long that the power loop raises the throttle without them.
    THROTTLED_WITHOUT_READING = "ThrottledWithoutReading"
    #: A control that was replaced may still be in force beside what is reported.
    NOT_RELEASED = "NotReleased"
    #: A percentage that no range translates to watts holds a fixed throttle.
    THROTTLED_BY_PERCENT = "ThrottledByPercent"
    #: The power limit does not hold a GPU's power, and a limit on its graphics clock does.
    CLOCKS_LIMITED = "ClocksLimited"
    #: The optional controls beside the cap are set as configured.
    TUNED = "Tuned"
    #: There is no NodePowerProfile for the node.
    NO_PROFILE = "NoProfile"
    #: The NodePowerProfile leaves this subsystem unmanaged.
    NO_INTENT = "NoIntent"
    #: The published target has not been refreshed for so long that it no longer counts.
    LOST_CONTROL = "LostControl"
    #: Originals were restored: no cap and no throttle of Joulie's is in force.
    RESTORED = "Restored"

    #: The routing turns this subsystem off.
    TURNED_OFF = "TurnedOff"
    #: A percentage, without a range that translates it and without a throttle.
    NO_CAP_RANGE = "NoCapRange"
    #: The node is not known to have this hardware.
    NO_DEVICE = "NoDevice"
    #: This build has no host interface for the subsystem.
    NO_HOST_INTERFACE = "NoHostInterface"
    #: A pool agent serves other nodes and must not act on the machine it runs on.
    HOST_IN_POOL = "HostInPool"
    #: SIMULATE_ONLY is set: the agent does not act on its machine.
    SIMULATE_ONLY = "SimulateOnly"
    #: The kernel or driver does not offer this interface here.
    NO_INTERFACE = "NoInterface"
    #: The interface is there and this process may not use it.
    NOT_PERMITTED = "NotPermitted"
    #: Firmware holds the limit and takes no new one.
    FIRMWARE_LOCKED = "FirmwareLocked"
    #: Firmware took the limit and holds another one, which is in force.
    HELD_BY_FIRMWARE = "HeldByFirmware"
    #: The cap is in force on some of the packages only.
    PARTLY_APPLIED = "PartlyApplied"
    #: The value is out of range.
    OUT_OF_RANGE = "OutOfRange"
    #: Another class shares what the hardware has once, or another control comes first.
    OVERRULED = "Overruled"
    #: Originals cannot be recorded, so nothing may be changed.
    NO_JOURNAL = "NoJournal"
    #: The backend declined the request.
    REFUSED = "Refused"

    #: The backend tried and failed.
    BACKEND_FAILED = "BackendFailed"
    #: The device was there and no longer answers, as a GPU that fell off the bus.
    DEVICE_LOST = "DeviceLost"
    #: The kernel failed to read or write the value.
    IO_ERROR = "IoError"
    #: The backend does not know the node or the path.
    NOT_FOUND = "NotFound"
    #: Any other HTTP status that is not 2xx.
    HTTP_STATUS = "HttpStatus"
    TIMEOUT = "Timeout"
    UNREACHABLE = "Unreachable"
    MALFORMED_REPLY = "MalformedReply"
    BAD_ENDPOINT = "BadEndpoint"
    #: The Secret with the request headers cannot be read or holds no headers.
    BAD_SECRET = "BadSecret"  # noqa: S105 - a reason, not a password
    #: The source answered, but has no figure for this node.
    NO_READING = "NoReading"
