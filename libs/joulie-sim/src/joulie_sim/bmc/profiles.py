"""Peculiarities of vendors' BMCs, as far as a client notices them.

Sources: Dell iDRAC9 Redfish API guide; Lenovo XCC2 REST API guide; OpenBMC bmcweb (redfish-core/lib/systems.hpp:
ResetActionInfo); NVIDIA BlueField BMC documentation; reports of users of ansible-collections/community.general (pull
requests 3268, 6434 and issue 11261). Reset types of Dell (PowerEdge R6515, BIOS 2.2.4) and Supermicro (SYS-510T-MR,
BIOS 2.0, Redfish 1.14.0): answers recorded by github.com/bmc-toolbox/bmclib, internal/redfishwrapper/fixtures.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class LimitPlace(StrEnum):
    """Resource that has the power limit."""

    POWER = "Power"
    ENVIRONMENT = "EnvironmentMetrics"
    CONTROL = "Control"
    NONE = "none"


class TagRule(StrEnum):
    """Rule for the `If-Match` of a PATCH."""

    #: A wrong tag is refused; none is accepted.
    OPTIONAL = "optional"
    #: Without a tag the answer is 428.
    REQUIRED = "required"
    #: As `REQUIRED`; tags are sent in their weak form and compared in their strong one.
    STRONG_OF_WEAK = "strong of weak"
    #: As `REQUIRED`; the tag moves with every answer: none that was read is the present one, and `*` alone is taken.
    MOVING = "moving"
    #: Every tag is refused.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BmcProfile:
    """One kind of BMC. Durations are in seconds, power in watts."""

    limit_place: LimitPlace = LimitPlace.POWER
    #: Unit of a control's set point, `W` or `%`.
    unit: str = "W"
    #: Absent where the BMC does not say.
    limit_exception: str | None = None
    min_watts: float | None = 200.0
    max_watts: float = 800.0
    tags: TagRule = TagRule.OPTIONAL
    #: Whether the tag of a resource changes with each reading.
    tags_move: bool = False
    max_sessions: int = 8
    #: Age at which a power reading is replaced by a new one.
    reading_interval_s: float = 60.0
    latency_s: float = 0.0
    #: Whether there is a licence for power limits.
    licensed: bool = True
    #: Time from a request to the change of the power state; None: it never changes.
    power_on_s: float | None = 0.0
    graceful_off_s: float | None = 0.0
    forced_off_s: float | None = 0.0
    reset_types: tuple[str, ...] = ("On", "ForceOff", "GracefulShutdown", "ForceRestart")
    #: The words that the BMC has for them; None: themselves.
    reset_words: tuple[str, ...] | None = None
    #: Whether they are in the ActionInfo of the action, and not in the action.
    action_info: bool = False


PROFILES: Final = MappingProxyType(
    {
        "plain": BmcProfile(),
        "idrac9": BmcProfile(
            limit_exception="HardPowerOff",
            tags_move=True,
            min_watts=None,
            reset_types=(
                *("On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton"),
                *("Nmi", "PowerCycle"),
            ),
        ),
        "xcc2": BmcProfile(limit_place=LimitPlace.CONTROL, tags=TagRule.REQUIRED),
        "ami": BmcProfile(limit_exception="NoAction", tags=TagRule.STRONG_OF_WEAK, reading_interval_s=5.0),
        "openbmc": BmcProfile(
            limit_place=LimitPlace.ENVIRONMENT,
            reading_interval_s=1.0,
            action_info=True,
            reset_types=(
                *("On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle"),
                "Nmi",
            ),
        ),
        "supermicro": BmcProfile(
            reset_types=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"),
            reset_words=("On", "ForceOff", "GracefulShutdownGracefulRestart", "ForceRestart", "Nmi", "ForceOn"),
        ),
        "button": BmcProfile(reset_types=("On", "ForceOff", "PushPowerButton")),
        "switch": BmcProfile(reset_types=("On", "ForceOff")),
        "bluefield": BmcProfile(limit_place=LimitPlace.CONTROL, unit="%", min_watts=10.0, max_watts=100.0),
        "unlicensed": BmcProfile(limit_exception="LogEventOnly", licensed=False),
        "tagless": BmcProfile(limit_exception="LogEventOnly", tags=TagRule.REFUSED),
        "moving": BmcProfile(limit_exception="LogEventOnly", tags=TagRule.MOVING, tags_move=True),
        "meter": BmcProfile(limit_place=LimitPlace.NONE),
    }
)
