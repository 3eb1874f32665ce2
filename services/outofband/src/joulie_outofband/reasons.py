"""Reasons of conditions, and the error of requests to a BMC."""

from enum import StrEnum
from typing import Final

from joulie_core.text import printable

#: Characters of a message; a condition of a NodeBMC has room for it.
_MOST_CHARACTERS: Final = 500


class BmcReason(StrEnum):
    """Reason of a condition of a NodeBMC."""

    ANSWERS = "Answers"
    NEVER_ANSWERS = "NeverAnswers"
    INVALID_ADDRESS = "InvalidAddress"
    INVALID_SPEC = "InvalidSpec"
    VALID = "Valid"
    CREDENTIALS_MISSING = "CredentialsMissing"
    ADDRESS_NOT_APPROVED = "AddressNotApproved"
    CA_NOT_APPROVED = "CertificatesNotApproved"
    UNREACHABLE = "Unreachable"
    CERTIFICATE_REFUSED = "CertificateRefused"
    TIMED_OUT = "TimedOut"
    UNAUTHORIZED = "Unauthorized"
    MALFORMED = "MalformedAnswer"
    REFUSED = "Refused"
    BUSY = "Busy"
    FAILED = "Failed"
    INTERNAL_ERROR = "InternalError"
    LICENCE_MISSING = "LicenceMissing"
    TAG_REFUSED = "TagRefused"

    UNMANAGED = "Unmanaged"
    AS_DESIRED = "AsDesired"
    CHANGING = "Changing"
    POWER_OFF_NOT_ALLOWED = "PowerOffNotAllowed"
    NODE_NOT_TAINTED = "NodeNotTainted"
    SWITCHED_ON = "SwitchedOn"
    PODS_ON_NODE = "PodsOnNode"
    RESET_TYPE_MISSING = "ResetTypeMissing"
    POWER_STATE_UNKNOWN = "PowerStateUnknown"
    NOT_FOLLOWED = "NotFollowed"

    NO_CAP = "NoCap"
    IN_FORCE = "InForce"
    LOWER_EXTERNAL_LIMIT = "LowerExternalLimit"
    EXPIRED = "Expired"
    EXPIRY_UNREADABLE = "ExpiryUnreadable"
    NO_LIMIT = "NoPowerLimit"
    NOT_IN_WATTS = "NotInWatts"
    HARD_POWER_OFF = "LimitExceptionPowersOff"
    OUT_OF_RANGE = "OutOfRange"
    NOT_READ_BACK = "NotReadBack"
    NOT_TAKEN = "NotTaken"

    WOKEN = "Woken"
    BOOT_TIMED_OUT = "BootTimedOut"
    NOT_TRIED = "NotTried"


class BmcError(Exception):
    """A request to a BMC failed; `retry_after_s` is how long the BMC asks to be left alone, None if it does not.

    The message may contain texts of the BMC or of a NodeBMC: it is made printable here.
    """

    def __init__(self, reason: BmcReason, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(printable(message, _MOST_CHARACTERS))
        self.reason = reason
        self.retry_after_s = retry_after_s
