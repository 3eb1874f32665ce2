"""Follows which performance pods wait for GPUs, and lifts the limits by class of the nodes that could take them.

Guarantees that a decision changes a node's target only when limits of the node are lifted or come back: twice within
the time that they stay lifted at most, whatever pods come and go. While the pods are not known, everything stays as it
is. What another operator has published counts as waited for when this one begins to lead.
Source: docs/decisions/0062-limits-lifted-while-performance-pods-wait.md.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import structlog

from joulie_api.failures import Failures
from joulie_api.reflector import LocalCopy
from joulie_core.class_caps.waiting import (
    DEFAULT_RULE,
    UNKNOWN_REQUEST,
    GpuRequest,
    LiftedNodes,
    LiftRule,
    nodes_to_lift,
)
from joulie_core.names import NodeName
from joulie_operator.class_limits.nodes import GpuNodes
from joulie_operator.pods import PodSummary
from joulie_operator.published_state import PublishedState

#: Between two looks at the pods that wait.
STEP_S: Final = 2.0
#: Distinct requests that are matched with nodes one by one; with more, every node with GPUs is waited for.
MOST_REQUESTS: Final = 32
_WORK: Final = "lift limits by class"

_log = structlog.get_logger()


class ClassLimitLifting:
    """The nodes whose limits by class are lifted.

    Args:
        pods: all pods that have not ended.
        nodes: the nodes with GPUs.
        published: what is published for them.
        changed: called for each node whose target has to change.
        failures: counts defects.
        clock: seconds of a clock that does not go back.
        rule: when limits are lifted.
    """

    def __init__(
        self,
        pods: LocalCopy[PodSummary],
        nodes: GpuNodes,
        published: PublishedState,
        changed: Callable[[NodeName], None],
        failures: Failures,
        *,
        clock: Callable[[], float],
        rule: LiftRule = DEFAULT_RULE,
    ) -> None:
        self._pods = pods
        self._gpu_nodes = nodes
        self._published = published
        self._changed = changed
        self._failures = failures
        self._clock = clock
        self._rule = rule
        #: Since when a pod is seen without a node, by key.
        self._since: dict[str, float] = {}
        self._state = LiftedNodes()
        #: Performance pods that have waited for longer than the grace, as of the last look.
        self.waiting = 0
        pods.subscribe(self._on_pod)

    def lifted(self, name: NodeName) -> bool:
        """Return whether limits of a node are lifted."""
        return name in self._state

    async def run(self) -> NoReturn:
        """Look every two seconds until cancelled, once what was published is taken over."""
        self.adopt()
        while True:
            with self._failures.contained(_WORK):
                self.step()
            await asyncio.sleep(STEP_S)

    def adopt(self) -> None:
        """Take over what is published as lifted, as if pods had waited for it until now."""
        targets = ((name, self._published.target(name)) for name in self._published.names())
        specs = ((name, target.spec) for name, target in targets if target is not None)
        lifted = [name for name, spec in specs if spec and spec.class_limits and spec.class_limits.lifted]
        self._state = self._state.step(lifted, self._clock(), self._rule)

    def step(self) -> None:
        """Lift the limits of the nodes that are waited for now, and let others come back."""
        if self._pods.is_stale() or self._gpu_nodes.stale:
            return
        now, before = self._clock(), self._state
        waiting = list(self._waiting(now))
        self.waiting = len(waiting)
        requests = set(waiting)
        if len(requests) > MOST_REQUESTS:
            requests = {UNKNOWN_REQUEST}
        self._state = before.step(nodes_to_lift(requests, list(self._gpu_nodes.current()), self._rule), now, self._rule)
        self._report(before)

    @property
    def lifted_nodes(self) -> int:
        """Number of nodes whose limits are lifted."""
        return len(self._state.waited_s)

    def _waiting(self, now: float) -> Iterator[GpuRequest]:
        """Yield the request of each pod that waits."""
        store = self._pods.store
        for key, since_s in self._since.items():
            pod = store.get(key)
            if pod is not None and pod.awaited_gpus is not None and now - since_s >= self._rule.grace_s:
                yield pod.awaited_gpus
        yield from (UNKNOWN_REQUEST for key in self._pods.invalid if key not in store)

    def _report(self, before: LiftedNodes) -> None:
        lifted, back = (
            self._state.waited_s.keys() - before.waited_s.keys(),
            before.waited_s.keys() - self._state.waited_s,
        )
        for name in sorted(lifted | back):
            self._changed(NodeName(name))
        if lifted:
            _log.info("limits by class lifted", nodes=len(lifted), waiting_pods=self.waiting)
        if back:
            _log.info("limits by class back", nodes=len(back))

    def _on_pod(self, key: str, _old: PodSummary | None, new: PodSummary | None) -> None:
        if new is None or new.awaited_gpus is None:
            self._since.pop(key, None)
        else:
            self._since.setdefault(key, self._clock())
