"""Moments at which the pods of each node end by what they state, kept up to date pod by pod.

A pod that states nothing, or of which it is not known when it began, is not entered, and one whose moment has passed
covers nothing: so nothing that is not known keeps a node on. Times are seconds since the epoch.
Source: docs/decisions/0051-stated-run-time.md.
"""

from dataclasses import dataclass
from typing import Final

from joulie_core.names import NodeName
from joulie_core.stated_time import NINTHS

#: Nodes have some hundred pods; of one with more than this the others are left out, so that a change takes no longer.
MOST_PODS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Run:
    began_s: float
    expected_s: float

    @property
    def end_s(self) -> float:
        return self.began_s + self.expected_s


class StatedEnds:
    """The moments."""

    def __init__(self) -> None:
        #: By node and pod; no node is kept without a pod.
        self._runs: dict[NodeName, dict[str, _Run]] = {}
        self._last_s: dict[NodeName, float] = {}

    def put(
        self,
        node: NodeName,
        uid: str,
        expected_s: float,
        *,
        started_s: float | None,
        bound_s: float | None,
        now_s: float,
    ) -> None:
        """Enter a pod that is on a node, or what is new of it.

        Args:
            node: where the pod is.
            uid: the pod.
            expected_s: how long it is expected to run.
            started_s: when the kubelet took it; in the future it counts as now, None where it has not.
            bound_s: when it was seen to be bound; None where that was not seen, or before.
            now_s: this moment.
        """
        runs = self._runs.get(node, {})
        before = runs.get(uid)
        if started_s is not None:
            began_s: float | None = min(started_s, now_s)
        else:
            began_s = bound_s if before is None else before.began_s
        if began_s is None or (before is None and len(runs) >= MOST_PODS):
            return
        runs[uid] = _Run(began_s, expected_s)
        self._runs[node] = runs
        self._last_s[node] = max(run.end_s for run in runs.values())

    def drop(self, node: NodeName, uid: str) -> None:
        """Remove a pod, which need not be entered."""
        runs = self._runs.get(node)
        if runs is None or runs.pop(uid, None) is None:
            return
        if runs:
            self._last_s[node] = max(run.end_s for run in runs.values())
        else:
            del self._runs[node], self._last_s[node]

    def covered(self, run_s: float, now_s: float) -> dict[str, int]:
        """Return the ninths of a pod's run time for which others are stated to run, of the nodes where it is above 0.

        Args:
            run_s: how long the pod runs at most, above 0.
            now_s: the moment at which it is placed.
        """
        # `covered_ninths` written out: called for each of thousands of nodes it takes three times as long.
        covered: dict[str, int] = {}
        per_s = NINTHS / run_s
        for node, last_s in self._last_s.items():
            ninths = (last_s - now_s) * per_s
            if ninths >= 1.0:
                covered[node] = int(ninths) if ninths < NINTHS else NINTHS
        return covered

    def __len__(self) -> int:
        """Return the number of nodes that have such pods."""
        return len(self._runs)
