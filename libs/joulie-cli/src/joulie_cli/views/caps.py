"""Caps of the CPUs and GPUs of one node, and their origin: profile, power budget and its domain, class of holders."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire import decode_kind
from joulie_cli.layout import UNKNOWN, Cell, watts
from joulie_cli.views import Raw
from joulie_cli.views.power_domains import BudgetView
from joulie_core.control_result import ControlResult
from joulie_core.kinds import TelemetryProfile
from joulie_core.kinds.held_devices import DeviceReport
from joulie_core.kinds.telemetry_profile import ControlReport, ControlReports, TelemetryProfileStatus

_decode: Final = decode_kind(TelemetryProfile)
#: GPUs that are listed one by one.
_MOST_GPUS: Final = 8
_DEVICES: Final = {"cpu": "package", "gpu": "GPU"}


@dataclass(frozen=True, slots=True)
class NodeCaps:
    """The reports about the caps of one node; `report` is None where its agent has none, or none that can be read."""

    report: TelemetryProfileStatus | None = None
    budget: BudgetView | None = None

    def fields(self) -> Iterator[tuple[str, str | Cell]]:
        """Yield what binds each subsystem, and the limits by class; nothing of a node without a report."""
        if self.report is None:
            return
        control = self.report.control or ControlReports()
        for subsystem, report in (("cpu", control.cpu), ("gpu", control.gpu)):
            if report is not None:
                yield f"{subsystem.upper()} cap", _cap(subsystem, report, self.budget)
        limits = [each for each in self.report.devices or () if _is_limited(each)]
        for each in limits[:_MOST_GPUS]:
            yield f"GPU {each.index}", _class_limit(each)
        if len(limits) > _MOST_GPUS:
            yield "GPUs", f"{len(limits) - _MOST_GPUS} more with limits by class"

    def data(self) -> dict[str, Any]:
        """Return the reports as JSON has them."""
        report = self.report
        return {
            "control": None if report is None or report.control is None else report.control.dump(),
            "powerBudget": None if self.budget is None else self.budget.data(),
            "devices": [each.dump() for each in report.devices or ()] if report is not None else [],
        }


def decode_caps(raw: Raw) -> TelemetryProfileStatus | None:
    """Decode the report of a node; None where it cannot be read."""
    try:
        return decode(_decode, raw, "TelemetryProfile").model.status
    except DecodeError:
        return None


def _cap(subsystem: str, report: ControlReport, budget: BudgetView | None) -> Cell:
    if report.requested_watts is None:
        return Cell(f"none, {report.reason or UNKNOWN}")
    held = UNKNOWN if report.enforced_watts is None else watts(report.enforced_watts)
    text = f"{held} W for each {_DEVICES[subsystem]}, {_source(report.cap_source, budget)}"
    if report.result is ControlResult.APPLIED:
        return Cell(text)
    return Cell(f"{text}; {watts(report.requested_watts)} W asked: {report.result}, {report.reason}", "red")


def _source(source: str, budget: BudgetView | None) -> str:
    if source == "budget":
        return f"by {_budget(budget)}"
    if source == "profile":
        return f"by the profile, below {_budget(budget)}"
    return "by the profile"


def _budget(budget: BudgetView | None) -> str:
    if budget is None:
        return "the power budget"
    domain = f" of power domain {budget.domain}" if budget.domain else ""
    limit = "" if budget.asked_watts is None else f", {watts(budget.asked_watts)} W for the node"
    return f"the power budget{domain}{limit}"


def _is_limited(device: DeviceReport) -> bool:
    limit = device.class_limit
    return limit is not None and (limit.clock_mhz is not None or limit.watts is not None or limit.enforced is not None)


def _class_limit(device: DeviceReport) -> Cell:
    limit = device.class_limit
    assert limit is not None, "asked for a device with a limit"
    enforced = limit.enforced
    if enforced is not None and enforced.limit_mhz is not None:
        return Cell(f"{enforced.limit_mhz} MHz by the class of its holders ({enforced.reason})")
    if enforced is not None:
        return Cell(f"no limit by the class of its holders ({enforced.reason or UNKNOWN})")
    bound = f"{limit.clock_mhz} MHz" if limit.clock_mhz is not None else f"{watts(limit.watts)} W"
    return Cell(f"would have {bound} by the class of its holders; it is not set")
