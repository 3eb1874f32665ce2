"""The figures of `status`: counts and sums over nodes and pods. No I/O.

Watts of stale twins are in no sum: they are counted as unknown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joulie_cli.node_rows import FAILED_RESULTS, NodeRow
from joulie_cli.service_pods import COMPONENTS, ServiceHealth, ServicePod, health
from joulie_cli.sleepers import ASLEEP

_UNKNOWN = "unknown"


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


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at one moment."""

    server: str
    kubernetes: str
    #: By component; None where the pods may not be listed.
    services: Mapping[str, ServiceHealth] | None
    nodes: int
    cordoned: int
    by_profile: Mapping[str, PowerSum]
    by_class: Mapping[str, int]
    #: Nodes that are not awake, by their state.
    by_sleep_state: Mapping[str, int]
    total: PowerSum
    failed_caps: tuple[FailedCap, ...]
    #: Results of the last control actions, by subsystem.
    results: Mapping[str, Mapping[str, int]]
    stale: tuple[str, ...]
    #: Age of the newest twin.
    newest_twin_s: float | None

    def data(self) -> dict[str, Any]:
        """Return the overview for JSON and YAML."""
        return {
            "server": self.server,
            "kubernetesVersion": self.kubernetes,
            "services": None
            if self.services is None
            else {
                name: {
                    "pods": found.pods,
                    "ready": found.ready,
                    "namespaces": list(found.namespaces),
                    "versions": list(found.versions),
                }
                for name, found in self.services.items()
            },
            "nodes": {
                "managed": self.nodes,
                "cordoned": self.cordoned,
                "byClass": dict(self.by_class),
                "bySleepState": dict(self.by_sleep_state),
                "staleTwins": list(self.stale),
                "newestTwinAgeSeconds": self.newest_twin_s,
            },
            "power": {
                "total": self.total.data(),
                "byProfile": {name: found.data() for name, found in self.by_profile.items()},
            },
            "caps": {
                "results": {name: dict(found) for name, found in self.results.items()},
                "failed": [
                    {
                        "subsystem": each.subsystem,
                        "result": each.result,
                        "reason": each.reason,
                        "nodes": list(each.nodes),
                    }
                    for each in self.failed_caps
                ],
            },
        }


def overview(rows: Sequence[NodeRow], pods: Iterable[ServicePod] | None, *, server: str, kubernetes: str) -> Overview:
    """Return the overview of all rows.

    Args:
        rows: the managed nodes.
        pods: Joulie's pods; None where they may not be listed. Those on nodes that sleep or wake are left out.
        server: URL of the API server.
        kubernetes: its version.
    """
    off = {row.name for row in rows if row.may_be_off}
    known = None if pods is None else [pod for pod in pods if pod.node not in off]
    groups: dict[str, list[NodeRow]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    ages = [row.age_s for row in rows if row.age_s is not None]
    return Overview(
        server=server,
        kubernetes=kubernetes,
        services=None if known is None else {name: health(known, name) for name in COMPONENTS},
        nodes=len(rows),
        cordoned=sum(bool(row.target and row.target.cordoned) for row in rows),
        by_profile={name: power_sum(groups[name]) for name in sorted(groups, reverse=True)},
        by_class=dict(sorted(Counter(row.schedulable_class or _UNKNOWN for row in rows).items())),
        by_sleep_state=dict(sorted(Counter(_sleep_states(rows)).items())),
        total=power_sum(rows),
        failed_caps=failed_caps(rows),
        results={
            subsystem: dict(sorted(Counter(_results(rows, subsystem)).items()))
            for subsystem in ("cpu", "gpu")
            if any(True for _ in _results(rows, subsystem))
        },
        stale=tuple(row.name for row in rows if row.stale),
        newest_twin_s=min(ages, default=None),
    )


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
            if control.result in FAILED_RESULTS:
                found.setdefault((subsystem, control.result, control.reason), []).append(row.name)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(FailedCap(*key, tuple(names)) for key, names in ordered)


def _quality(row: NodeRow) -> str:
    if row.asleep:
        return ASLEEP
    return (row.quality or _UNKNOWN) if row.watts is not None and not row.stale else _UNKNOWN


def _sleep_states(rows: Iterable[NodeRow]) -> Iterable[str]:
    return (row.marks.sleep_state for row in rows if row.marks is not None and row.marks.sleep_state)


def _group(row: NodeRow) -> str:
    return f"{row.profile or _UNKNOWN}{' (draining)' if row.draining else ''}"


def _results(rows: Iterable[NodeRow], subsystem: str) -> Iterable[str]:
    return (row.controls[subsystem].result for row in rows if subsystem in row.controls)
