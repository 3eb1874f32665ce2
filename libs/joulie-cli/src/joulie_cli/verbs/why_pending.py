"""`kubectl joulie why-pending`: what keeps a pod from a node, as far as Joulie is concerned."""

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from joulie_api.resources import EVENTS
from joulie_api.wire import decode_pod
from joulie_cli.arguments import add_verb, cluster_options, format_option, namespace_option, selector_option
from joulie_cli.cluster import connect
from joulie_cli.layout import Cell, Line, counted, line, pairs, paragraph, some_names
from joulie_cli.output import ExitCode, show
from joulie_cli.verbs.events import event_lines
from joulie_cli.views import make_decoder
from joulie_cli.views.events import EventView, decode_event, newest_last
from joulie_cli.views.rows import NodeRow
from joulie_cli.views.sleep import WAKING
from joulie_core.demand import Demand, WorkloadClass, classify, unknown_annotation, workload_class
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import DRAINING, POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.pod import Pod
from joulie_core.scoring.filter import FilterReason, FilterResult, filter_node

#: Newest Events of the pod that are shown.
_EVENTS_SHOWN: Final = 5


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None
    scheduler_name: str = ""


class _Pod(msgspec.Struct):
    spec: _Spec


_decode_spec: Final = make_decoder(_Pod, "Pod", lambda wire: wire.spec)


@dataclass(frozen=True, slots=True)
class FilteredNodes:
    """Nodes that the extender judges alike."""

    result: FilterResult
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PendingReport:
    """Report on a pod: what keeps it pending, and what to change."""

    pod: str
    phase: str
    node: str | None
    workload_class: WorkloadClass
    why: str
    #: Allowed ones first.
    filtered: tuple[FilteredNodes, ...]
    #: What to do.
    advice: tuple[str, ...]

    def data(self) -> dict[str, Any]:
        """Return the report for JSON and YAML."""
        return {
            "pod": self.pod,
            "phase": self.phase,
            "node": self.node,
            "workloadClass": self.workload_class.value,
            "why": self.why,
            "filterResults": [
                {
                    "allowed": each.result.ok,
                    "reason": each.result.reason.value,
                    "message": each.result.message,
                    "nodes": list(each.nodes),
                }
                for each in self.filtered
            ],
            "advice": list(self.advice),
        }


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "why-pending",
        run,
        summary="what keeps a pod from a node",
        description="Its last Events, its workload class and why it has it, which managed nodes would be refused, and "
        "what to change or to wait for. Does not need the extender.",
        example="kubectl joulie why-pending train-0 -n ml",
        parents=[cluster_options(), format_option(wide=False), selector_option(), namespace_option()],
    )
    parser.add_argument("name", metavar="POD", help="name of the pod")


async def run(options: Namespace) -> ExitCode:
    """Print the report."""
    async with connect(options) as cluster:
        namespace = options.namespace or cluster.client.namespace
        raw = await cluster.pod(options.name, namespace)
        selector = f"involvedObject.kind=Pod,involvedObject.name={options.name}"
        events, rows = await asyncio.gather(
            cluster.read(EVENTS, decode_event, namespace, field_selector=selector), cluster.rows(options.selector)
        )
    report = _report(decode_pod(raw), rows, _decode_spec(raw))
    latest = newest_last(events)[-_EVENTS_SHOWN:]
    data = {**report.data(), "events": [event.data() for event in latest]}
    show(options, data, lambda width: _lines(report, latest, width))
    return ExitCode.OK


def why_class(pod: Pod) -> str:
    """Return the reason for `joulie_core.demand.workload_class` of a pod."""
    annotation = pod.annotations.get(WORKLOAD_CLASS)
    if annotation == WorkloadClass.PERFORMANCE:
        return f"its annotation {WORKLOAD_CLASS} is performance"
    demand = classify(pod)
    if demand is Demand.PERFORMANCE:
        return f"its required constraints on {POWER_PROFILE} or {DRAINING} cannot be met by an eco node"
    if demand is Demand.ECO:
        return "its required constraints can be met by eco nodes only"
    if unknown_annotation(pod) is not None:
        return f"its annotation {WORKLOAD_CLASS}={annotation!r} is neither performance nor standard"
    if annotation is not None:
        return f"its annotation {WORKLOAD_CLASS} is standard"
    return f"it has no annotation {WORKLOAD_CLASS}, and no constraint that demands performance"


def _report(pod: Pod, rows: Sequence[NodeRow], spec: _Spec) -> PendingReport:
    class_ = workload_class(pod)
    filtered = _filtered(class_, rows)
    return PendingReport(
        pod=pod.key,
        phase=pod.phase,
        node=pod.node_name,
        workload_class=class_,
        why=why_class(pod),
        filtered=filtered,
        advice=tuple(_advice(pod, rows, filtered, spec)),
    )


def _filtered(class_: WorkloadClass, rows: Iterable[NodeRow]) -> tuple[FilteredNodes, ...]:
    groups: dict[FilterResult, list[str]] = {}
    for row in rows:
        result = filter_node(
            class_, schedulable_class=_class(row), stale=row.stale, labels=row.marks.labels if row.marks else {}
        )
        groups.setdefault(result, []).append(row.name)
    ordered = sorted(groups.items(), key=lambda item: (not item[0].ok, -len(item[1])))
    return tuple(FilteredNodes(result, tuple(names)) for result, names in ordered)


