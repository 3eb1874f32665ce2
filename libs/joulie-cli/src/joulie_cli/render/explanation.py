"""Lines of `explain`: the terms of a score, and refusals, in plain words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from joulie_cli.layout import Cell, Line, TableColumn, line, pairs, paragraph, table
from joulie_cli.quantities import UNKNOWN, counted, percent, points, watts
from joulie_cli.render.nodes import PROFILE_STYLES
from joulie_cli.render.sleep import sleep_fields
from joulie_cli.render.status import some_names
from joulie_cli.sleepers import SleepNote

#: What each term is, by score policy and name.
TERMS: Final[Mapping[str, Mapping[str, str]]] = {
    "headroom_v1": {
        "headroom": "up to 70 points for power that is free under the cap with the pod in place",
        "cooling": "up to 15 points for a node whose cooling has reserves",
        "trend": "up to 25 points for falling power, as many off for rising power",
        "profile": "10 points for a standard pod on an eco node",
        "pressure": "points off a standard pod on a performance node while performance nodes are busy",
    },
    "energy_v1": {
        "energy": "points for little energy for the pod's work",
        "gpu": "points for not taking CPUs away from GPUs",
        "performance": "points for not taking room from performance pods",
    },
}
#: Why a node has the neutral score.
NEUTRAL: Final[Mapping[str, str]] = {
    "NoTwin": "the node has no twin",
    "StaleTwin": "the node's twin is too old",
    "NoHeadroom": "neither power nor headroom of the node is known",
}


def pod_lines(answer: Mapping[str, Any], *, pod: str, why: str, where: str, most: int, width: int | None) -> list[Line]:
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
        lines += [*_scores(allowed[:most], width), line()]
        if len(allowed) > most:
            lines += [line(f"{len(allowed) - most} more nodes score less; --most N shows more."), line()]
    lines += _refusals(refused, width)
    lines += _legend(answer, allowed, width)
    return lines


def node_lines(
    answer: Mapping[str, Any], sleep: SleepNote, *, now_s: float, where: str, width: int | None
) -> list[Line]:
    """Return what the extender knows of a node, from the answer of `/debug/scoring`, and whether it sleeps."""
    (node,) = answer["nodes"]
    fields: list[tuple[str, str | Cell]] = [
        ("Node", node["nodeName"]),
        ("Extender", _extender(answer, where)),
        *_problem(answer),
        ("Class", Cell(node["schedulableClass"], PROFILE_STYLES.get(node["schedulableClass"], "dim"))),
        *sleep_fields(sleep, now_s),
        ("Performance pods", _verdict(node["performancePods"])),
        ("Standard pods", _verdict(node["standardPods"])),
        ("Twin", Cell("stale: its numbers do not count", "red") if node["stale"] else "fresh"),
        ("Power", f"{_watts(node['measuredPowerW'])} of {_watts(node['cappedPowerW'])} that the caps allow"),
        ("Pods in flight", f"{_watts(node['assumedPowerW'])} of pods that are not in the power yet"),
        ("Headroom", percent(node["headroom"])),
        ("Cooling in use", percent(node["coolingStress"])),
        ("Trend", f"{node['powerTrendWPerMin']:+.0f} W a minute"),
        ("Base score", f"{points(node['baseScore'])} of 100, for a pod that adds no power"),
        ("CPU", _cpu(node)),
        ("GPU", _gpu(node)),
    ]
    return pairs(fields, width)


def _head(
    answer: Mapping[str, Any], counts: Cell, *, pod: str, why: str, where: str
) -> Iterator[tuple[str, str | Cell]]:
    demand = answer["pod"]
    needs = f"{demand['cpu_cores']:g} CPUs" + (f", {demand['gpus']:g} GPUs" if demand["gpus"] else "")
    yield "Pod", pod
    yield "Workload class", f"{demand['workload_class']}: {why}"
    yield "Needs", needs
    yield "Extender", _extender(answer, where)
    yield from _problem(answer)
    yield "Nodes", counts


def _extender(answer: Mapping[str, Any], where: str) -> str:
    return f"{where}, score policy {answer['scorePolicy']}"


def _problem(answer: Mapping[str, Any]) -> Iterator[tuple[str, str | Cell]]:
    problem = answer["cluster"]["problem"]
    if problem:
        yield "Problem", Cell(f"the extender's copy of the cluster is old: {problem}", "red")


def _scores(nodes: list[Mapping[str, Any]], width: int | None) -> list[Line]:
    names = list(nodes[0]["terms"])
    columns = [
        TableColumn("NODE", elastic=True),
        TableColumn("SCORE", right=True),
        *(TableColumn(name.upper(), right=True) for name in names),
        TableColumn("ADDS", right=True),
    ]
    return table(columns, (_score_cells(node, names) for node in nodes), width)


def _score_cells(node: Mapping[str, Any], names: Iterable[str]) -> list[Cell]:
    neutral = node["neutral"] is not None
    terms = [Cell(UNKNOWN if neutral else points(node["terms"][name]), "dim" if neutral else "") for name in names]
    adds = node["marginalCpuW"] + node["marginalGpuW"]
    return [Cell(node["nodeName"]), Cell(points(node["score"]), "bold"), *terms, Cell(f"{adds:.0f} W")]


def _refusals(nodes: list[Mapping[str, Any]], width: int | None) -> list[Line]:
    groups: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        groups.setdefault((node["filter"]["reason"], node["filter"]["message"]), []).append(node["nodeName"])
    lines: list[Line] = []
    for (reason, message), names in groups.items():
        sentence = f"{counted(len(names), 'node')}: {message.removeprefix('joulie: ')}: {some_names(sorted(names))}"
        lines += paragraph(sentence, width=width, indent="  ", first=f"refused, {reason}: ")
    return [*lines, line()] if lines else []


def _legend(answer: Mapping[str, Any], nodes: list[Mapping[str, Any]], width: int | None) -> list[Line]:
    """Explain the terms that are listed, and why nodes have the neutral score."""
    lines: list[Line] = []
    known = TERMS.get(answer["scorePolicy"], {})
    for name in nodes[0]["terms"] if nodes else ():
        lines += paragraph(known.get(name, "a term of this score policy"), width=width, indent=" " * 12,
                           first=f"{name.upper():10}  ")  # fmt: skip
    if nodes:
        text = "watts that the pod is estimated to add to the node"
        lines += paragraph(text, width=width, indent=" " * 12, first=f"{'ADDS':10}  ")
    groups: dict[str, list[str]] = {}
    for node in nodes:
        if node["neutral"] is not None:
            groups.setdefault(node["neutral"], []).append(node["nodeName"])
    for reason, names in groups.items():
        text = f"neutral score, as {NEUTRAL.get(reason, reason)}: {some_names(names)}"
        lines += paragraph(text, width=width, indent="  ")
    return lines


def _verdict(judged: Mapping[str, Any]) -> Cell:
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
