"""As what a device is held. Apart from the kinds and from the decision, which both need it."""

from enum import StrEnum


class HeldAs(StrEnum):
    """The holders of a device, as far as its limits depend on them."""

    FREE = "free"
    #: Every holder is known to be a standard pod.
    STANDARD = "standard"
    #: At least one holder is a performance pod.
    PERFORMANCE = "performance"
    #: Processes outside of pods use it, and perhaps standard pods.
    OUTSIDE = "outside"
    #: It is not known what holds it.
    UNKNOWN = "unknown"
