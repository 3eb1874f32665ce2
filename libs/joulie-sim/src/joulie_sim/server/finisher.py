"""Writes the completion of pods to the API server.

Guarantees that every completed pod becomes Succeeded once the API server can be reached, started in order of
completion: a write that fails for lack of a connection is repeated. A pod that is gone or was replaced is skipped. With
a time to live, the pod is deleted that long after it succeeded.
"""

import asyncio
from typing import Any, Final

import structlog

from joulie_api.client import KubeClient
from joulie_api.errors import ApiError, Conflict, KubeError, NotFound, ServerError, TooManyRequests
from joulie_api.resources import PODS
from joulie_sim.server.simulator import Finished

_IN_FLIGHT: Final = 16
_RETRY_S: Final = 1.0

_log = structlog.get_logger()


class Finisher:
    """A queue of finished pods and the task that processes it."""

    def __init__(self, client: KubeClient, *, ttl_s: float | None) -> None:
        self._client = client
        self._ttl_s = ttl_s
        self._queue: asyncio.Queue[Finished] = asyncio.Queue()

    def put(self, finished: Finished) -> None:
        """Add a finished pod, without blocking."""
        self._queue.put_nowait(finished)

    async def run(self) -> None:
        """Process the queue until cancelled."""
        async with asyncio.TaskGroup() as group:
            slots = asyncio.Semaphore(_IN_FLIGHT)
            while True:
                finished = await self._queue.get()
                await slots.acquire()
                group.create_task(self._finish(finished)).add_done_callback(lambda _task: slots.release())
                if self._ttl_s is not None:
                    group.create_task(self._delete_later(finished, self._ttl_s))

    async def _finish(self, finished: Finished) -> None:
        while True:
            try:
                await self._client.merge_patch(
                    PODS, finished.name, _succeeded(finished), finished.namespace, subresource="status"
                )
            except (NotFound, Conflict):
                return
            except KubeError as error:
                if not _is_retryable(error):
                    raise
                _log.warning("writing pod status failed, retrying", pod=finished.name, error=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _delete_later(self, finished: Finished, ttl_s: float) -> None:
        await asyncio.sleep(ttl_s)
        try:
            await self._client.delete(PODS, finished.name, finished.namespace)
        except KubeError as error:
            # Not retried: the pod has succeeded and holds no resources.
            if not isinstance(error, NotFound):
                _log.warning("deleting finished pod failed", pod=finished.name, error=str(error))


def _is_retryable(error: KubeError) -> bool:
    return not isinstance(error, ApiError) or isinstance(error, (ServerError, TooManyRequests))


def _succeeded(finished: Finished) -> dict[str, Any]:
    done = finished.completion
    took_s = done.completed_s - done.started_s
    status = {
        "phase": "Succeeded",
        "reason": "SimulatedWorkDone",
        "message": f"{done.work_s:.1f} s of work took {took_s:.1f} s",
    }
    # The uid makes the patch a conflict if another pod has the name now.
    return {"metadata": {"uid": finished.uid}, "status": status}
