"""The wait of a node's report after its power budget has asked for another limit.

A lower limit of a feed asks thousands of nodes at once, and others wait for the answers in their NodePowerBudgets. The
watts that follow from the limit wait for the pass that comes next without it: each report makes the operator write two
more objects of the node, and together they cost the API server more than the ask and the answer.
"""

from typing import Final

from joulie_core.budget.node_limit import FollowedLimit

#: Longest wait in seconds, where the interval of passes is longer.
LONGEST_S: Final = 20.0


class ReportDelay:
    """The wait of one node, by the clock of its passes."""

    def __init__(self) -> None:
        self._key: tuple[str, str, int] | None = None
        #: When the next pass comes without a change; None before the first pass.
        self._next_s: float | None = None
        #: When the report is due; None: nothing waits.
        self._due_s: float | None = None

    def postpones(self, limit: FollowedLimit | None, now_s: float) -> bool:
        """Return whether what has changed with a limit waits; called once in each pass.

        The first pass of a process postpones nothing, and a further ask does not make the wait longer. Nothing waits
        where the limit counts only while the node is measured: passes for samples would hide when the next one reports.
        """
        key = limit.key if limit and limit.hold is None else None
        is_asked, self._key = key is not None and key != self._key, key
        if self._due_s is None and is_asked and self._next_s is not None:
            self._due_s = min(self._next_s, now_s + LONGEST_S)
        if key is None or (self._due_s is not None and now_s >= self._due_s):
            self._due_s = None
        return self._due_s is not None

    def next_pass_s(self, regular_s: float, started_s: float) -> float:
        """Return when the pass comes that follows one of `started_s`: the regular time, or when the report is due.

        After a pass that was to report and has failed it is the regular time.
        """
        self._next_s = regular_s
        if self._due_s is not None and self._due_s > started_s:
            self._next_s = min(regular_s, self._due_s)
        return self._next_s
