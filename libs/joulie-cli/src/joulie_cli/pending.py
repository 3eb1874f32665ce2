"""Why a pod is pending, as far as Joulie is concerned. No I/O."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from joulie_cli.classification import why_class
from joulie_cli.node_rows import NodeRow
from joulie_cli.sleepers import WAKING
from joulie_core.demand import Demand, WorkloadClass, classify, workload_class
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.pod import Pod
from joulie_core.scoring.filter import FilterReason, FilterResult, verdict

#: Nodes that an advice names.
_NAMES = 5


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """Nodes that the extender judges alike."""

    result: FilterResult
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PendingReport:
    """What keeps a pod pending, and what to change."""

    pod: str
    phase: str
    node: str | None
    workload_class: WorkloadClass
    why: str
    #: Allowed ones first.
    verdicts: tuple[NodeVerdicts, ...]
    #: What to do.
    advice: tuple[str, ...]

    @property
    def allowed(self) -> int:
        """Number of managed nodes that the extender allows."""
        return sum(len(each.nodes) for each in self.verdicts if each.result.ok)

    def data(self) -> dict[str, Any]:
        """Return the report for JSON and YAML."""
        return {
            "pod": self.pod,
            "phase": self.phase,
            "node": self.node,
            "workloadClass": self.workload_class.value,
            "why": self.why,
            "verdicts": [
                {
                    "allowed": each.result.ok,
                    "reason": each.result.reason.value,
                    "message": each.result.message,
                    "nodes": list(each.nodes),
                }
                for each in self.verdicts
            ],
            "advice": list(self.advice),
        }


def pending_report(pod: Pod, rows: Sequence[NodeRow], *, gates: Sequence[str], scheduler: str) -> PendingReport:
    """Return the report of a pod.

    Args:
        pod: the pod.
        rows: the managed nodes.
        gates: names of its scheduling gates.
        scheduler: name of its scheduler; empty for the default one.
    """
    class_ = workload_class(pod)
    verdicts = _verdicts(class_, rows)
    return PendingReport(
        pod=pod.key,
        phase=pod.phase,
        node=pod.node_name,
        workload_class=class_,
        why=why_class(pod),
        verdicts=verdicts,
        advice=tuple(_advice(pod, rows, verdicts, gates=gates, scheduler=scheduler)),
    )


def _verdicts(class_: WorkloadClass, rows: Iterable[NodeRow]) -> tuple[NodeVerdicts, ...]:
    groups: dict[FilterResult, list[str]] = {}
    for row in rows:
        result = verdict(
            class_, schedulable_class=_class(row), stale=row.stale, labels=row.marks.labels if row.marks else {}
        )
        groups.setdefault(result, []).append(row.name)
    ordered = sorted(groups.items(), key=lambda item: (not item[0].ok, -len(item[1])))
    return tuple(NodeVerdicts(result, tuple(names)) for result, names in ordered)


def _class(row: NodeRow) -> SchedulableClass | None:
    if row.twin is None:
        return None
    known = row.schedulable_class in tuple(SchedulableClass)
    return SchedulableClass(row.schedulable_class) if known and row.schedulable_class else SchedulableClass.UNKNOWN


def _advice(
    pod: Pod, rows: Sequence[NodeRow], verdicts: Sequence[NodeVerdicts], *, gates: Sequence[str], scheduler: str
) -> Iterator[str]:
    if pod.node_name is not None:
        yield f"Nothing: the pod is on node {pod.node_name}."
        return
    if not pod.active:
        yield f"Nothing: the pod has ended ({pod.phase})."
        return
    if gates:
        yield f"The pod is not scheduled while it has scheduling gates: {', '.join(gates)}. Their owner removes them."
    if scheduler not in {"", "default-scheduler"}:
        yield f"The pod is placed by {scheduler!r}: Joulie has a say only if its configuration names the extender."
    if pod.annotations.get(WORKLOAD_CLASS) == WorkloadClass.PERFORMANCE and _eco_only(pod):
        yield (
            f"The annotation {WORKLOAD_CLASS}=performance and the pod's constraints on {POWER_PROFILE} exclude each "
            "other: no node can take it. Remove one of them and create the pod again."
        )
        return
    yield from _nodes_advice(pod, rows, verdicts)


def _nodes_advice(pod: Pod, rows: Sequence[NodeRow], verdicts: Sequence[NodeVerdicts]) -> Iterator[str]:
    if not rows:
        yield "No node is managed, so Joulie refuses none. Read the scheduler's message above."
        return
    matching = [row for row in rows if row.marks and pod.node_selector.items() <= row.marks.labels.items()]
    if pod.node_selector and not matching:
        selector = ",".join(f"{key}={value}" for key, value in pod.node_selector.items())
        yield f"No managed node has the labels of its nodeSelector, {selector}."
    if any(each.result.ok for each in verdicts):
        yield (
            "Joulie refuses not all of the managed nodes: what keeps the pod pending there is in the scheduler's "
            "message, such as CPUs, taints or affinity."
        )
    yield from _sleep_advice(rows, verdicts)
    capped = any(not each.result.ok and not _sleeps(each) for each in verdicts)
    if not any(each.result.ok or _sleeps(each) for each in verdicts):
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


def _sleep_advice(rows: Sequence[NodeRow], verdicts: Sequence[NodeVerdicts]) -> Iterator[str]:
    waking = [row.name for row in rows if row.sleep_state == WAKING]
    if waking:
        yield f"Wait for {', '.join(waking[:_NAMES])}: {'it boots' if len(waking) == 1 else 'they boot'}."
    asleep = [name for each in verdicts if _sleeps(each) for name in each.nodes]
    if asleep:
        yield (
            "The operator wakes nodes for pods that kube-scheduler has found no node for, by their requests, node "
            "selector, required node affinity and tolerations. A pod that waits for something else, such as pod "
            "affinity, spreading or a volume, wakes none. To wake one now: "
            f"kubectl joulie wake {asleep[0]}"
        )


def _sleeps(verdicts: NodeVerdicts) -> bool:
    return verdicts.result.reason is FilterReason.SLEEPING_NODE


def _eco_only(pod: Pod) -> bool:
    plain = Pod(name=pod.name, node_selector=pod.node_selector, required_terms=pod.required_terms)
    return classify(plain) is Demand.ECO
