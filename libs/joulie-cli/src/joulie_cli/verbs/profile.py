"""`kubectl joulie profile NODE`: target, result and history of one node."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from joulie_api.errors import NotFound
from joulie_api.resources import EVENTS, NODE_POWER_PROFILES, NODE_TWINS, NODES, TELEMETRY_PROFILES, Resource
from joulie_api.wire import decode_kind
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.layout import PROFILE_STYLES, Cell, Line, age, flag, line, pairs, paragraph, percent, watts, word
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.verbs.events import event_lines
from joulie_cli.views import Raw
from joulie_cli.views.events import EventView, decode_event, newest_last
from joulie_cli.views.nodes import ControlView, decode_marks, decode_report, decode_target, decode_twin
from joulie_cli.views.rows import NodeRow
from joulie_core.kinds.base import Condition, ConditionStatus
from joulie_core.kinds.node_power_profile import NodePowerProfile, NodePowerProfileSpec
from joulie_core.timestamps import epoch_seconds

T = TypeVar("T")

#: Newest Events of the node that are shown.
_EVENTS_SHOWN: Final = 10
_UNITS: Final = {"cpu": "package", "gpu": "GPU"}
_decode_profile: Final = decode_kind(NodePowerProfile)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "profile",
        run,
        summary="target, result and history of a node",
        description="What NodePowerProfile asks of the node, what its agent reports as in force, the conditions since "
        "when, and the last Events.",
        example="kubectl joulie profile worker-1",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("name", metavar="NODE", help="name of the node")


async def run(options: Namespace) -> ExitCode:
    """Print the profile."""
    name = options.name
    async with connect(options) as cluster:
        selector = f"involvedObject.kind=Node,involvedObject.name={name}"
        marks, raw, twin, report, events = await asyncio.gather(
            _get(cluster, NODES, name, decode_marks),
            _get(cluster, NODE_POWER_PROFILES, name, bytes),
            _get(cluster, NODE_TWINS, name, decode_twin),
            _get(cluster, TELEMETRY_PROFILES, name, decode_report),
            cluster.read(EVENTS, decode_event, field_selector=selector),
        )
        if raw is None and marks is None:
            raise CliError(f"the cluster has no node {name!r}", "kubectl joulie nodes lists the managed ones")
        if raw is None:
            raise CliError(
                f"node {name!r} has no NodePowerProfile: it is not managed, or the operator does not run",
                f"kubectl label node {name} joulie.io/managed=true; kubectl joulie doctor checks the operator",
            )
        target = _decode_profile(raw).model
    row = NodeRow(name, marks, decode_target(raw), twin, report, time.time())
    ours = [event for event in newest_last(events) if event.component.startswith("joulie-")][-_EVENTS_SHOWN:]
    data = {"target": target.spec.dump(), **target.status.dump(), "node": row.data()}
    data["events"] = [event.data() for event in ours]
    show(options, data, lambda width: _lines(target, row, ours, width))
    return ExitCode.OK


async def _get(cluster: ClusterReader, resource: Resource, name: str, decode: Callable[[Raw], T]) -> T | None:
    """Return an object; None where it does not exist."""
    try:
        return decode(await cluster.client.get(resource, name))
    except NotFound:
        return None


def _lines(target: NodePowerProfile, row: NodeRow, events: Sequence[EventView], width: int | None) -> list[Line]:
    """Return the target, the agent's report, the conditions and the events of one node."""
    lines = [line("Target", "bold"), *_indented(_target(target.spec, row), width), line()]
    lines += [line("In force", "bold"), *_indented(_in_force(target.spec, row), width), line()]
    lines += [line("Conditions", "bold")]
    for condition in target.status.conditions:
        lines += _condition(condition, row.now_s, width)
    if not target.status.conditions:
        lines.append(line("  none: the operator has not written them yet"))
    lines += [line(), line("Events", "bold")]
    lines += event_lines(events, width) or [line("  none")]
    return lines


def _indented(fields: Iterator[tuple[str, str | Cell]], width: int | None) -> list[Line]:
    return pairs(((f"  {name}", value) for name, value in fields), width)


