"""Scores of a pod's nodes as people see them: a table of the terms, and what each of them is."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from joulie_cli.layout import UNKNOWN, Cell, Line, TableColumn, paragraph, percent, points, some_names, table

_LEFT_FREE: Final = {
    "gpu": "points for not taking CPUs away from GPUs",
    "performance": "points for not taking room from performance pods",
}
#: What each term is, by score policy and name.
_TERMS: Final[Mapping[str, Mapping[str, str]]] = {
    "headroom_v1": {
        "headroom": "up to 70 points for power that is free under the cap with the pod in place",
        "cooling": "up to 15 points for a node whose cooling has reserves",
        "trend": "up to 25 points for falling power, as many off for rising power",
        "profile": "10 points for a standard pod on an eco node",
        "pressure": "points off a standard pod on a performance node while performance nodes are busy",
    },
    "energy_v1": {"energy": "points for little energy for the pod's work", **_LEFT_FREE},
    "energy_v2": {"energy": "points for little energy for the pod's work, idle power included", **_LEFT_FREE},
}
#: Why a node has the neutral score.
_NEUTRAL: Final[Mapping[str, str]] = {
    "NoTwin": "the node has no twin",
    "StaleTwin": "the node's twin is too old",
    "NoHeadroom": "neither power nor headroom of the node is known",
}


def score_table(nodes: list[Mapping[str, Any]], width: int | None) -> list[Line]:
    """Return a line for each node, from the answer of `/debug/explain`; at least one node is required."""
    names = list(nodes[0]["terms"])
    covered = _any_covered(nodes)
    columns = [
        TableColumn("NODE", elastic=True),
        TableColumn("SCORE", right=True),
        *(TableColumn(name.upper(), right=True) for name in names),
        *([TableColumn("COVERED", right=True)] if covered else []),
        TableColumn("ADDS", right=True),
    ]
    return table(columns, (_score_cells(node, names, covered=covered) for node in nodes), width)


def _any_covered(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the pod's run time is covered on a node, by an extender that tells."""
    return any(node.get("coveredShare") for node in nodes)


def _score_cells(node: Mapping[str, Any], names: Iterable[str], *, covered: bool) -> list[Cell]:
    neutral = node["neutral"] is not None
    terms = [Cell(UNKNOWN if neutral else points(node["terms"][name]), "dim" if neutral else "") for name in names]
    adds = node["marginalCpuW"] + node["marginalGpuW"]
    if covered:
        terms.append(Cell(percent(100 * node.get("coveredShare", 0.0))))
    return [Cell(node["nodeName"]), Cell(points(node["score"]), "bold"), *terms, Cell(f"{adds:.0f} W")]


def score_legend(answer: Mapping[str, Any], nodes: list[Mapping[str, Any]], width: int | None) -> list[Line]:
    """Explain the terms that are listed, and why nodes have the neutral score."""
    lines: list[Line] = []
    known = _TERMS.get(answer["scorePolicy"], {})
    for name in nodes[0]["terms"] if nodes else ():
        lines += paragraph(known.get(name, "a term of this score policy"), width=width, indent=" " * 12,
                           first=f"{name.upper():10}  ")  # fmt: skip
    if _any_covered(nodes):
        text = "of the pod's run time, for which other pods of the node are stated to run: so long no idle power counts"
        lines += paragraph(text, width=width, indent=" " * 12, first=f"{'COVERED':10}  ")
    if nodes:
        text = "watts that the pod is estimated to add to the node"
        lines += paragraph(text, width=width, indent=" " * 12, first=f"{'ADDS':10}  ")
    groups: dict[str, list[str]] = {}
    for node in nodes:
        if node["neutral"] is not None:
            groups.setdefault(node["neutral"], []).append(node["nodeName"])
    for reason, names in groups.items():
        text = f"neutral score, as {_NEUTRAL.get(reason, reason)}: {some_names(names)}"
        lines += paragraph(text, width=width, indent="  ")
    return lines
