"""Limits by class that are set late, as on a node: jobs whose GPUs will be limited and are not yet.

On a node a limit is set at the first look at which the decision has been the same for `SETTLED_S`. The engine has no
looks: the first look at a job, or at a node whose limits are no longer lifted, is half of `STEP_S` after the event, its
mean. Source: docs/decisions/0018-simulator-engine.md.
"""

from collections import OrderedDict
from math import inf
from typing import Final

from joulie_core.class_caps.enforced_limit import SETTLED_S, STEP_S

#: From the moment from which on a limit is allowed to the one at which it is set.
SET_AFTER_S: Final = SETTLED_S + STEP_S / 2.0


class SettlingJobs:
    """Running jobs whose GPUs will be limited, in order of start. Times must not fall from call to call."""

    def __init__(self) -> None:
        #: When the GPUs of a job are limited; ordered, as all jobs take the same time. Its first entry is found in
        #: constant time, which that of a dict is not.
        self._due_s: OrderedDict[int, float] = OrderedDict()

    def __contains__(self, job: int) -> bool:
        return job in self._due_s

    def next_s(self) -> float:
        """Return when the GPUs of the next job are limited; infinity if there is none."""
        return next(iter(self._due_s.values()), inf)

    def started(self, job: int, now_s: float) -> None:
        """Take a job that starts now."""
        self._due_s[job] = now_s + SET_AFTER_S

    def ended(self, job: int) -> None:
        """Take a job that has ended or was stopped; also one that is not here."""
        self._due_s.pop(job, None)

    def first(self) -> int:
        """Return the job whose GPUs are limited next."""
        return next(iter(self._due_s))
