"""`kubectl joulie status`: the cluster at a glance."""

import asyncio
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joulie_api.resources import PODS
from joulie_cli.arguments import add_verb, cluster_options, format_option, selector_option
from joulie_cli.cluster import connect
from joulie_cli.layout import (
    PROFILE_STYLES,
    UNKNOWN,
    Cell,
    Line,
    TableColumn,
    age,
    counted,
    line,
    pairs,
    percent,
    some_names,
    table,
    total_watts,
)
from joulie_cli.output import ExitCode, show
from joulie_cli.views.pods import COMPONENTS, SELECTOR, ServiceHealth, ServicePod, decode_service_pod, health
from joulie_cli.views.rows import FailedCap, NodeRow, PowerSum, failed_caps, power_sum
from joulie_cli.views.sleep import QUARANTINED

_UNKNOWN: Final = "unknown"
_POWER: Final = (
    TableColumn("PROFILE"),
    TableColumn("NODES", right=True),
    TableColumn("POWER", right=True),
    TableColumn("CAP", right=True),
    TableColumn("USED", right=True),
    TableColumn("QUALITY"),
)


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
            "services": self.services,
            "nodes": {
                "managed": self.nodes,
                "cordoned": self.cordoned,
                "byClass": self.by_class,
                "bySleepState": self.by_sleep_state,
                "staleTwins": self.stale,
                "newestTwinAgeSeconds": self.newest_twin_s,
            },
            "power": {
                "total": self.total.data(),
                "byProfile": {name: found.data() for name, found in self.by_profile.items()},
            },
            "caps": {
                "results": self.results,
                "failed": self.failed_caps,
            },
        }


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    add_verb(
        verbs,
        "status",
        run,
        summary="overview of the cluster",
        description="Whether operator, agents and extender run, nodes by profile and class, their power, caps that "
        "are blocked, twins that are stale, nodes that sleep. A node that is asleep is in no sum of watts.",
        example="kubectl joulie status\nkubectl joulie status -o json | jq .power",
        parents=[cluster_options(), format_option(wide=False), selector_option()],
    )


async def run(options: Namespace) -> ExitCode:
    """Print the overview."""
    async with connect(options) as cluster:
        rows, pods, version = await asyncio.gather(
            cluster.rows(options.selector),
            cluster.read_permitted(PODS, decode_service_pod, label_selector=SELECTOR),
            cluster.version(),
        )
        found = _overview(rows, pods, server=cluster.client.server, kubernetes=version)
    show(options, found.data(), lambda width: _lines(found, width))
    return ExitCode.OK


def _overview(rows: Sequence[NodeRow], pods: Iterable[ServicePod] | None, *, server: str, kubernetes: str) -> Overview:
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


def _sleep_states(rows: Iterable[NodeRow]) -> Iterable[str]:
    return (row.marks.sleep_state for row in rows if row.marks is not None and row.marks.sleep_state)


def _group(row: NodeRow) -> str:
    return f"{row.profile or _UNKNOWN}{' (draining)' if row.draining else ''}"


def _results(rows: Iterable[NodeRow], subsystem: str) -> Iterable[str]:
    return (row.controls[subsystem].result for row in rows if subsystem in row.controls)


def _lines(found: Overview, width: int | None) -> list[Line]:
    """Return the overview."""
    return [
        *pairs(_services(found), width),
        line(),
        *table(_POWER, _power_rows(found), width),
        line(),
        *pairs(_rest(found), width),
    ]


def _services(found: Overview) -> Iterator[tuple[str, str | Cell]]:
    yield "API server", f"{found.server} ({found.kubernetes})"
    if found.services is None:
        yield "Services", Cell("unknown: this user may not list pods", "yellow")
        return
    for name, service in found.services.items():
        yield name.capitalize(), _service(service)


def _service(service: ServiceHealth) -> Cell:
    if not service.pods:
        return Cell("no pod", "yellow")
    text = f"{service.ready} of {counted(service.pods, 'pod')} ready in {', '.join(service.namespaces)}"
    if service.versions:
        text += f", version {' and '.join(service.versions)}"
    return Cell(text, "green" if service.ready == service.pods else "red")


def _power_rows(found: Overview) -> Iterator[list[Cell]]:
    for name, power in found.by_profile.items():
        style = "yellow" if "draining" in name else PROFILE_STYLES.get(name, "dim")
        yield _power_row(Cell(name, style), power)
    yield _power_row(Cell("all", "bold"), found.total)


def _power_row(name: Cell, power: PowerSum) -> list[Cell]:
    used = power.watts / power.cap_watts * 100 if power.watts is not None and power.cap_watts else None
    return [
        name,
        Cell(str(power.nodes)),
        Cell(total_watts(power.watts)),
        Cell(total_watts(power.cap_watts)),
        Cell(percent(used)),
        Cell(_counts(power.quality)),
    ]


def _rest(found: Overview) -> Iterator[tuple[str, str | Cell]]:
    yield "Nodes", f"{found.nodes} managed, {found.cordoned} cordoned"
    if found.by_sleep_state:
        style = "red" if QUARANTINED in found.by_sleep_state else ""
        yield "Sleep", Cell(_counts(found.by_sleep_state), style)
    yield "Classes", _counts(found.by_class)
    yield "Newest twin", UNKNOWN if found.newest_twin_s is None else f"{age(found.newest_twin_s)} old"
    for subsystem, results in found.results.items():
        yield f"{subsystem.upper()} caps", _counts(results)
    for each in found.failed_caps:
        names = some_names(each.nodes)
        yield f"  {each.result}", Cell(f"{each.subsystem}, {each.reason or 'no reason'}: {names}", "red")
    if found.stale:
        yield "Stale twins", Cell(f"{len(found.stale)}: {some_names(found.stale)}", "red")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or UNKNOWN
