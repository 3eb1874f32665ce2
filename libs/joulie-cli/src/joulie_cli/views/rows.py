"""Rows that join what was read of each node, and sums over rows. No I/O.

Watts of stale twins are in no sum: they are counted as unknown.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joulie_cli.views.nodes import ControlView, NodeMarks, ReportView, ServerView, TargetView, TwinView
from joulie_cli.views.sleep import ASLEEP, AWAKE, OFF_STATES
from joulie_core import labels as keys

#: Age from which the extender does not believe a twin, by default.
STALE_AFTER_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One managed node; None is unknown."""

    name: str
    marks: NodeMarks | None
    target: TargetView | None
    twin: TwinView | None
    report: ReportView | None
    #: When they were read, in seconds since the epoch.
    now_s: float

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
    def server_age_s(self) -> float | None:
        """Seconds since the BMC answered."""
        sampled_s = self.twin.server.sampled_s if self.twin and self.twin.server else None
        return None if sampled_s is None else self.now_s - sampled_s

    @property
    def age_s(self) -> float | None:
        """Seconds since the twin was updated."""
        updated_s = self.twin.updated_s if self.twin else None
        return None if updated_s is None else self.now_s - updated_s

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
            "server": None if self.server is None else self.server.data(self.server_age_s),
            "coolingStressPct": twin.cooling_pct,
            "psuStressPct": twin.psu_pct,
            "rack": self.rack,
            "controls": {name: control.data() for name, control in self.controls.items()},
            "twinAgeSeconds": None if self.age_s is None else round(self.age_s, 1),
            "stale": self.stale,
        }


@dataclass(frozen=True, slots=True)
class PowerSum:
    """Power of some nodes. Sums are None where no node's is known."""

    nodes: int
    watts: float | None
    #: Of the nodes whose power is known, so that the two compare; None where no cap is known.
    cap_watts: float | None
    #: Nodes by `measured`, `modelled` and `unknown`, and those that are asleep.
    quality: Mapping[str, int]

    def data(self) -> dict[str, Any]:
        """Return the sum for JSON and YAML."""
        return {
            "nodes": self.nodes,
            "watts": self.watts,
            "capWatts": self.cap_watts,
            "nodesByQuality": dict(self.quality),
        }


@dataclass(frozen=True, slots=True)
class FailedCap:
    """A reason for which caps are not in force, and the nodes."""

    subsystem: str
    result: str
    reason: str
    nodes: tuple[str, ...]


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
    return [
        NodeRow(name, of_node.get(name), of_target.get(name), of_twin.get(name), of_report.get(name), now_s)
        for name in sorted({*of_node, *of_target, *of_twin})
    ]


#: Orders of rows by what `--sort` names; unknown values come last.
SORT_KEYS: Final[Mapping[str, Callable[[NodeRow], tuple[Any, ...]]]] = {
    "name": lambda row: (row.name,),
    "watts": lambda row: (*_descending(row.watts), row.name),
    "headroom": lambda row: (*_ascending(row.headroom_pct), row.name),
    "cap": lambda row: (*_descending(row.cap_watts), row.name),
    "profile": lambda row: (row.profile or "~", row.name),
    "age": lambda row: (*_descending(row.age_s), row.name),
}


def power_sum(rows: Sequence[NodeRow]) -> PowerSum:
    """Return the power of some nodes together."""
    known = [row for row in rows if row.watts is not None and not row.stale]
    caps = [row.cap_watts for row in known if row.cap_watts is not None]
    quality = Counter(map(_quality, rows))
    return PowerSum(
        nodes=len(rows),
        watts=sum(row.watts or 0.0 for row in known) if known else None,
        cap_watts=sum(caps) if caps else None,
        quality=dict(sorted(quality.items())),
    )


def failed_caps(rows: Iterable[NodeRow]) -> tuple[FailedCap, ...]:
    """Return why caps are not in force, most nodes first."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for subsystem, control in row.controls.items():
            if control.failed:
                found.setdefault((subsystem, control.result, control.reason), []).append(row.name)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(FailedCap(*key, tuple(names)) for key, names in ordered)


def _quality(row: NodeRow) -> str:
    if row.asleep:
        return ASLEEP
    return (row.quality or "unknown") if row.watts is not None and not row.stale else "unknown"


def _by_name(items: Iterable[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}


def _ascending(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


def _descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)
