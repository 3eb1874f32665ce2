"""Updates of running containers on the resource manager's own initiative."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from joulie_api.failure_log import FailureLog
from joulie_containers.nri.handler import NriClient, NriDisconnectedError, NriRequestError
from joulie_containers.nri.proto.nri_pb2 import ContainerUpdate, LinuxContainerUpdate, UpdateContainersRequest
from joulie_containers.resources.ledger import Ledger, SentUpdate
from joulie_containers.resources.values import to_resources
from joulie_core.containers.container import ContainerId

#: How often a runtime that is not connected is tried while updates wait; its next Synchronize carries them too.
_RECONNECT_POLL_S: Final = 1.0

_log = structlog.get_logger()


async def nothing_to_settle() -> None:
    """Let containers get their CPUs at once."""


def add_updates(messages: RepeatedCompositeFieldContainer[ContainerUpdate], updates: Sequence[SentUpdate]) -> None:
    """Add the messages of updates to those of a request or a reply."""
    # Hundreds of containers of one pool or balloon get the same values: what they share is encoded once and copied.
    shared: dict[tuple[int, bool], ContainerUpdate] = {}
    for each in updates:
        key = id(each.values), each.must_succeed
        update = shared.get(key)
        if update is None:
            linux = LinuxContainerUpdate(resources=to_resources(each.values))
            update = shared[key] = ContainerUpdate(linux=linux, ignore_failure=not each.must_succeed)
        message = messages.add()
        message.CopyFrom(update)
        message.container_id = each.container


class Updater:
    """Sends what the ledger has pending and no reply has carried, one batch at a time.

    Args:
        ledger: what is to be sent, and where results are noted.
        client: the runtime.
        title: names a container in the log.
        before: called before updates are made; returns when containers may get the CPUs that they are to have.
    """

    def __init__(
        self,
        ledger: Ledger,
        client: NriClient,
        title: Callable[[ContainerId], str],
        before: Callable[[], Awaitable[None]] = nothing_to_settle,
    ) -> None:
        self._ledger = ledger
        self._client = client
        self._title = title
        self._before = before
        self._wanted = asyncio.Event()
        self._failures = FailureLog(_log, failed="container not updated", recovered="container updated again")
        self.sent = 0
        """How many updates were sent."""
        self.failed = 0
        """How many of them the runtime did not carry out."""

    def wake(self) -> None:
        """Send what is pending soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Send updates until cancelled."""
        while True:
            self._wanted.clear()
            await self._before()
            batch = self._ledger.batch()
            wait_s = self._ledger.next_retry_s() if not batch else None
            if batch:
                wait_s = await self._send(batch)
                if wait_s == 0:
                    continue
            try:
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _send(self, batch: Sequence[SentUpdate]) -> float:
        """Send a batch; return how long to wait before the next one."""
        everything = {each.container for each in batch}
        request = UpdateContainersRequest()
        add_updates(request.update, batch)
        try:
            failed = {ContainerId(each.container_id) for each in await self._client.update_containers(request.update)}
        except NriDisconnectedError:
            self._ledger.settle(batch, everything)
            return _RECONNECT_POLL_S
        except NriRequestError as error:
            _log.warning("updates not carried out", problem=str(error), containers=len(batch))
            failed = everything
        self._ledger.settle(batch, failed)
        self.sent += len(batch)
        self.failed += len(failed)
        for each in batch:
            if each.container in failed:
                self._failures.failed("the runtime failed the update", container=self._title(each.container))
            else:
                self._failures.recovered(container=self._title(each.container))
        pending = {self._title(container) for container in self._ledger.pending}
        self._failures.retain(lambda subject: subject["container"] in pending)  # the others have ended
        return 0
