"""Metrics of the VEN."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from joulie_api.apply import WriteResult
from joulie_ven.limits import LimitPlan
from joulie_ven.reasons import VtnReason


class VenMetrics:
    """Metrics of one VEN."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._polls = Counter(
            "joulie_ven_polls", "Polls of the VTN, by the reason of their end.", ("reason",), registry=registry
        )
        self._success = Gauge(
            "joulie_ven_last_success_timestamp_seconds",
            "Time of the last poll that succeeded, in seconds since the epoch; 0 before the first.",
            registry=registry,
        )
        self._ahead = Gauge(
            "joulie_ven_vtn_clock_ahead_seconds",
            "Seconds that the VTN's clock is ahead of the VEN's; NaN while not known.",
            registry=registry,
        )
        self._ahead.set(float("nan"))
        self._events = Gauge(
            "joulie_ven_events",
            "Events of the program at the last poll that succeeded: used, ignored (for other targets), refused.",
            ("result",),
            registry=registry,
        )
        self._deferred = Gauge(
            "joulie_ven_limits_deferred",
            "Limits that are not written yet, since the VEN has as many PowerEvents as it may.",
            registry=registry,
        )
        self._writes = Counter(
            "joulie_ven_writes", "Intended writes by their result.", ("kind", "result"), registry=registry
        )
        self._reports = Counter("joulie_ven_reports", "Reports to the VTN.", ("result",), registry=registry)

    def on_poll(self, reason: VtnReason, ahead_s: float | None, now_s: float) -> None:
        """Count a poll."""
        self._polls.labels(reason).inc()
        self._ahead.set(float("nan") if ahead_s is None else ahead_s)
        if reason is VtnReason.OK:
            self._success.set(now_s)

    def on_plan(self, plan: LimitPlan, *, events: int, unreadable: int) -> None:
        """Show what became of the events."""
        refused = len(plan.refused) + unreadable
        self._events.labels("refused").set(refused)
        self._events.labels("ignored").set(plan.ignored)
        self._events.labels("used").set(events - len(plan.refused) - plan.ignored)
        self._deferred.set(plan.deferred)

    def on_write(self, kind: str, result: WriteResult) -> None:
        """Count an intended write to the API server."""
        self._writes.labels(kind, result).inc()

    def on_report(self, *, sent: bool) -> None:
        """Count a report."""
        self._reports.labels("sent" if sent else "failed").inc()
