"""`kubectl joulie explain`: the extender's view of a pod or a node."""

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from joulie_api.errors import NotFound
from joulie_api.resources import NODE_POWER_BUDGETS, NODES, TELEMETRY_PROFILES
from joulie_api.wire import decode_pod
from joulie_cli.arguments import add_verb, cluster_options, format_option, namespace_option, selector_option
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.extender import find_extender
from joulie_cli.layout import (
    PROFILE_STYLES,
    UNKNOWN,
    Cell,
    Line,
    age,
    counted,
    line,
    pairs,
    paragraph,
    percent,
    points,
    some_names,
    watts,
)
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.verbs.why_pending import why_class
from joulie_cli.views.caps import NodeCaps, decode_caps
from joulie_cli.views.node_scores import score_legend, score_table
from joulie_cli.views.power_domains import decode_power_budget
from joulie_cli.views.sleep import (
    AWAKE,
    GOING_STATES,
    QUARANTINED,
    WAKING,
    WOKEN_BY,
    Sleeper,
    decode_sleeper,
    sleep_style,
)
from joulie_core.durations import format_duration
from joulie_core.kinds.telemetry_profile import ControlReports, TelemetryProfileStatus


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "explain",
        run,
        summary="the extender's view of a pod or a node",
        description="For a pod: the score of each node with all its terms, and which nodes are refused and why. For a "
        "node: what the extender knows of it, and which pods it allows there; what caps its CPUs and GPUs and by whom, "
        "and what the power domains above it can still supply; of one that sleeps also why, and what wakes it.",
        example="kubectl joulie explain pod train-0 -n ml\nkubectl joulie explain node worker-1",
        parents=[cluster_options(), format_option(), selector_option(), namespace_option()],
    )
    parser.add_argument(
        "--extender-url",
        metavar="URL",
        help="address of the extender, such as http://localhost:9876; by default the API server's proxy of its Service",
    )
    parser.add_argument("what", choices=("pod", "node"), help="what to explain")
    parser.add_argument("name", metavar="NAME", help="name of the pod or node")
    parser.add_argument("--node", action="append", metavar="NAME", help="candidate; all managed nodes by default")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="nodes that are listed; 10 by default")


async def run(options: Namespace) -> ExitCode:
    """Print the explanation."""
    async with connect(options) as cluster:
        await (_pod if options.what == "pod" else _node)(cluster, options)
    return ExitCode.OK


async def _pod(cluster: ClusterReader, options: Namespace) -> None:
    namespace = options.namespace or cluster.client.namespace
    raw = await cluster.pod(options.name, namespace)
    nodes = options.node or [each.name for each in await cluster.marks(options.selector)]
    if not nodes:
        raise CliError(f"no node matches {options.selector!r}", "--node NAME names a candidate")
    extender = await find_extender(cluster, options.extender_url)
    answer = await extender.explain(msgspec.json.decode(raw), nodes)
    wide = options.output == "wide"

    def lines(width: int | None) -> list[Line]:
        return _pod_lines(
            answer,
            pod=f"{namespace}/{options.name}",
            why=why_class(decode_pod(raw)),
            where=extender.where,
            most=len(nodes) if wide else options.most,
            width=None if wide else width,
        )

    show(options, answer, lines)


async def _node(cluster: ClusterReader, options: Namespace) -> None:
    extender = await find_extender(cluster, options.extender_url)
    answer = await extender.scoring(options.name)
    try:
        sleeper = decode_sleeper(await cluster.client.get(NODES, options.name))
    except NotFound:
        # The extender knows nodes by their twins too.
        sleeper = Sleeper(options.name)
    caps = await _caps(cluster, options.name)
    data = {**answer, "sleep": sleeper.data(), "caps": caps.data()}
    show(options, data, lambda width: pairs(_node_fields(answer, sleeper, caps, where=extender.where), width))


async def _caps(cluster: ClusterReader, name: str) -> NodeCaps:
    """Return what binds a node; without a report of its agent, nothing."""
    try:
        report = decode_caps(await cluster.client.get(TELEMETRY_PROFILES, name))
    except NotFound:
        return NodeCaps()
    if report is None or not _has_budget(report):
        return NodeCaps(report)
    budgets = await cluster.read(NODE_POWER_BUDGETS, decode_power_budget, field_selector=f"metadata.name={name}")
    return NodeCaps(report, budgets[0] if budgets else None)


def _has_budget(report: TelemetryProfileStatus) -> bool:
    control = report.control or ControlReports()
    return any(each is not None and each.cap_source for each in (control.cpu, control.gpu))


def _pod_lines(
    answer: Mapping[str, Any], *, pod: str, why: str, where: str, most: int, width: int | None
) -> list[Line]:
    """Return why nodes suit a pod as they do.

    Args:
        answer: of `/debug/explain`.
        pod: the pod, as `namespace/name`.
        why: why it has its workload class.
        where: which extender answered.
        most: scored nodes that are listed.
        width: characters of a line.
    """
    nodes = sorted(answer["nodes"], key=lambda node: (-node["score"], node["nodeName"]))
    allowed = [node for node in nodes if node["filter"]["allowed"]]
    refused = [node for node in nodes if not node["filter"]["allowed"]]
    counts = Cell(f"{len(allowed)} allowed, {len(refused)} refused", "" if allowed else "red")
    lines = [*pairs(_head(answer, counts, pod=pod, why=why, where=where), width), line()]
    if allowed:
        lines += [*score_table(allowed[:most], width), line()]
        if len(allowed) > most:
            lines += [line(f"{len(allowed) - most} more nodes score less; --most N shows more."), line()]
    lines += _refusals(refused, width)
    lines += score_legend(answer, allowed, width)
    return lines


