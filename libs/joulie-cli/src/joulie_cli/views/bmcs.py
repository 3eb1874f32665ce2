"""Views of NodeBMCs, to show and check them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from joulie_api.wire.metadata import WireConditions, WireObject
from joulie_cli.views import make_decoder
from joulie_core.kinds.node_bmc import STATUS_HEARTBEAT_S
from joulie_core.plausible import plausible_value, reading_watts
from joulie_core.timestamps import epoch_seconds


class _Spec(msgspec.Struct):
    cap: dict[str, Any] | None = None


class _Status(WireConditions, rename="camel"):
    power_state: str | None = None
    power_watts: float | None = None
    sampled_at: str | None = None
    interval_seconds: float | None = None


class _Bmc(WireObject):
    spec: _Spec | None = None
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class BmcView:
    """View of a NodeBMC, to show and check it; `conditions` are status and reason by type."""

    name: str
    has_cap: bool = False
    power: str | None = None
    #: The last reading.
    power_watts: float | None = None
    sampled_at_s: float | None = None
    #: Seconds between two readings.
    interval_s: float = STATUS_HEARTBEAT_S
    conditions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def reachable(self) -> bool | None:
        """Whether it answers; None: nothing is known."""
        return {"True": True, "False": False}.get(self.conditions.get("Reachable", ("", ""))[0])

    @property
    def watts(self) -> float | None:
        """Power of the server; a reading from before the BMC fell silent is none."""
        return reading_watts(self.power_watts) if self.reachable else None


def _bmc(wire: _Bmc) -> BmcView:
    status = wire.status or _Status()
    return BmcView(
        name=wire.metadata.name,
        has_cap=wire.spec is not None and wire.spec.cap is not None,
        power=status.power_state,
        power_watts=status.power_watts,
        sampled_at_s=epoch_seconds(status.sampled_at),
        interval_s=max(STATUS_HEARTBEAT_S, plausible_value(status.interval_seconds) or 0.0),
        conditions={each.type: (each.status, each.reason) for each in status.conditions or ()},
    )


decode_bmc: Final = make_decoder(_Bmc, "NodeBMC", _bmc)
