"""Views of Nodes, NodePowerProfiles, NodeTwins and TelemetryProfiles."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from joulie_api.wire.metadata import WireConditions, WireObject
from joulie_cli.views import make_decoder
from joulie_core import labels as keys
from joulie_core.plausible import plausible_value
from joulie_core.timestamps import epoch_seconds

_CORDONED: Final = "Cordoned"
#: Results of control actions that need attention.
_FAILED_RESULTS: Final = ("blocked", "error")
#: A lower cap is no cap: the services write 0 where they know none.
_LEAST_CAP_WATTS: Final = 1.0


class _TargetSpec(msgspec.Struct):
    profile: str | None = None
    draining: bool = False


class _Target(WireObject):
    spec: _TargetSpec | None = None
    status: WireConditions | None = None


class _Power(msgspec.Struct):
    source: str | None = None
    quality: str | None = None
    watts: float | None = msgspec.field(default=None, name="measuredNodePowerW")
    cap: float | None = msgspec.field(default=None, name="nodeCappedPowerW")
    trend: float | None = msgspec.field(default=None, name="powerTrendWPerMin")


class _Server(msgspec.Struct, rename="camel"):
    source: str | None = None
    watts: float | None = msgspec.field(default=None, name="measuredServerPowerW")
    sampled_at: str | None = None
    interval_seconds: float | None = None


class _TwinStatus(msgspec.Struct, rename="camel"):
    schedulable_class: str | None = None
    headroom: float | None = msgspec.field(default=None, name="predictedPowerHeadroomScore")
    cooling: float | None = msgspec.field(default=None, name="predictedCoolingStressScore")
    psu: float | None = msgspec.field(default=None, name="predictedPsuStressScore")
    power_measurement: _Power | None = None
    server_measurement: _Server | None = None
    last_updated: str | None = None


class _Twin(WireObject):
    status: _TwinStatus | None = None


class _Control(msgspec.Struct, rename="camel"):
    backend: str = ""
    result: str = "none"
    reason: str = ""
    message: str = ""
    requested_watts: float | None = None
    enforced_watts: float | None = None
    throttle_pct: float | None = None


class _Controls(msgspec.Struct):
    cpu: _Control | None = None
    gpu: _Control | None = None


class _ReportStatus(msgspec.Struct):
    control: _Controls | None = None


class _Report(WireObject):
    status: _ReportStatus | None = None


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """A Node's labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def profile(self) -> str | None:
        """The profile label."""
        return self.labels.get(keys.POWER_PROFILE)

    @property
    def draining(self) -> bool:
        """Whether the node is labelled as draining."""
        return self.labels.get(keys.DRAINING) == "true"

    @property
    def sleep_state(self) -> str | None:
        """The state of a node that sleeps, goes to sleep or is waking; None of one that is awake."""
        return self.labels.get(keys.SLEEP_STATE)


@dataclass(frozen=True, slots=True)
class TargetView:
    """View of a NodePowerProfile."""

    name: str
    profile: str | None = None
    draining: bool = False
    #: Whether the node is cordoned, as far as the operator has written it.
    cordoned: bool | None = None
    #: Status and reason of the condition `Enforced`.
    enforced: str | None = None
    enforced_reason: str = ""


@dataclass(frozen=True, slots=True)
class TwinView:
    """View of a NodeTwin."""

    name: str
    schedulable_class: str | None = None
    headroom_pct: float | None = None
    cooling_pct: float | None = None
    psu_pct: float | None = None
    watts: float | None = None
    cap_watts: float | None = None
    trend_w_per_min: float | None = None
    quality: str | None = None
    source: str | None = None
    #: Seconds since the epoch.
    updated_s: float | None = None
    server: "ServerView | None" = None


@dataclass(frozen=True, slots=True)
class ServerView:
    """Power of the whole server, by its BMC; it does not compare with the caps."""

    watts: float
    source: str | None = None
    #: Seconds since the epoch.
    sampled_s: float | None = None
    interval_s: float | None = None

    def data(self, age_s: float | None) -> dict[str, Any]:
        """Return the power for JSON and YAML."""
        return {
            "watts": self.watts,
            "source": self.source,
            "ageSeconds": None if age_s is None else round(age_s, 1),
            "intervalSeconds": self.interval_s,
        }


@dataclass(frozen=True, slots=True)
class ControlView:
    """The agent's report on one subsystem; watts are per CPU package or per GPU."""

    backend: str = ""
    result: str = "none"
    reason: str = ""
    message: str = ""
    requested_watts: float | None = None
    enforced_watts: float | None = None
    throttle_pct: float | None = None

    @property
    def failed(self) -> bool:
        """Whether it needs attention."""
        return self.result in _FAILED_RESULTS

    def data(self) -> dict[str, Any]:
        """Return the report for JSON and YAML."""
        return {
            "backend": self.backend or None,
            "result": self.result,
            "reason": self.reason or None,
            "message": self.message or None,
            "requestedWatts": self.requested_watts,
            "enforcedWatts": self.enforced_watts,
            "throttlePct": self.throttle_pct,
        }


@dataclass(frozen=True, slots=True)
class ReportView:
    """View of the status of a TelemetryProfile."""

    name: str
    cpu: ControlView | None = None
    gpu: ControlView | None = None


def _marks(wire: WireObject) -> NodeMarks:
    return NodeMarks(wire.metadata.name, wire.metadata.labels or {})


def _target(wire: _Target) -> TargetView:
    spec = wire.spec or _TargetSpec()
    status = wire.status or WireConditions()
    planned, enforced = status.find("Planned"), status.find("Enforced")
    return TargetView(
        name=wire.metadata.name,
        profile=spec.profile,
        draining=spec.draining,
        cordoned=None if planned is None else planned.reason == _CORDONED,
        enforced=enforced.status if enforced else None,
        enforced_reason=enforced.reason if enforced else "",
    )


def _twin(wire: _Twin) -> TwinView:
    status = wire.status or _TwinStatus()
    power = status.power_measurement or _Power()
    return TwinView(
        name=wire.metadata.name,
        schedulable_class=status.schedulable_class,
        headroom_pct=status.headroom,
        cooling_pct=status.cooling,
        psu_pct=status.psu,
        watts=plausible_value(power.watts),
        cap_watts=plausible_value(power.cap, at_least=_LEAST_CAP_WATTS),
        trend_w_per_min=power.trend,
        quality=power.quality,
        source=power.source,
        updated_s=epoch_seconds(status.last_updated),
        server=_server(status.server_measurement),
    )


def _server(wire: _Server | None) -> ServerView | None:
    watts = None if wire is None else plausible_value(wire.watts)
    if wire is None or watts is None:
        return None
    return ServerView(watts, wire.source, epoch_seconds(wire.sampled_at), wire.interval_seconds)


def _control(wire: _Control | None) -> ControlView | None:
    return None if wire is None else ControlView(*(getattr(wire, name) for name in _Control.__struct_fields__))


def _report(wire: _Report) -> ReportView:
    controls = (wire.status.control if wire.status else None) or _Controls()
    return ReportView(wire.metadata.name, _control(controls.cpu), _control(controls.gpu))


decode_marks: Final = make_decoder(WireObject, "Node", _marks)
decode_target: Final = make_decoder(_Target, "NodePowerProfile", _target)
decode_twin: Final = make_decoder(_Twin, "NodeTwin", _twin)
decode_report: Final = make_decoder(_Report, "TelemetryProfile", _report)
