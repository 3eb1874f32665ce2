"""Lifts limits ahead: for a pod that was bound to the node, as soon as the kubelet lists its GPUs.

The kubelet assigns devices when it admits a pod, and then makes its volumes, its network and its sandbox, so that the
limits are mostly lifted long before the runtime asks about a container. Guarantees that nothing is lifted for a pod
whose GPUs are not certain, that the kubelet is asked 33 times a second at most, and about no pod for longer than two
seconds. Source: docs/decisions/0059-limits-lifted-before-start.md.
"""

import asyncio
from functools import partial
from typing import Final

from joulie_agent.class_limits.start_looks import PodFound, StartLooks
from joulie_api.container_starts import LIFTED_FOR_S, MOST_WAITING
from joulie_core.holders.pod_gpus import StartingPod
from joulie_core.holders.records import NodePod

#: From the news of a pod to the first look; each of the next ones follows after twice the time of the one before.
FIRST_LOOK_S: Final = 0.03
#: How long a pod is looked at; what the kubelet has not listed by then waits for something, such as a claim's driver.
LOOKED_FOR_S: Final = 2.0


class BoundPods:
    """Pods that were bound to one node and whose GPUs the kubelet does not list yet.

    Args:
        looks: looks at them.
        loop: the event loop that all methods are called in.
    """

    def __init__(self, looks: StartLooks, loop: asyncio.AbstractEventLoop) -> None:
        self._looks = looks
        self._loop = loop
        #: Until when they are looked at, on the loop's clock.
        self._expected: dict[StartingPod, float] = {}
        #: When the kubelet was asked before the limits of their GPUs were lifted, of the last seconds.
        self._lifted: dict[StartingPod, float] = {}
        self._next: asyncio.TimerHandle | None = None

    def pod_changed(self, _key: str, old: NodePod | None, new: NodePod | None) -> None:
        """Take a change of a pod of the node: a handler of its watch."""
        if new is None or (old is not None and old.uid == new.uid):
            return
        # One that the kubelet has accepted before has its devices already.
        if not new.active or new.started_at_s is not None or not new.may_have_gpus:
            return
        if len(self._expected) < MOST_WAITING:
            self._expected[StartingPod(new.namespace, new.name, new.cgroup_uid)] = self._loop.time() + LOOKED_FOR_S
            self._look_in(FIRST_LOOK_S)

    def is_lifted(self, pod: StartingPod) -> bool:
        """Return whether the last seconds have shown that no limit that is not the pod's is left on its GPUs."""
        asked_at = self._lifted.get(pod)
        return asked_at is not None and self._loop.time() - asked_at < LIFTED_FOR_S

    def _look_in(self, wait_s: float) -> None:
        at = self._loop.time() + wait_s
        if self._next is not None:
            if self._next.when() <= at:
                return
            self._next.cancel()
        self._next = self._loop.call_at(at, self._look, wait_s)

    def _look(self, waited_s: float) -> None:
        self._next, now = None, self._loop.time()
        self._expected = {pod: until for pod, until in self._expected.items() if until > now}
        self._lifted = {pod: at for pod, at in self._lifted.items() if now - at < LIFTED_FOR_S}
        for pod in self._expected:
            self._looks.ask_ahead(pod, partial(self._take, pod, now))
        if self._expected:
            self._look_in(waited_s * 2)

    def _take(self, pod: StartingPod, asked_at: float, found: PodFound) -> None:
        if found.gpus is None:
            return
        self._expected.pop(pod, None)
        if not found.left:
            self._lifted[pod] = asked_at
