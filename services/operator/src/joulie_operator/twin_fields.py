"""Changes of a NodeTwin that are worth a write, declared for every field.

A decisive field is written at once: the scheduler may do something else. A banded one is written when it has moved by
more than its band, or has appeared or gone, but at most once in the tracker's least interval; so is a stepped one, when
it differs at all. An ignored one is carried by the next write.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from joulie_core.kinds.base import Model
from joulie_core.kinds.node_twin import NodeTwinStatus


class Unbanded(Enum):
    """Fields that are compared for equality, or not at all."""

    DECISIVE = "decisive"
    #: Moves in steps that were made where it comes from.
    STEPPED = "stepped"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Band:
    """A change of up to this much is not written."""

    width: float
    #: Whether the width is a share of the node's TDP and not in the field's own unit.
    of_tdp: bool = False


FieldRule = Unbanded | Band

#: Points of a score (0 to 100).
_SCORE: Final = Band(2.0)

#: Fields of NodeTwinStatus, without the measurements, whose own fields follow.
STATUS_FIELDS: Final[Mapping[str, FieldRule]] = MappingProxyType(
    {
        "schedulable_class": Unbanded.DECISIVE,
        "predicted_power_headroom_score": _SCORE,
        "predicted_cooling_stress_score": _SCORE,
        "predicted_psu_stress_score": _SCORE,
        "hardware_density_score": Unbanded.DECISIVE,
        "estimated_pue": Band(0.05),
        "effective_cap_state": Unbanded.DECISIVE,
        "power_domains": Unbanded.STEPPED,
        "last_updated": Unbanded.IGNORED,
    }
)
#: Fields of PowerMeasurement; that there is one at all is decisive.
POWER_FIELDS: Final[Mapping[str, FieldRule]] = MappingProxyType(
    {
        "source": Unbanded.DECISIVE,
        "quality": Unbanded.DECISIVE,
        "measured_node_power_w": Band(0.02, of_tdp=True),
        "cpu_capped_power_w": Unbanded.DECISIVE,
        "gpu_capped_power_w": Unbanded.DECISIVE,
        "node_capped_power_w": Unbanded.DECISIVE,
        "cpu_tdp_w": Unbanded.DECISIVE,
        "gpu_tdp_w": Unbanded.DECISIVE,
        "node_tdp_w": Unbanded.DECISIVE,
        # Watts per minute: two points of score at the steady trend scale.
        "power_trend_w_per_min": Band(12.0),
    }
)
#: Fields of ServerMeasurement; that there is one at all is decisive.
SERVER_FIELDS: Final[Mapping[str, FieldRule]] = MappingProxyType(
    {
        "source": Unbanded.DECISIVE,
        "measured_server_power_w": Band(10.0),
        "sampled_at": Unbanded.IGNORED,
        "interval_seconds": Unbanded.DECISIVE,
    }
)


def _decisive_of(fields: Mapping[str, FieldRule]) -> Callable[[Model], tuple[object, ...]]:
    return attrgetter(*(name for name, rule in fields.items() if rule is Unbanded.DECISIVE))


def _stepped_of(fields: Mapping[str, FieldRule]) -> tuple[str, ...]:
    return tuple(name for name, rule in fields.items() if rule is Unbanded.STEPPED)


_DECISIVE_STATUS: Final = _decisive_of(STATUS_FIELDS)
_DECISIVE_POWER: Final = _decisive_of(POWER_FIELDS)
_DECISIVE_SERVER: Final = _decisive_of(SERVER_FIELDS)
_STEPPED_STATUS: Final = _stepped_of(STATUS_FIELDS)
_BANDED_STATUS: Final = tuple((name, rule) for name, rule in STATUS_FIELDS.items() if isinstance(rule, Band))
_BANDED_POWER: Final = tuple((name, rule) for name, rule in POWER_FIELDS.items() if isinstance(rule, Band))
_BANDED_SERVER: Final = tuple((name, rule) for name, rule in SERVER_FIELDS.items() if isinstance(rule, Band))


def decisive(status: NodeTwinStatus) -> tuple[object, ...]:
    """Return the part of a twin whose every change is written at once."""
    power, server = status.power_measurement, status.server_measurement
    return (
        _DECISIVE_STATUS(status),
        None if power is None else _DECISIVE_POWER(power),
        None if server is None else _DECISIVE_SERVER(server),
    )


def has_moved(old: NodeTwinStatus, new: NodeTwinStatus) -> bool:
    """Return whether a banded field has left the band around what was written, or a stepped one differs."""
    power = new.power_measurement
    return (
        any(getattr(old, name) != getattr(new, name) for name in _STEPPED_STATUS)
        or _moved(_BANDED_STATUS, old, new, 0.0)
        or _part_moved(_BANDED_POWER, old.power_measurement, power, power.node_tdp_w if power is not None else 0.0)
        or _part_moved(_BANDED_SERVER, old.server_measurement, new.server_measurement, 0.0)
    )


def _part_moved(
    fields: tuple[tuple[str, Band], ...], before: Model | None, after: Model | None, tdp_watts: float
) -> bool:
    if before is None or after is None:
        return before is not after
    return _moved(fields, before, after, tdp_watts)


def _moved(fields: tuple[tuple[str, Band], ...], old: Model, new: Model, tdp_watts: float) -> bool:
    return any(
        _differs(getattr(old, name), getattr(new, name), band.width * tdp_watts if band.of_tdp else band.width)
        for name, band in fields
    )


def _differs(old: float | None, new: float | None, width: float) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(old - new) > width
