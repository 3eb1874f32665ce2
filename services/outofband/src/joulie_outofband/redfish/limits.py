"""Power limits and readings in the three places where BMCs have them. No I/O.

Source: DMTF schemas Power (deprecated, and the only one of many BMCs), EnvironmentMetrics and Control.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from joulie_core.kinds.node_bmc import LimitException, PowerLimitUnit
from joulie_core.plausible import plausible_value
from joulie_outofband.bmc import PowerLimit

_DISABLED: Final = "Disabled"
_EXCEPTIONS: Final = {each.value: each for each in LimitException}
_UNITS: Final = {"W": PowerLimitUnit.WATTS, "%": PowerLimitUnit.PERCENT}

Part = Mapping[str, Any]


class LimitResource(Protocol):
    """Way to read and write the limit of one kind of resource."""

    @property
    def path(self) -> str:
        """Path of the resource."""

    def read(self, body: Part) -> PowerLimit | None:
        """Return the limit; None where the resource has none."""

    def change(self, body: Part, watts: float | None) -> dict[str, Any]:
        """Return the body of the PATCH that sets a limit, or with None switches it off."""


def number(value: object) -> float | None:
    """Return a JSON number that may be a power in watts or a time; None for anything else.

    Compared before it is converted: JSON has integers that no float can represent.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    plausible = plausible_value(value)
    return None if plausible is None else float(plausible)


def text(value: object) -> str:
    """Return a JSON string; empty for anything else."""
    return value if isinstance(value, str) else ""


def part(body: object, name: str) -> Part:
    """Return an object within a resource; empty where it is absent or something else."""
    found = body.get(name) if isinstance(body, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def power_controls(body: Part) -> list[Part]:
    """Return the elements of `PowerControl` of a Power resource."""
    found = body.get("PowerControl")
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def limit_exception(body: Part) -> LimitException | None:
    """Return what a Power resource does when its limit is not held; None where it does not say."""
    for element in power_controls(body)[:1]:
        value = part(element, "PowerLimit").get("LimitException")
        if value is not None:
            return _EXCEPTIONS.get(text(value), LimitException.OTHER)
    return None


@dataclass(frozen=True, slots=True)
class PowerControlLimit:
    """The limit of the first element of `PowerControl`: that of the whole server."""

    path: str

    def read(self, body: Part) -> PowerLimit | None:
        """Return the limit; `LimitInWatts` null is none in force."""
        elements = power_controls(body)
        if not elements or "LimitInWatts" not in part(elements[0], "PowerLimit"):
            return None
        first = elements[0]
        watts = number(part(first, "PowerLimit")["LimitInWatts"])
        return PowerLimit(watts or None, max_watts=number(first.get("PowerCapacityWatts")) or None)

    def change(self, body: Part, watts: float | None) -> dict[str, Any]:
        """Return the PATCH; the other elements stay as they are. BMCs take whole watts only."""
        rest: list[dict[str, Any]] = [{} for _ in power_controls(body)[1:]]
        limit = None if watts is None else math.floor(watts)
        return {"PowerControl": [{"PowerLimit": {"LimitInWatts": limit}}, *rest]}


@dataclass(frozen=True, slots=True)
class EnvironmentLimit:
    """`PowerLimitWatts` of EnvironmentMetrics."""

    path: str

    def read(self, body: Part) -> PowerLimit | None:
        """Return the limit, in watts by the name of the property."""
        stanza = part(body, "PowerLimitWatts")
        return _set_point(stanza, PowerLimitUnit.WATTS) if stanza else None

    def change(self, body: Part, watts: float | None) -> dict[str, Any]:
        """Return the PATCH."""
        return {"PowerLimitWatts": _set_point_change(part(body, "PowerLimitWatts"), watts)}


@dataclass(frozen=True, slots=True)
class ControlLimit:
    """A Control of the type `Power`."""

    path: str

    def read(self, body: Part) -> PowerLimit | None:
        """Return the limit in the unit that the control names."""
        if body.get("ControlType") != "Power":
            return None
        return _set_point(body, _UNITS.get(text(body.get("SetPointUnits")), PowerLimitUnit.OTHER))

    def change(self, body: Part, watts: float | None) -> dict[str, Any]:
        """Return the PATCH."""
        return _set_point_change(body, watts)


def _set_point(stanza: Part, unit: PowerLimitUnit) -> PowerLimit:
    if unit is not PowerLimitUnit.WATTS:
        return PowerLimit(None, unit)
    watts = None if stanza.get("ControlMode") == _DISABLED else number(stanza.get("SetPoint"))
    low = stanza.get("AllowableMin", stanza.get("SettingRangeMin"))
    high = stanza.get("AllowableMax", stanza.get("SettingRangeMax"))
    return PowerLimit(watts or None, unit, number(low), number(high) or None)


def _set_point_change(stanza: Part, watts: float | None) -> dict[str, Any]:
    if watts is None:
        return {"ControlMode": _DISABLED}
    modes = stanza.get("ControlMode@Redfish.AllowableValues")
    mode = "Manual" if isinstance(modes, list) and "Automatic" not in modes and "Manual" in modes else "Automatic"
    return {"SetPoint": math.floor(watts), "ControlMode": mode}
