"""The limits that GPUs would have as `status.devices` of the TelemetryProfile shows them."""

from collections.abc import Mapping

from joulie_agent.class_limits.shadow import ShadowLimit, ShadowState
from joulie_core.class_caps.limit_effect import EffectBand, NotStated
from joulie_core.kinds.held_devices import BandReport, ClassLimitNow, ClassLimitReport


def limit_reports(state: ShadowState) -> Mapping[str, ClassLimitReport]:
    """Return the report of each limit, by UUID."""
    return {uuid: _report(each) for uuid, each in (state.limits or {}).items()}


def _report(found: ShadowLimit) -> ClassLimitReport:
    limit, allowed = found.held.limit, found.held.allowed
    return ClassLimitReport(
        reason=limit.reason,
        message=found.held.message,
        allowed_slowdown=allowed or "",
        clock_mhz=limit.clock_mhz,
        watts=None if limit.cap_watts is None else round(limit.cap_watts, 1),
        held_clock_mhz=found.held_mhz,
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