def _target(spec: NodePowerProfileSpec, row: NodeRow) -> Iterator[tuple[str, str | Cell]]:
    yield "Node", row.name
    yield "Profile", Cell(spec.profile, PROFILE_STYLES.get(spec.profile, ""))
    yield "Draining", Cell(flag(spec.draining), "yellow" if spec.draining else "")
    yield "Profile label", _label(spec, row)
    policy = spec.policy
    if policy is not None:
        yield "Policy", f"{word(policy.name)}{f': {policy.reason}' if policy.reason else ''}"
        yield "On lost control", policy.on_lost_control or "restore (default)"
    cpu, gpu = spec.cpu, spec.gpu.power_cap if spec.gpu else None
    yield (
        "CPU cap",
        "unmanaged" if cpu is None else _cap(cpu.package_power_cap_watts, cpu.package_power_cap_pct_of_max, "package"),
    )
    yield "GPU cap", "unmanaged" if gpu is None else _cap(gpu.cap_watts_per_gpu, gpu.cap_pct_of_max, "GPU")


def _label(spec: NodePowerProfileSpec, row: NodeRow) -> Cell:
    label = row.marks.profile if row.marks else None
    return Cell(word(label), "" if label == spec.profile else "red")


def _cap(absolute: float | None, share: float | None, unit: str) -> str:
    if absolute is not None:
        return f"{watts(absolute)} W per {unit}"
    return f"none for a {unit}" if share is None else f"{share:g}% of the maximum of each {unit}"


def _in_force(spec: NodePowerProfileSpec, row: NodeRow) -> Iterator[tuple[str, str | Cell]]:
    for subsystem, stanza in (("cpu", spec.cpu), ("gpu", spec.gpu)):
        control = row.controls.get(subsystem)
        if control is not None:
            yield subsystem.upper(), _control(control, _UNITS[subsystem])
        elif stanza is not None:
            yield subsystem.upper(), Cell("unknown: the agent has not reported", "yellow")
    twin = row.twin
    if twin is None:
        yield "Twin", Cell("none", "red")
        return
    yield "Class", Cell(word(twin.schedulable_class), PROFILE_STYLES.get(twin.schedulable_class or "", "dim"))
    yield "Power", f"{watts(twin.watts)} W of {watts(twin.cap_watts)} W, {word(twin.quality)} ({word(twin.source)})"
    server = row.server
    if server is not None:
        yield "Whole server", f"{watts(server.watts)} W, measured ({word(server.source)}, {age(row.server_age_s)} old)"
    yield "Headroom", percent(twin.headroom_pct)
    yield "Twin", Cell(f"{age(row.age_s)} old{', stale' if row.stale else ''}", "red" if row.stale else "")


def _control(control: ControlView, unit: str) -> Cell:
    parts = [f"{control.result}{f' by {control.backend}' if control.backend else ''}"]
    if control.enforced_watts is not None:
        parts.append(f"{watts(control.enforced_watts)} W per {unit} in force")
    if control.requested_watts is not None:
        parts.append(f"{watts(control.requested_watts)} W requested")
    if control.throttle_pct is not None:
        parts.append(f"throttle {percent(control.throttle_pct)}")
    parts += [each for each in (control.reason, control.message) if each]
    return Cell(", ".join(parts), "red" if control.failed else "")


def _condition(condition: Condition, now_s: float, width: int | None) -> list[Line]:
    since = epoch_seconds(condition.last_transition_time)
    words = [f"{condition.type} is {condition.status}"]
    if since is not None:
        words.append(f"since {age(now_s - since)}")
    why = ": ".join(each for each in (condition.reason, condition.message) if each)
    text = f"{' '.join(words)}{f': {why}' if why else ''}"
    bad = condition.type == "Enforced" and condition.status == ConditionStatus.FALSE
    lines = paragraph(text, width=width, indent="    ", first="  ")
    return [(Cell(each[0].text, "red"),) for each in lines] if bad else lines
