"""The start hook as a plugin: each new container waits until the controller lets it start, and is never changed.

The controller is asked when the sandbox of a pod was made: the kubelet has assigned its devices by then, and the limits
are mostly lifted when it goes on to create the containers. Guarantees that a container is created whatever happens
here: an answer that is late, or a controller that is not there, delays it by the deadline at most.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from joulie_api.container_starts import LIFTED_FOR_S, MOST_WAITING, HookState
from joulie_containers.nri.handler import RuntimeInfo
from joulie_containers.nri.proto.nri_pb2 import (
    Container,
    CreateContainerResponse,
    LinuxResources,
    PodSandbox,
    StopContainerResponse,
    SynchronizeResponse,
    UpdateContainerResponse,
)
from joulie_containers.start_hook.controller import AskOutcome, ControllerLink

#: Of the time after which a runtime disconnects a plugin.
_SHARE_OF_TIMEOUT: Final = 0.5
_MS_PER_S: Final = 1000

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _EarlyLift:
    """The question about a pod whose sandbox was made."""

    asked_at: float
    #: Whether no limit that is not the pod's is left on its GPUs.
    lifted: asyncio.Task[bool]

    def is_lifted(self) -> bool:
        """Return whether the answer has come and says so."""
        task = self.lifted
        return task.done() and not task.cancelled() and task.exception() is None and task.result()


class StartHook:
    """Asks the controller before each container is created: an `NriHandler`.

    Args:
        link: asks it.
        deadline_s: how long a container waits, in seconds.
        clock: seconds of a clock that does not go back.
    """

    def __init__(self, link: ControllerLink, deadline_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._link = link
        self._clock = clock
        self._configured_s = self._deadline_s = deadline_s
        #: By UID of the pod, of the last seconds.
        self._early: dict[str, _EarlyLift] = {}
        #: Containers since this process has started, by the end of the question, and the time that they waited.
        self.outcomes: Counter[AskOutcome] = Counter()
        self.waited_s = 0.0
        self.longest_wait_s = 0.0

    async def configure(self, runtime: RuntimeInfo) -> None:
        """Keep the deadline well below that of the runtime."""
        self._deadline_s = min(self._configured_s, runtime.request_timeout_s * _SHARE_OF_TIMEOUT)

    async def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> SynchronizeResponse:
        """Tell the controller that containers wait from here on; those that run stay as they are."""
        del pods, containers
        self._link.tell(HookState(registered=True, deadline_s=self._deadline_s))
        return SynchronizeResponse()

    async def create_container(self, pod: PodSandbox, container: Container) -> CreateContainerResponse:
        """Return without a change when the container may start, or when its deadline is over."""
        asked_at = self._clock()
        outcome = await self._ask(pod, asked_at)
        waited_s = self._clock() - asked_at
        self.outcomes[outcome] += 1
        self.waited_s += waited_s
        self.longest_wait_s = max(self.longest_wait_s, waited_s)
        _log.debug(
            "container created",
            namespace=pod.namespace,
            pod=pod.name,
            container=container.name,
            outcome=outcome,
            waited_ms=round(waited_s * _MS_PER_S, 2),
        )
        return CreateContainerResponse()

    async def _ask(self, pod: PodSandbox, now: float) -> AskOutcome:
        self._forget(now)
        early = self._early.get(pod.uid)
        if early is not None and early.is_lifted():
            return AskOutcome.ANSWERED
        question = asyncio.create_task(self._link.ask(pod.namespace, pod.name, pod.uid))
        try:
            if early is not None and not early.lifted.done():
                await asyncio.wait((question, early.lifted), return_when=asyncio.FIRST_COMPLETED)
                if early.is_lifted():
                    return AskOutcome.ANSWERED
            return await question
        finally:
            question.cancel()

    def _forget(self, now: float) -> None:
        """Forget questions after which a limit may be set again."""
        self._early = {uid: each for uid, each in self._early.items() if now - each.asked_at < LIFTED_FOR_S}

    async def run_pod(self, pod: PodSandbox) -> None:
        """Ask about the pod without waiting for the answer."""
        now = self._clock()
        self._forget(now)
        if len(self._early) < MOST_WAITING:
            lifted = asyncio.create_task(self._link.lift_early(pod.namespace, pod.name, pod.uid))
            self._early[pod.uid] = _EarlyLift(now, lifted)

    async def ignore_pod(self, pod: PodSandbox) -> None:
        """Do nothing; the plugin does not ask for this event."""

    async def ignore_container(self, pod: PodSandbox, container: Container) -> None:
        """Do nothing; the plugin does not ask for this event."""

    stop_pod = remove_pod = ignore_pod
    start_container = container_running = remove_container = ignore_container

    async def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> UpdateContainerResponse:
        """Change nothing; the plugin does not ask for this event."""
        del pod, container, resources
        return UpdateContainerResponse()

    async def stop_container(self, pod: PodSandbox, container: Container) -> StopContainerResponse:
        """Change nothing; the plugin does not ask for this event."""
        del pod, container
        return StopContainerResponse()

    async def disconnected(self) -> None:
        """Tell the controller that containers do not wait any more."""
        self._link.tell(HookState(registered=False, deadline_s=self._deadline_s))
