"""The `status.conditions` of a NodePowerProfile: planned, draining since when, and the result of its enforcement.

`Planned` is true while the policy chooses the node's profile and false while the node is cordoned and keeps its last
one. `Draining` is true while performance pods hold the caps up; its lastTransitionTime is since when. `Enforced`
mirrors the agent's report for the subsystems that the target names: true where all are applied, false where one is
blocked or failed, unknown while the agent has not reported. A time changes only when a status does, so that
conditions can be compared and a restart, which reads them from the API server, forgets nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.control_result import ControlResult
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import ControlReport, ControlReports, TelemetryProfile
from joulie_core.names import NodeName
from joulie_operator.published import PublishedCondition
from joulie_operator.reasons import ConditionReason
from joulie_operator.workqueue import ChangeListener, ChangeScope, ClusterChange


class ConditionType(StrEnum):
    """The conditions, in the order in which they are written."""

    PLANNED = "Planned"
    DRAINING = "Draining"
    ENFORCED = "Enforced"


_STATUS: Final = {
    ControlResult.APPLIED: ConditionStatus.TRUE,
    ControlResult.BLOCKED: ConditionStatus.FALSE,
    ControlResult.ERROR: ConditionStatus.FALSE,
    ControlResult.NONE: ConditionStatus.UNKNOWN,
}
#: The worst result of a subsystem is that of the node.
_SEVERITY: Final = (ControlResult.APPLIED, ControlResult.NONE, ControlResult.BLOCKED, ControlResult.ERROR)
_MESSAGE_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True)
class SubsystemReport:
    """The agent's report on the CPUs or the GPUs, as far as conditions and events repeat it."""

    result: ControlResult
    reason: str
    #: Without the name of the subsystem.
    message: str


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The agent's report on a node; None for a subsystem that is not in it."""

    cpu: SubsystemReport | None = None
    gpu: SubsystemReport | None = None


NO_REPORT: Final = NodeReport()


class ReportCache:
    """The latest report of every node; `on_change` is called when one differs from the one before."""

    def __init__(self, on_change: ChangeListener) -> None:
        self._on_change = on_change
        self._reports: dict[NodeName, NodeReport] = {}

    def on_profile(self, key: str, profile: TelemetryProfile | None) -> None:
        """Take a change of a TelemetryProfile; the one named as a node is where its agent reports."""
        name = NodeName(key)
        report = report_of(profile.status.control if profile is not None else None)
        if report == self._reports.get(name, NO_REPORT):
            return
        if report == NO_REPORT:
            del self._reports[name]
        else:
            self._reports[name] = report
        self._on_change(ClusterChange(ChangeScope.REPORT, name))

    def of(self, name: NodeName) -> NodeReport:
        """Return what is known of a node."""
        return self._reports.get(name, NO_REPORT)


def report_of(control: ControlReports | None) -> NodeReport:
    """Return what is kept of an agent's report."""
    return NO_REPORT if control is None else NodeReport(_part_of(control.cpu), _part_of(control.gpu))


def conditions_of(
    spec: NodePowerProfileSpec, report: NodeReport, *, cordoned: bool, before: Iterable[PublishedCondition], now: str
) -> tuple[PublishedCondition, ...]:
    """Return the conditions of a target.

    Args:
        spec: the target as published.
        report: the agent's report.
        cordoned: whether the node is left out of the plan.
        before: the conditions as they were; a status that is still the same keeps its time.
        now: wall-clock time for what changed, RFC 3339.

    """
    since = {each.type: (each.status, each.last_transition_time) for each in before}

    def condition(type_: ConditionType, status: ConditionStatus, reason: str, message: str) -> PublishedCondition:
        old_status, old_time = since.get(type_, ("", ""))
        return PublishedCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=old_time if old_status == status and old_time else now,
        )

    return (
        condition(ConditionType.PLANNED, *_planned(spec, cordoned=cordoned)),
        condition(ConditionType.DRAINING, *_draining(spec)),
        condition(ConditionType.ENFORCED, *_enforced(spec, report)),
    )


def refusal(before: Iterable[PublishedCondition], after: Iterable[PublishedCondition]) -> PublishedCondition | None:
    """Return the `Enforced` condition where the hardware refuses and did not before, or now for another reason."""
    old, new = _find(before, ConditionType.ENFORCED), _find(after, ConditionType.ENFORCED)
    if new is None or new.status != ConditionStatus.FALSE:
        return None
    return None if old is not None and (old.status, old.reason) == (new.status, new.reason) else new


_Content = tuple[ConditionStatus, str, str]


def _planned(spec: NodePowerProfileSpec, *, cordoned: bool) -> _Content:
    if cordoned:
        return ConditionStatus.FALSE, ConditionReason.CORDONED, f"keeps {spec.profile} while it is cordoned"
    policy = spec.policy
    why = f" by {policy.name}: {policy.reason}" if policy is not None else ""
    return ConditionStatus.TRUE, ConditionReason.POLICY, f"{spec.profile}{why}"


def _draining(spec: NodePowerProfileSpec) -> _Content:
    if not spec.draining:
        return ConditionStatus.FALSE, ConditionReason.NOT_DRAINING, ""
    message = "performance pods are still running; the caps stay at the performance level until the last one has left"
    return ConditionStatus.TRUE, ConditionReason.PERFORMANCE_PODS, message


def _enforced(spec: NodePowerProfileSpec, report: NodeReport) -> _Content:
    targeted = [
        (name, part)
        for name, stanza, part in (("cpu", spec.cpu, report.cpu), ("gpu", spec.gpu, report.gpu))
        if stanza is not None
    ]
    if not targeted:
        return ConditionStatus.TRUE, ConditionReason.NO_INTENT, "the target sets no caps"
    missing = [name for name, part in targeted if part is None]
    reported = [(name, part) for name, part in targeted if part is not None]
    worst = max((part for _, part in reported), key=lambda part: _SEVERITY.index(part.result), default=None)
    if worst is None or (missing and _STATUS[worst.result] is not ConditionStatus.FALSE):
        return (
            ConditionStatus.UNKNOWN,
            ConditionReason.NOT_REPORTED,
            f"the agent has not reported on {' and '.join(missing)}",
        )
    return _STATUS[worst.result], worst.reason or worst.result, _message(reported)


def _message(reported: Sequence[tuple[str, SubsystemReport]]) -> str:
    return "; ".join(f"{name}: {part.message}" for name, part in reported)[:_MESSAGE_LIMIT]


def _part_of(report: ControlReport | None) -> SubsystemReport | None:
    if report is None:
        return None
    what = " ".join(str(word) for word in (report.backend, report.result) if word)
    if report.result is ControlResult.APPLIED:
        # The agent's message on a cap that is in force may change with every reading; the watts do not.
        return SubsystemReport(report.result, report.reason, f"{what}{_watts(report)}")
    return SubsystemReport(report.result, report.reason, f"{what}, {report.message}" if report.message else what)


def _watts(report: ControlReport) -> str:
    watts = report.enforced_watts if report.enforced_watts is not None else report.requested_watts
    return "" if watts is None else f", {watts:.0f} W"


def _find(conditions: Iterable[PublishedCondition], type_: ConditionType) -> PublishedCondition | None:
    return next((each for each in conditions if each.type == type_), None)
