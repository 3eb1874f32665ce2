"""Power limit that a PATCH of a simulated BMC requests. No I/O.

Source: DMTF schemas Power, EnvironmentMetrics and Control.
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from joulie_sim.bmc.profiles import BmcProfile, LimitPlace
from joulie_sim.bmc.refusals import RefusedError
from joulie_sim.bmc.resources import CONTROL, ENVIRONMENT, POWER

#: Path of the resource that has the limit.
LIMIT_PATHS: Final[Mapping[LimitPlace, str]] = MappingProxyType(
    {LimitPlace.POWER: POWER, LimitPlace.ENVIRONMENT: ENVIRONMENT, LimitPlace.CONTROL: CONTROL}
)


def requested_limit(profile: BmcProfile, body: Mapping[str, Any]) -> float | None:
    """Return the limit that a PATCH requests, in the profile's unit, None to switch it off.

    Raises:
        RefusedError: it requests none, or one out of range.
    """
    try:
        limit = _limit(profile.limit_place, body)
    except (KeyError, IndexError, TypeError):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "PropertyUnknown", *body) from None
    low = 0.0 if profile.min_watts is None else profile.min_watts
    if limit is not None and not low <= limit <= profile.max_watts:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "PropertyValueOutOfRange", str(limit))
    return limit


def _limit(place: LimitPlace, body: Mapping[str, Any]) -> float | None:
    if place is LimitPlace.POWER:
        watts: float | None = body["PowerControl"][0]["PowerLimit"]["LimitInWatts"]
        return watts
    stanza = body["PowerLimitWatts"] if place is LimitPlace.ENVIRONMENT else body
    if stanza.get("ControlMode") == "Disabled":
        return None
    set_point: float = stanza["SetPoint"]
    return set_point
