"""The event pipeline: requests of the runtime and events of the policy, one at a time.

Guarantees that a request is answered well within the runtime's timeout, whatever the pipeline is busy with. A request
that does not get its turn in time is answered without its result, and carried out when its turn comes; what follows
from it is then sent as an update (`OnDeadline.ADMIT`). With `OnDeadline.REJECT` a creation is refused instead.
Source: docs/decisions/0014-container-resources.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import structlog

from joulie_containers.nri.handler import RequestRefusedError, RuntimeInfo
from joulie_containers.nri.proto.nri_pb2 import (
    CONTAINER_CREATED,
    CONTAINER_STOPPED,
    Container,
    ContainerAdjustment,
    CreateContainerResponse,
    LinuxResources,
    Mount,
    PodSandbox,
    StopContainerResponse,
    SynchronizeResponse,
    UpdateContainerResponse,
)
from joulie_containers.resources.engine import Configured, PlacementEngine
from joulie_containers.resources.settings import OnDeadline
from joulie_containers.resources.translate import PRESENT, ContainerReader, pod_info
from joulie_containers.resources.updates import add_updates, nothing_to_settle
from joulie_containers.resources.values import UNSET, ContainerValues, read_values, to_resources
from joulie_core.containers.container import ContainerId, ContainerInfo, PodInfo, PodSandboxId
from joulie_core.containers.idset import InvalidIdListError
from joulie_core.containers.policy import Placement, PolicyEvent

#: Shares of the runtime's timeout within which a request gets its turn, and its work is done; the rest is for sending
#: the reply. The work of a request other than Synchronize takes milliseconds.
_BUDGET: Final = 0.6
#: Of a reply without a turn, in addition: for what is to be done before any reply.
_LATE_BUDGET: Final = 0.2
_REQUEST_TIMEOUT_S: Final = 2.0

_log = structlog.get_logger()


class PipelineRequest(StrEnum):
    """Name of what passes the pipeline, in logs and metrics."""

    SYNCHRONIZE = "synchronize"
    CREATE = "create"
    UPDATE = "update"
    STOP = "stop"
    REMOVE = "remove"
    POLICY_EVENT = "policy_event"
    CONFIGURE = "configure"


class PipelineObserver(Protocol):
    """Takes figures of the pipeline."""

    def handled(self, request: PipelineRequest, seconds: float, *, late: bool) -> None:
        """Note how long a request took until its reply, and whether it was answered without its result."""


class AdjustmentControllers(Protocol):
    """Controllers of what a container gets at its creation besides its cgroup values."""

    def complete(self, adjustment: ContainerAdjustment, container: ContainerInfo, placement: Placement) -> None:
        """Add to an adjustment."""


class ContainerFiles(Protocol):
    """Files that are mounted into containers."""

    async def create(self, container: ContainerId) -> Mount | None:
        """Write the file of a container that is being created; None where it starts without."""

    def wake(self) -> None:
        """Note that containers or placements may have changed."""


@dataclass(slots=True)
class _Creation:
    """A creation that waits for its turn."""

    #: It was refused before its turn came.
    refused: bool = False
    #: It was replied to before its turn came.
    late: bool = False
    #: What the reply mounts into the container.
    mount: Mount | None = None


class Pipeline:
    """The handler of a runtime's requests (`joulie_containers.nri.handler.NriHandler`).

    Args:
        engine: decides.
        reader: reads containers of messages.
        controllers: complete the adjustments of new containers.
        observer: takes figures.
        on_deadline: what happens to a creation that does not get its turn in time.
        on_configure: takes the runtime when it configures the plugin.
        updates_wanted: called when there may be updates to send that no reply carries.
        files: what is mounted into new containers; None where nothing is.
        before_reply: called when placements may have changed; returns when containers may get the CPUs that they are to
            have.
    """

    def __init__(
        self,
        engine: PlacementEngine,
        reader: ContainerReader,
        controllers: AdjustmentControllers,
        observer: PipelineObserver,
        *,
        on_deadline: OnDeadline,
        on_configure: Callable[[RuntimeInfo], Awaitable[None]],
        updates_wanted: Callable[[], None],
        files: ContainerFiles | None = None,
        before_reply: Callable[[], Awaitable[None]] = nothing_to_settle,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._controllers = controllers
        self._observer = observer
        self._on_deadline = on_deadline
        self._on_configure = on_configure
        self._updates_wanted = updates_wanted
        self._files = files
        self._before_reply = before_reply
        #: Containers whose creation was replied to before its turn; of these, those that were not placed since.
        self._late: set[ContainerId] = set()
        self._waiting: set[ContainerId] = set()
        self._turn = asyncio.Lock()
        self._work: set[asyncio.Task[None]] = set()
        self._cgroups: dict[ContainerId, str] = {}
        self._request_timeout_s = _REQUEST_TIMEOUT_S

    @property
    def cgroups(self) -> Mapping[ContainerId, str]:
        """The runtime's names of the cgroups of the containers."""
        return self._cgroups

    @property
    def has_unplaced(self) -> bool:
        """Whether a container may run that is not placed, or that the runtime has not moved to its place yet."""
        if self._late:
            self._late &= self._waiting | self._engine.ledger.pending.keys()
        return bool(self._late)

    # Requests of the runtime

    async def configure(self, runtime: RuntimeInfo) -> None:
        """Note how long the runtime waits for a reply, and the configuration of a plugin that it has started."""
        self._request_timeout_s = runtime.request_timeout_s
        await self._on_configure(runtime)

    async def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> SynchronizeResponse:
        """Bring the state to exactly what the runtime lists."""
        # Not in turn: a container may run before that.
        self._engine.ledger.list_not_running(
            ContainerId(container.id) for container in containers if container.state == CONTAINER_CREATED
        )

        async def work() -> None:
            listed = {PodSandboxId(pod.id): pod_info(pod) for pod in pods}
            self._cgroups = {}
            self._late.clear()
            self._waiting.clear()
            present: dict[ContainerId, tuple[ContainerInfo, ContainerValues]] = {}
            for container in containers:
                pod = listed.get(PodSandboxId(container.pod_sandbox_id))
                if pod is None:
                    _log.warning("container without pod ignored", container=container.id)
                elif container.state in PRESENT:
                    values = _values_in_force(container.linux.resources)
                    present[ContainerId(container.id)] = self._info(pod, container), values
            await self._engine.synchronize(present)

        response = SynchronizeResponse()
        if await self._in_turn(PipelineRequest.SYNCHRONIZE, work):
            add_updates(response.update, self._engine.ledger.reply())
        return response

    async def run_pod(self, pod: PodSandbox) -> None:
        """Do nothing: no resources depend on a pod, and each message of a container has it."""

    async def stop_pod(self, pod: PodSandbox) -> None:
        """Release what the runtime has not reported as stopped."""
        await self._end_pod(pod)

    async def remove_pod(self, pod: PodSandbox) -> None:
        """Drop a pod, with what the runtime has not reported as stopped."""
        await self._end_pod(pod)

    async def create_container(self, pod: PodSandbox, container: Container) -> CreateContainerResponse:
        """Place a new container.

        Raises:
            RequestRefusedError: it cannot be placed, or not in time where that is configured.
        """
        info = self._info(pod_info(pod), container)
        ledger = self._engine.ledger
        ledger.not_running(info.id)
        try:
            return await self._create(info)
        except RequestRefusedError:
            ledger.forget(info.id)
            self._cgroups.pop(info.id, None)
            raise

    async def _create(self, info: ContainerInfo) -> CreateContainerResponse:
        creation = _Creation()

        async def work() -> None:
            if creation.refused:
                return
            await self._engine.create(info, with_classes=not creation.late)
            self._waiting.discard(info.id)
            if self._files is not None and not creation.late:
                creation.mount = await self._files.create(info.id)

        if await self._in_turn(PipelineRequest.CREATE, work):
            if info.id not in self._engine.containers:
                # Another registration has begun meanwhile.
                return CreateContainerResponse(adjust=ContainerAdjustment())
            updates = self._engine.ledger.reply_to_creation(info.id)
            adjustment = self._adjustment(info, self._engine.ledger.wanted(info.id))
            if creation.mount is not None:
                adjustment.mounts.append(creation.mount)
            response = CreateContainerResponse(adjust=adjustment)
            add_updates(response.update, updates)
            return response
        if self._on_deadline is OnDeadline.REJECT:
            creation.refused = True
            raise RequestRefusedError("the containers of this node are being placed anew; this one was not in time")
        creation.late = True
        self._late.add(info.id)
        self._waiting.add(info.id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LATE_BUDGET * self._request_timeout_s):
                await self._before_reply()
        return CreateContainerResponse(adjust=self._adjustment(info, self._values_of_earlier(info)))

    async def start_container(self, pod: PodSandbox, container: Container) -> None:
        """Note that the runtime has carried out what the reply to the creation of a container had."""
        del pod
        self._engine.ledger.started(ContainerId(container.id))

    async def container_running(self, pod: PodSandbox, container: Container) -> None:
        """Send what has changed in a container while it was starting."""
        del pod
        self._engine.ledger.running(ContainerId(container.id))
        if self._engine.ledger.has_pending:
            self._updates_wanted()

    async def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> UpdateContainerResponse:
        """Place a container whose resources change.

        Raises:
            RequestRefusedError: it cannot be placed with these; it stays where it is.
        """
        if container.state == CONTAINER_STOPPED:
            return UpdateContainerResponse()  # it was released, and no later event would release it again
        info = self._info(pod_info(pod), container, resources)
        values = _values_in_force(resources)

        async def work() -> None:
            await self._engine.update(info)
            self._engine.ledger.overwrite(info.id, values)

        response = UpdateContainerResponse()
        if await self._in_turn(PipelineRequest.UPDATE, work):
            add_updates(response.update, self._engine.ledger.reply_to_update())
        return response

    async def stop_container(self, pod: PodSandbox, container: Container) -> StopContainerResponse:
        """Release what a container was granted."""
        del pod
        response = StopContainerResponse()
        if await self._release(PipelineRequest.STOP, lambda: [ContainerId(container.id)]):
            add_updates(response.update, self._engine.ledger.reply())
        return response

    async def remove_container(self, pod: PodSandbox, container: Container) -> None:
        """Release what a container was granted, if the runtime did not report that it stopped."""
        del pod
        if container.id in self._engine.containers or container.id in self._cgroups or container.id in self._late:
            await self._release(PipelineRequest.REMOVE, lambda: [ContainerId(container.id)])
            self._updates_wanted()

    async def disconnected(self) -> None:
        """Keep everything: after the next registration the runtime lists what there is."""

    # Events from elsewhere

    async def policy_event(self, event: PolicyEvent) -> None:
        """Let the policy react to an event, and send what follows."""
        await self._locked(PipelineRequest.POLICY_EVENT, lambda: self._engine.handle(event))
        self._updates_wanted()

    async def apply(self, configured: Configured) -> None:
        """Apply a configuration, and send what follows."""
        await self._locked(PipelineRequest.CONFIGURE, lambda: self._engine.configure(configured))
        self._updates_wanted()

    async def adjust(self) -> Mapping[ContainerId, str]:
        """Apply changed adjustments, and send what follows; return what could not be done, by container."""
        errors: Mapping[ContainerId, str] = {}

        async def work() -> None:
            nonlocal errors
            errors = self._engine.adjust()

        await self._exclusively(work)
        self._updates_wanted()
        return errors

    # How they get their turn

    async def _in_turn(self, request: PipelineRequest, work: Callable[[], Awaitable[None]]) -> bool:
        """Do work in turn; return False where it is not done in time and goes on."""
        start = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._exclusively(work), name=f"pipeline {request}")
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        try:
            await asyncio.wait({task}, timeout=_BUDGET * self._request_timeout_s)
        except asyncio.CancelledError:
            self._continue(task, request)
            raise
        late = not task.done()
        self._observer.handled(request, asyncio.get_running_loop().time() - start, late=late)
        if late:
            _log.warning("request answered before its turn", request=request)
            self._continue(task, request)
            return False
        task.result()
        if self._engine.ledger.has_pending:
            self._updates_wanted()
        return True

    def _continue(self, task: asyncio.Task[None], request: PipelineRequest) -> None:
        """Let a task go on without a request that waits for it."""

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            if isinstance(error, RequestRefusedError):
                _log.warning("request not carried out", request=request, reason=str(error))
            elif error is not None:
                _log.error("request failed", request=request, exc_info=error)
            self._updates_wanted()

        task.add_done_callback(ended)

    async def _locked(self, request: PipelineRequest, work: Callable[[], Awaitable[None]]) -> None:
        start = asyncio.get_running_loop().time()
        await self._exclusively(work)
        self._observer.handled(request, asyncio.get_running_loop().time() - start, late=False)

    async def _exclusively(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do work in turn, and store what follows from it; the reply waits for that."""
        async with self._turn:
            try:
                await work()
            except RequestRefusedError:
                await self._engine.save()  # an earlier container of the name of a refused one is gone
                raise
            finally:
                if self._files is not None:
                    self._files.wake()
            await self._before_reply()
            await self._engine.save()

    async def _release(self, request: PipelineRequest, names: Callable[[], Sequence[ContainerId]]) -> bool:
        async def work() -> None:
            self._free(names())

        return await self._in_turn(request, work)

    def _free(self, names: Sequence[ContainerId]) -> None:
        self._engine.release(names)
        for name in names:
            self._cgroups.pop(name, None)
            self._late.discard(name)
            self._waiting.discard(name)

    async def _end_pod(self, pod: PodSandbox) -> None:
        async def work() -> None:
            self._free([info.id for info in self._engine.containers.values() if info.pod.id == pod.id])
            self._engine.end_pod(PodSandboxId(pod.id))

        await self._in_turn(PipelineRequest.REMOVE, work)

    # Messages

    def _info(self, pod: PodInfo, container: Container, update: LinuxResources | None = None) -> ContainerInfo:
        if container.linux.cgroups_path:
            self._cgroups[ContainerId(container.id)] = container.linux.cgroups_path
        known = self._engine.known_resources(ContainerId(container.id))
        return self._reader.container(pod, container, known, update)

    def _adjustment(self, info: ContainerInfo, values: ContainerValues) -> ContainerAdjustment:
        adjustment = ContainerAdjustment()
        if values != UNSET:
            adjustment.linux.resources.CopyFrom(to_resources(values))
        if (placement := self._engine.placements.get(info.id)) is not None:
            self._controllers.complete(adjustment, self._engine.containers[info.id], placement)
        return adjustment

    def _values_of_earlier(self, info: ContainerInfo) -> ContainerValues:
        """Return what an earlier container of the same name in the pod has, which has ended."""
        for other in self._engine.containers.values():
            if other.pod.id == info.pod.id and other.name == info.name:
                return self._engine.ledger.in_force(other.id)
        return UNSET


def _values_in_force(resources: LinuxResources) -> ContainerValues:
    try:
        return read_values(resources)
    except InvalidIdListError as error:
        _log.warning("resources of a message not understood", problem=str(error))
        return UNSET
