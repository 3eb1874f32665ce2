"""The limits that GPUs have, or would have, as `status.devices` of the TelemetryProfile shows them."""

from collections.abc import Mapping
from typing import Final

from joulie_agent.class_limits.enforcement import LIFTED_WITHIN_S, EnforcedGpu
from joulie_agent.class_limits.shadow import ShadowLimit, ShadowState
from joulie_core.class_caps.limit_effect import EffectBand, NotStated
from joulie_core.kinds.held_devices import BandReport, ClassLimitNow, ClassLimitReport, EnforcedLimitReport

#: Ways in which a limit is lifted when other pods come.
POLLING: Final = "Polling"
BEFORE_START: Final = "BeforeStart"


def limit_reports(
    state: ShadowState, enforced: Mapping[str, EnforcedGpu] | None = None, *, waits_s: float | None = None
) -> Mapping[str, ClassLimitReport]:
    """Return the report of each limit, by UUID.

    Args:
        state: the limits as they are computed.
        enforced: those that are set; None where none is.
        waits_s: how long containers wait until limits are lifted, in seconds; None where none waits.
    """
    return {
        uuid: _report(each, None if enforced is None else _enforced(enforced.get(uuid), waits_s))
        for uuid, each in (state.limits or {}).items()
    }


def _enforced(found: EnforcedGpu | None, waits_s: float | None) -> EnforcedLimitReport:
    return EnforcedLimitReport(
        reason=found.reason if found else "",
        limit_mhz=found.limit_mhz if found else None,
        message=found.message if found else "",
        lifted_by=POLLING if waits_s is None else BEFORE_START,
        lifted_within_seconds=LIFTED_WITHIN_S if waits_s is None else waits_s,
    )


def _report(found: ShadowLimit, enforced: EnforcedLimitReport | None) -> ClassLimitReport:
    limit, allowed = found.held.limit, found.held.allowed
    return ClassLimitReport(
        reason=limit.reason,
        message=found.held.message,
        allowed_slowdown=allowed or "",
        clock_mhz=limit.clock_mhz,
        watts=None if limit.cap_watts is None else round(limit.cap_watts, 1),
        held_clock_mhz=found.held_mhz,
        enforced=enforced,
        now=_now(found),
    )


def _now(found: ShadowLimit) -> ClassLimitNow:
    saved, slowdown = (found.effect.saved_watts, found.effect.slowdown_pct) if found.effect else (None, None)
    limited = found.in_force_watts is not None or found.in_force_mhz is not None
    return ClassLimitNow(
        clock_bound=found.clock_bound,
        limited=True if limited else False if found.in_force_known else None,
        limit_watts=None if found.in_force_watts is None else round(found.in_force_watts, 1),
        limit_mhz=found.in_force_mhz,
        saved_watts=_band(saved),
        saved_reason=saved if isinstance(saved, NotStated) else "",
        slowdown_pct=_band(slowdown),
        slowdown_reason=slowdown if isinstance(slowdown, NotStated) else "",
    )


def _band(figure: EffectBand | NotStated | None) -> BandReport | None:
    return (
        BandReport(lower=round(figure.lower, 1), upper=round(figure.upper, 1))
        if isinstance(figure, EffectBand)
        else None
    )
