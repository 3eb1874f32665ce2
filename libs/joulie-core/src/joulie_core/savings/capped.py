"""Watts that a cap saves on the CPUs or the GPUs of one node, with the longer run of the work counted against it.

Under a cap that binds, work proceeds at the speed r of `CapResponse`. Without it the same work draws the natural power
n for the share r of the time, and the device idles in the rest: r * n + (1 - r) * idle. A cap above what is drawn
changes nothing. Where the draw is not measured the saving is unknown.
"""

from dataclasses import dataclass, replace
from typing import Final

from joulie_core.hardware.power_curve import CapResponse
from joulie_core.plausible import is_measured
from joulie_core.savings.rates import NO_SAVING, EstimateRange

#: Share of a cap from which on what is drawn counts as held by it: under a binding cap of GPUs 0.90 to 0.94 of the cap
#: were measured (docs/models.md).
BINDING_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True)
class CappedDevices:
    """The CPUs, or the GPUs, of one node together, in watts at the device."""

    #: Limit in force.
    cap_watts: float
    #: Measured; None: unknown.
    drawn_watts: float | None
    idle_watts: float
    #: What the same work would draw without the cap, modelled.
    natural_watts: float
    #: At full load.
    most_watts: float
    response: CapResponse
    #: Lowest and highest exponent of the law.
    exponents: tuple[float, float]


def cap_watts_saved(devices: CappedDevices) -> EstimateRange | None:
    """Return the watts that are saved now, at the device; None where they are unknown."""
    drawn_watts = devices.drawn_watts
    if not is_measured(drawn_watts):
        return None
    assert drawn_watts is not None, "it is measured"
    if drawn_watts < BINDING_SHARE * devices.cap_watts:
        return NO_SAVING
    natural_watts = min(max(devices.natural_watts, drawn_watts), max(devices.most_watts, drawn_watts))
    middle = _saved(devices.response, devices, drawn_watts, natural_watts)
    corners = [
        _saved(replace(devices.response, exponent=exponent), devices, drawn_watts, watts)
        for exponent in devices.exponents
        for watts in (drawn_watts, natural_watts, max(devices.most_watts, drawn_watts))
    ]
    return EstimateRange(min(middle, *corners), middle, max(middle, *corners))


def _saved(response: CapResponse, devices: CappedDevices, drawn_watts: float, natural_watts: float) -> float:
    speed = response.retention(drawn_watts, natural_watts, devices.idle_watts)
    return speed * natural_watts + (1.0 - speed) * min(devices.idle_watts, natural_watts) - drawn_watts