def _node_fields(
    answer: Mapping[str, Any], sleeper: Sleeper, caps: NodeCaps, *, where: str
) -> Iterator[tuple[str, str | Cell]]:
    """Yield what the extender knows of a node, from the answer of `/debug/scoring`, and whether it sleeps."""
    (node,) = answer["nodes"]
    yield "Node", node["nodeName"]
    yield "Extender", _extender(answer, where)
    yield from _problem(answer)
    yield "Class", Cell(node["schedulableClass"], PROFILE_STYLES.get(node["schedulableClass"], "dim"))
    yield from _sleep_fields(sleeper)
    yield "Performance pods", _filter_result(node["performancePods"])
    yield "Standard pods", _filter_result(node["standardPods"])
    yield "Twin", Cell("stale: its numbers do not count", "red") if node["stale"] else "fresh"
    yield "Power", f"{_watts(node['measuredPowerW'])} of {_watts(node['cappedPowerW'])} that the caps allow"
    yield "Pods in flight", f"{_watts(node['assumedPowerW'])} of pods that are not in the power yet"
    yield from caps.fields()
    yield from _supply_fields(node)
    yield "Headroom", percent(node["headroom"])
    yield "Cooling in use", percent(node["coolingStress"])
    yield "Trend", f"{node['powerTrendWPerMin']:+.0f} W a minute"
    yield "Base score", f"{points(node['baseScore'])} of 100, for a pod that adds no power"
    yield "CPU", _cpu(node)
    yield "GPU", _gpu(node)


def _supply_fields(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what the power domains above a node can still supply; nothing where no limit of one is enforced."""
    for each in node.get("powerDomains", ()):
        yield f"Domain {each['domain']}", f"can supply {_watts(each['availableW'])} more"


def _sleep_fields(sleeper: Sleeper) -> Iterator[tuple[str, str | Cell]]:
    """Return what is said of a node that is not awake; nothing of one that is."""
    if sleeper.state == AWAKE:
        return
    since = "" if sleeper.since_s is None else f" for {age(time.time() - sleeper.since_s)}"
    yield (
        "Sleep",
        Cell(f"{sleeper.state}{since}{f': {sleeper.reason}' if sleeper.reason else ''}", sleep_style(sleeper.state)),
    )
    if sleeper.state == WAKING:
        yield "Takes pods", "once its BMC says that it is on, and its kubelet is ready"
    elif sleeper.state == QUARANTINED:
        yield (
            "Way out",
            f"see console and BMC, power it on, then: kubectl joulie wake {sleeper.name} --clear-quarantine",
        )
    else:
        kept = "Kept awake by" if sleeper.state in GOING_STATES else "Woken by"
        yield kept, f"{WOKEN_BY}; kubectl joulie wake {sleeper.name}"


def _head(
    answer: Mapping[str, Any], counts: Cell, *, pod: str, why: str, where: str
) -> Iterator[tuple[str, str | Cell]]:
    demand = answer["pod"]
    needs = f"{demand['cpu_cores']:g} CPUs" + (f", {demand['gpus']:g} GPUs" if demand["gpus"] else "")
    yield "Pod", pod
    yield "Workload class", f"{demand['workload_class']}: {why}"
    yield "Needs", needs
    run_s = demand.get("run_s")
    if run_s is not None:
        yield "Runs", f"{format_duration(run_s)} at most, as it states"
    yield "Extender", _extender(answer, where)
    yield from _problem(answer)
    yield "Nodes", counts


def _extender(answer: Mapping[str, Any], where: str) -> str:
    return f"{where}, score policy {answer['scorePolicy']}"


def _problem(answer: Mapping[str, Any]) -> Iterator[tuple[str, str | Cell]]:
    problem = answer["cluster"]["problem"]
    if problem:
        yield "Problem", Cell(f"the extender's copy of the cluster is old: {problem}", "red")


def _refusals(nodes: list[Mapping[str, Any]], width: int | None) -> list[Line]:
    groups: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        groups.setdefault((node["filter"]["reason"], node["filter"]["message"]), []).append(node["nodeName"])
    lines: list[Line] = []
    for (reason, message), names in groups.items():
        sentence = f"{counted(len(names), 'node')}: {message.removeprefix('joulie: ')}: {some_names(sorted(names))}"
        lines += paragraph(sentence, width=width, indent="  ", first=f"refused, {reason}: ")
    return [*lines, line()] if lines else []


def _filter_result(judged: Mapping[str, Any]) -> Cell:
    text = judged["message"].removeprefix("joulie: ")
    if judged["allowed"]:
        return Cell(f"allowed, {judged['reason']}: {text}", "green")
    return Cell(f"refused, {judged['reason']}: {text}", "red")


def _watts(value: float | None) -> str:
    return "an unknown number of watts" if value is None else f"{watts(value)} W"


def _cpu(node: Mapping[str, Any]) -> str:
    cores, most = node["cpuTotalCores"], node["cpuMaxWattsTotal"]
    return f"{cores or UNKNOWN} cores, {node['cpuTotalThreads'] or UNKNOWN} threads, {_most(most)}"


def _gpu(node: Mapping[str, Any]) -> str:
    if not node["hasGpu"]:
        return "none known"
    return f"{node['gpuCount']:g}, {_most(node['gpuMaxWattsPerGpu'])} each"


def _most(value: float | None) -> str:
    return "maximum power unknown" if not value else f"{watts(value)} W at most"
