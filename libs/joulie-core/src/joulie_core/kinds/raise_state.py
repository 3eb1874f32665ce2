"""State of the limits below an oversubscribed domain."""

from enum import StrEnum


class RaiseState(StrEnum):
    """State of the limits of a tree; all but the first are reasons for which they are not raised."""

    RAISED = "Raised"
    TOO_MANY_NODES = "TooManyNodes"
    #: No breaker carries an overload for long enough.
    NOTHING_PERMITTED = "NothingPermitted"
    #: An event lowers a limit of the tree.
    EVENT = "Event"
    #: The limit of a node, or the rest of a server, is not known.
    POWER_UNKNOWN = "PowerUnknown"
    #: The lowest limits of the hardware do not fit.
    SHORTFALL = "Shortfall"
    #: Nodes have no fresh sample.
    NOT_MEASURED = "NotMeasured"
    NEAR_LIMIT = "NearLimit"
    BREAKER_WARM = "BreakerWarm"
    #: Agents have not seen what they fall back to.
    NOT_SEEN = "NotSeen"
    #: It is too soon after a withdrawal.
    PAUSE = "Pause"
