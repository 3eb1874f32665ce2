"""Joins what was read of each node to one row. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joulie_cli.sleepers import ASLEEP, AWAKE, OFF_STATES
from joulie_cli.views import ControlView, NodeMarks, ReportView, ServerView, TargetView, TwinView
from joulie_core import labels as keys

#: Age from which the extender does not believe a twin, by default.
STALE_AFTER_S: Final = 300.0
#: Results that need attention.
FAILED_RESULTS: Final = ("blocked", "error")


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One managed node; None is unknown."""

    name: str
    marks: NodeMarks | None = None
    target: TargetView | None = None
    twin: TwinView | None = None
    report: ReportView | None = None
    #: Seconds since the twin was updated.
    age_s: float | None = None
    #: Seconds since the BMC answered.
    server_age_s: float | None = None

    @property
    def profile(self) -> str | None:
        """The profile of the node's target, or of its label where it has no target."""
        if self.target is not None:
            return self.target.profile
        return self.marks.profile if self.marks else None

    @property
    def draining(self) -> bool | None:
        """Whether the node is draining; None without a target."""
        return self.target.draining if self.target else None

    @property
    def sleep_state(self) -> str | None:
        """The state of sleep, `awake` without the label; None where the node is not known."""
        return None if self.marks is None else self.marks.sleep_state or AWAKE

    @property
    def asleep(self) -> bool:
        """Whether it is off: its twin then has the power that it would draw if it were on, which is not shown."""
        return self.sleep_state == ASLEEP

    @property
    def may_be_off(self) -> bool:
        """Whether its pods cannot be expected to be ready, since it is off, about to be, or boots."""
        return self.sleep_state in OFF_STATES

    @property
    def schedulable_class(self) -> str | None:
        """The class in the twin."""
        return self.twin.schedulable_class if self.twin else None

    @property
    def headroom_pct(self) -> float | None:
        """Share of the cap that is free."""
        return self.twin.headroom_pct if self.twin and not self.asleep else None

    @property
    def watts(self) -> float | None:
        """Power of the node; None of one that is asleep."""
        return self.twin.watts if self.twin and not self.asleep else None

    @property
    def cap_watts(self) -> float | None:
        """Power that the caps allow."""
        return self.twin.cap_watts if self.twin else None

    @property
    def quality(self) -> str | None:
        """Whether the power was measured or modelled."""
        return self.twin.quality if self.twin and not self.asleep else None

    @property
    def source(self) -> str | None:
        """Where the power comes from."""
        return self.twin.source if self.twin and not self.asleep else None

    @property
    def server(self) -> ServerView | None:
        """Power of the whole server; None where the BMC has none, or the twin is stale."""
        return self.twin.server if self.twin is not None and not self.stale else None

    @property
    def stale(self) -> bool:
        """Whether there is no twin, or one that is too old to be believed, or dated ahead."""
        return self.age_s is None or abs(self.age_s) > STALE_AFTER_S

    @property
    def rack(self) -> str | None:
        """The rack label."""
        return self.marks.labels.get(keys.RACK) if self.marks else None

    @property
    def controls(self) -> Mapping[str, ControlView]:
        """The agent's reports by subsystem, `cpu` and `gpu`."""
        pairs = (("cpu", self.report.cpu), ("gpu", self.report.gpu)) if self.report else ()
        return {name: control for name, control in pairs if control is not None}

    @property
    def backend(self) -> str | None:
        """The backends that acted, joined; None where none has."""
        return "+".join(dict.fromkeys(each.backend for each in self.controls.values() if each.backend)) or None

    def data(self) -> dict[str, Any]:
        """Return the row for JSON and YAML."""
        twin = self.twin or TwinView(self.name)
        return {
            "name": self.name,
            "profile": self.profile,
            "draining": self.draining,
            "cordoned": self.target.cordoned if self.target else None,
            "class": self.schedulable_class,
            "sleepState": self.sleep_state,
            "headroomPct": self.headroom_pct,
            "watts": self.watts,
            "capWatts": self.cap_watts,
            "trendWattsPerMin": twin.trend_w_per_min,
            "quality": self.quality,
            "source": self.source,
            "server": None if self.server is None else _server_data(self.server, self.server_age_s),
            "coolingStressPct": twin.cooling_pct,
            "psuStressPct": twin.psu_pct,
            "rack": self.rack,
            "controls": {name: _control_data(control) for name, control in self.controls.items()},
            "twinAgeSeconds": None if self.age_s is None else round(self.age_s, 1),
            "stale": self.stale,
        }


def join(
    marks: Iterable[NodeMarks],
    targets: Iterable[TargetView],
    twins: Iterable[TwinView],
    reports: Iterable[ReportView],
    *,
    now_s: float,
) -> list[NodeRow]:
    """Return one row for each node that is managed or has a target or a twin, by name.

    Args:
        marks: the managed nodes.
        targets: all NodePowerProfiles.
        twins: all NodeTwins.
        reports: TelemetryProfiles; those that are not named as a row are left out.
        now_s: seconds since the epoch, for ages.
    """
    of_node, of_target, of_twin, of_report = map(_by_name, (marks, targets, twins, reports))
    names = sorted({*of_node, *of_target, *of_twin})
    return [
        make_row(
            name,
            of_node.get(name),
            of_target.get(name),
            of_twin.get(name),
            of_report.get(name),
            now_s=now_s,
        )
        for name in names
    ]


def make_row(
    name: str,
    marks: NodeMarks | None,
    target: TargetView | None,
    twin: TwinView | None,
    report: ReportView | None,
    *,
    now_s: float,
) -> NodeRow:
    """Return the row of one node."""
    updated_s = twin.updated_s if twin else None
    sampled_s = twin.server.sampled_s if twin and twin.server else None
    return NodeRow(
        name,
        marks,
        target,
        twin,
        report,
        age_s=None if updated_s is None else now_s - updated_s,
        server_age_s=None if sampled_s is None else now_s - sampled_s,
    )


#: Orders of rows by what `--sort` names; unknown values come last.
SORT_KEYS: Final[Mapping[str, Callable[[NodeRow], tuple[Any, ...]]]] = {
    "name": lambda row: (row.name,),
    "watts": lambda row: (*_descending(row.watts), row.name),
    "headroom": lambda row: (*_ascending(row.headroom_pct), row.name),
    "cap": lambda row: (*_descending(row.cap_watts), row.name),
    "profile": lambda row: (row.profile or "~", row.name),
    "age": lambda row: (*_descending(row.age_s), row.name),
}


def _by_name(items: Iterable[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}


def _ascending(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


def _descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


def _server_data(server: ServerView, age_s: float | None) -> dict[str, Any]:
    return {
        "watts": server.watts,
        "source": server.source,
        "ageSeconds": None if age_s is None else round(age_s, 1),
        "intervalSeconds": server.interval_s,
    }


def _control_data(control: ControlView) -> dict[str, Any]:
    return {
        "backend": control.backend or None,
        "result": control.result,
        "reason": control.reason or None,
        "message": control.message or None,
        "requestedWatts": control.requested_watts,
        "enforcedWatts": control.enforced_watts,
        "throttlePct": control.throttle_pct,
    }
