"""Consequences of decisions besides placements.

Log lines, counts, Events of pods, CPU classes, interrupts and timers.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from joulie_api.failure_log import FailureLog
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ResourceApiError
from joulie_containers.resources.cpu_classes import CpuClassController
from joulie_containers.resources.interrupts import InterruptController
from joulie_containers.resources.metrics import ManagerCounts
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import Cpus
from joulie_core.containers.interrupts import InterruptPlacement
from joulie_core.containers.policy import PolicyEvent, PolicyTimer, PolicyWarning

#: Events that wait for the node agent; the oldest are dropped.
_MOST_EVENTS: Final = 256
_RETRY_S: Final = 5.0
REJECTED: Final = "ContainerRejected"

_log = structlog.get_logger()


class EventRecorder(Protocol):
    """Records Events of pods (`joulie_containers.resource_api.cluster.ClusterClient`)."""

    async def record_events(self, events: Iterable[pb.PodEvent]) -> None:
        """Record events; raises ResourceApiError where that is not possible."""


class DecisionReports:
    """Takes the consequences of decisions (`joulie_containers.resources.engine.Consequences`).

    Args:
        counts: of metrics.
        classes: the CPU classes.
        interrupts: the CPUs of interrupts.
        recorder: records Events; None where there is no node agent.
    """

    def __init__(
        self,
        counts: ManagerCounts,
        classes: CpuClassController,
        interrupts: InterruptController,
        recorder: EventRecorder | None,
    ) -> None:
        self._counts = counts
        self._classes = classes
        self._interrupts = interrupts
        self._recorder = recorder
        self._events: deque[pb.PodEvent] = deque(maxlen=_MOST_EVENTS)
        self._event_added = asyncio.Event()
        self._failures = FailureLog(_log, failed="events not recorded", recovered="events recorded again")
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_event: Callable[[PolicyEvent], Awaitable[None]] | None = None
        """Takes the events of timers; set before the first timer is requested."""

    def rejected(self, container: ContainerInfo, reason: str) -> None:
        """Note that a container could not be placed."""
        self._counts.rejected += 1
        _log.warning("container not placed", container=container.title, id=container.id, reason=reason)
        self._add_event(container, REJECTED, reason)

    def warned(self, container: ContainerInfo | None, warning: PolicyWarning) -> None:
        """Note a warning of the policy."""
        self._counts.warnings[warning.reason] += 1
        title = warning.container if container is None else container.title
        _log.warning("container policy warns", container=title, reason=warning.reason, message=warning.message)
        if container is not None:
            self._add_event(container, warning.reason, warning.message)

    def tell(self, container: ContainerInfo, reason: str, message: str) -> None:
        """Record an Event about a container; its cause is in the log already."""
        self._add_event(container, reason, message)

    def moved(self, containers: Sequence[ContainerId]) -> None:
        """Note which containers that were placed before get another placement."""
        self._counts.moved += len(containers)
        if containers:
            _log.debug("placements changed", containers=containers)

    def classes_changed(self, cpu_classes: Mapping[str, Cpus]) -> None:
        """Note which CPUs have which CPU class."""
        self._classes.assign(cpu_classes)

    def interrupts_changed(self, wanted: InterruptPlacement) -> None:
        """Note what the policy wants of interrupts."""
        self._interrupts.assign(wanted)

    def timers(self, timers: Iterable[PolicyTimer]) -> None:
        """Start timers; one that a restart loses is requested again when the containers are synchronized."""
        loop = asyncio.get_running_loop()
        for timer in timers:
            self._start(loop, timer)

    def _start(self, loop: asyncio.AbstractEventLoop, timer: PolicyTimer) -> None:
        def fire() -> None:
            self._timers.discard(handle)
            assert self.on_event is not None, "timers are started by decisions, which come after the wiring"
            task = loop.create_task(_run(self.on_event, timer.event))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

        handle = loop.call_later(timer.after_s, fire)
        self._timers.add(handle)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("policy event failed", exc_info=error)

    def close(self) -> None:
        """Stop all timers."""
        for handle in self._timers:
            handle.cancel()
        for task in self._tasks:
            task.cancel()

    async def run(self) -> None:
        """Send events until cancelled; without a recorder they are in the log only."""
        while True:
            await self._event_added.wait()
            self._event_added.clear()
            if self._events and not await self._send():
                await asyncio.sleep(_RETRY_S)
                self._event_added.set()

    async def _send(self) -> bool:
        assert self._recorder is not None
        events = list(self._events)
        try:
            await self._recorder.record_events(events)
        except ResourceApiError as error:
            self._failures.failed(error)
            return False
        self._failures.recovered()
        for event in events:
            if self._events and self._events[0] is event:  # not dropped meanwhile
                self._events.popleft()
        return True

    def _add_event(self, container: ContainerInfo, reason: str, message: str) -> None:
        if self._recorder is None:
            return
        pod = container.pod
        self._events.append(
            pb.PodEvent(
                namespace=pod.namespace,
                pod=pod.name,
                pod_uid=pod.uid,
                reason=reason,
                message=f"container {container.name}: {message}",
            )
        )
        self._event_added.set()


async def _run(on_event: Callable[[PolicyEvent], Awaitable[None]], event: PolicyEvent) -> None:
    await on_event(event)
