"""Reports that events request, from the status of their PowerEvents: before the first start, and after the last end.

What is not known is not sent: an interval of which a minute is missing has DATA_QUALITY MISSING in place of a figure,
one whose id is not known is left out, and a report without any figure is not sent before the start. A failed report is
repeated at the next polls.
Source: OpenADR 3.1.0, User Guide 7.5, and `enumerations/report-payloads.schema.yaml`.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

import structlog

from joulie_api.failure_log import FailureLog
from joulie_ven.figures import FORECASTS, HISTORICAL, Figure, figures, units_of
from joulie_ven.limits import LimitKind
from joulie_ven.metrics import VenMetrics
from joulie_ven.objects import OwnEvent
from joulie_ven.reasons import VtnError
from joulie_ven.settings import VenSettings
from joulie_ven.times import iso_duration
from joulie_ven.vtn import ReadEvents, Vtn
from joulie_ven.wire import ReportDescriptor

#: After the last end, so that the operator has written the last minute.
_SETTLE_S: Final = 120.0
#: Time after the last end within which a report is tried.
_TRIED_S: Final = 3600.0
_log = structlog.get_logger()
Json = dict[str, Any]


class ReportSender:
    """Sends each report once; at the VTN, a report is known by its name."""

    def __init__(self, vtn: Vtn, settings: VenSettings, metrics: VenMetrics) -> None:
        self._vtn = vtn
        self._settings = settings
        self._metrics = metrics
        #: Names of reports that are sent, or not requested.
        self._done: set[str] = set()
        self._problems = FailureLog(_log, failed="report not sent", recovered="reports are sent again")

    async def report(self, read: ReadEvents, own: Sequence[OwnEvent], program_id: str, now_s: float) -> None:
        """Send what is due."""
        scheduled = sorted((each for each in own if each.kind is not LimitKind.SUBSCRIPTION), key=_event_id)
        names = set()
        for event_id, parts in groupby(scheduled, key=_event_id):
            intervals = sorted(parts, key=lambda each: each.start_s)
            phase = _phase(intervals, now_s)
            name = f"joulie-{event_id}-{phase}"
            names.add(name)
            if phase and name not in self._done:
                try:
                    await self._send(event_id, intervals, read, program_id, name, historical=phase == "after")
                except VtnError as error:
                    self._problems.failed(error.message, cause=error.reason.value)
                    self._metrics.on_report(sent=False)
        self._done &= names

    async def _send(
        self,
        event_id: str,
        intervals: Sequence[OwnEvent],
        read: ReadEvents,
        program_id: str,
        name: str,
        *,
        historical: bool,
    ) -> None:
        if event_id not in read.events:
            # A VTN lists an event no more that has ended.
            read = ReadEvents()
            await self._vtn.event(event_id, read, program_id)
        event = read.events.get(event_id)
        supported = HISTORICAL if historical else FORECASTS
        asked = [
            each
            for each in (event.report_descriptors if event is not None else None) or ()
            if each.payload_type in supported and (each.historical or not historical) and units_of(each)
        ]
        if not asked or name in await self._vtn.report_names(event_id, self._settings.ven_name):
            self._done.add(name)
            return
        found = [(each, list(figures(each, asked))) for each in intervals if each.interval_id is not None]
        if any(values for _, values in found):
            await self._vtn.send_report(_report(event_id, name, self._settings, asked, found))
            self._done.add(name)
            self._problems.recovered()
            self._metrics.on_report(sent=True)


def _event_id(own: OwnEvent) -> str:
    return own.event_id


def _phase(intervals: Sequence[OwnEvent], now_s: float) -> str:
    """Return which report is due: `before`, `after` or none."""
    if now_s < intervals[0].start_s:
        return "before"
    ended_s = now_s - max(each.end_s for each in intervals)
    return "after" if _SETTLE_S <= ended_s < _TRIED_S else ""


def _report(
    event_id: str,
    name: str,
    settings: VenSettings,
    asked: Iterable[ReportDescriptor],
    found: Iterable[tuple[OwnEvent, Sequence[Figure]]],
) -> Json:
    return {
        "eventID": event_id,
        "clientName": settings.ven_name,
        "reportName": name,
        "payloadDescriptors": [
            {"objectType": "REPORT_PAYLOAD_DESCRIPTOR", "payloadType": each.payload_type, "units": units_of(each)}
            for each in asked
        ],
        "resources": [
            {
                "resourceName": settings.power_domain[:128],
                "intervals": [_interval(own, values) for own, values in found],
            }
        ],
    }


def _interval(own: OwnEvent, values: Iterable[Figure]) -> Json:
    spec = own.found.model.spec
    period = {"start": spec.start} | ({"duration": iso_duration(own.end_s - own.start_s)} if spec.end else {})
    return {
        "id": own.interval_id,
        "intervalPeriod": period,
        "payloads": [{"type": each.payload_type, "values": [each.value]} for each in values],
    }