def _class(row: NodeRow) -> SchedulableClass | None:
    if row.twin is None:
        return None
    known = row.schedulable_class in tuple(SchedulableClass)
    return SchedulableClass(row.schedulable_class) if known and row.schedulable_class else SchedulableClass.UNKNOWN


def _advice(pod: Pod, rows: Sequence[NodeRow], filtered: Sequence[FilteredNodes], spec: _Spec) -> Iterator[str]:
    if pod.node_name is not None:
        yield f"Nothing: the pod is on node {pod.node_name}."
        return
    if not pod.active:
        yield f"Nothing: the pod has ended ({pod.phase})."
        return
    if spec.scheduling_gates:
        gates = ", ".join(each.name for each in spec.scheduling_gates)
        yield f"The pod is not scheduled while it has scheduling gates: {gates}. Their owner removes them."
    if spec.scheduler_name not in {"", "default-scheduler"}:
        by = spec.scheduler_name
        yield f"The pod is placed by {by!r}: Joulie has a say only if its configuration names the extender."
    if pod.annotations.get(WORKLOAD_CLASS) == WorkloadClass.PERFORMANCE and _eco_only(pod):
        yield (
            f"The annotation {WORKLOAD_CLASS}=performance and the pod's constraints on {POWER_PROFILE} exclude each "
            "other: no node can take it. Remove one of them and create the pod again."
        )
        return
    yield from _nodes_advice(pod, rows, filtered)


def _nodes_advice(pod: Pod, rows: Sequence[NodeRow], filtered: Sequence[FilteredNodes]) -> Iterator[str]:
    if not rows:
        yield "No node is managed, so Joulie refuses none. Read the scheduler's message above."
        return
    matching = [row for row in rows if row.marks and pod.node_selector.items() <= row.marks.labels.items()]
    if pod.node_selector and not matching:
        selector = ",".join(f"{key}={value}" for key, value in pod.node_selector.items())
        yield f"No managed node has the labels of its nodeSelector, {selector}."
    if any(each.result.ok for each in filtered):
        yield (
            "Joulie refuses not all of the managed nodes: what keeps the pod pending there is in the scheduler's "
            "message, such as CPUs, taints or affinity."
        )
    yield from _sleep_advice(rows, filtered)
    capped = any(not each.result.ok and not _sleeps(each) for each in filtered)
    if not any(each.result.ok or _sleeps(each) for each in filtered):
        yield (
            "Every managed node is eco or draining. The operator counts this pod and plans a performance node for it "
            "at its next plan, unless its policy has a fixed share: raise STATIC_HP_FRAC (static_partition) or lower "
            "QUEUE_PERF_PER_HP_NODE (queue_aware_v1); kubectl joulie events -w shows the change."
        )
    if capped and pod.annotations.get(WORKLOAD_CLASS) == WorkloadClass.PERFORMANCE:
        yield (
            f"If the pod may run under power caps: remove its annotation {WORKLOAD_CLASS} in the object that makes it "
            "(Deployment, Job), and create the pod again."
        )


def _sleep_advice(rows: Sequence[NodeRow], filtered: Sequence[FilteredNodes]) -> Iterator[str]:
    waking = [row.name for row in rows if row.sleep_state == WAKING]
    if waking:
        yield f"Wait for {some_names(waking)}: {'it boots' if len(waking) == 1 else 'they boot'}."
    asleep = [name for each in filtered if _sleeps(each) for name in each.nodes]
    if asleep:
        yield (
            "The operator wakes nodes for pods that kube-scheduler has found no node for, by their requests, node "
            "selector, required node affinity and tolerations. A pod that waits for something else, such as pod "
            "affinity, spreading or a volume, wakes none. To wake one now: "
            f"kubectl joulie wake {asleep[0]}"
        )


def _sleeps(filtered: FilteredNodes) -> bool:
    return filtered.result.reason is FilterReason.SLEEPING_NODE


def _eco_only(pod: Pod) -> bool:
    plain = Pod(name=pod.name, node_selector=pod.node_selector, required_terms=pod.required_terms)
    return classify(plain) is Demand.ECO


def _lines(report: PendingReport, events: Sequence[EventView], width: int | None) -> list[Line]:
    """Return the report, the events before it."""
    state = f"{report.phase}, on node {report.node}" if report.node else f"{report.phase}, on no node"
    head: list[tuple[str, str | Cell]] = [
        ("Pod", report.pod),
        ("State", state),
        ("Workload class", f"{report.workload_class}: {report.why}"),
    ]
    lines = [*pairs(head, width), line(), line("Events", "bold")]
    lines += event_lines(events, width) or [line("  none")]
    lines += [line(), line("Managed nodes", "bold")]
    for each in report.filtered:
        word = "allowed" if each.result.ok else "refused"
        text = f"{counted(len(each.nodes), 'node')}: {each.result.message.removeprefix('joulie: ')}"
        lines += paragraph(
            f"{text}: {some_names(each.nodes)}", width=width, indent="    ", first=f"  {word}, {each.result.reason}: "
        )
    if not report.filtered:
        lines.append(line("  none"))
    lines += [line(), line("What to change", "bold")]
    for advice in report.advice:
        lines += paragraph(advice, width=width, indent="    ", first="  - ")
    return lines
